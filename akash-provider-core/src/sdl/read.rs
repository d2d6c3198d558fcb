//! Conversion of the tree to a document with typed fields.

mod profile;
mod service;
mod value;

use super::diagnostics::Diagnostics;
use super::document::{
    Compute, DeploymentEntry, Document, NamedParts, Placement, PlacementEntry, SdlVersion,
};
use super::fault::{ErrorKind, Location, SdlError, truncated};
use super::node::YamlNode;
use super::scalar;
use std::time::Duration;
use value::{MapFields, ValueRef};

/// Reads the whole document. Errors in one part do not hide errors in others.
///
/// # Errors
/// Returns an error when the root is not a map.
pub(super) fn document(root: &YamlNode, notes: &mut Diagnostics) -> Result<Document, SdlError> {
    let top = ValueRef::top(root).map()?;
    let version = version(&top, notes);
    // With a default for an invalid version, the rest is still read, so that all errors are reported at once.
    let version = notes.keep(version).unwrap_or(SdlVersion::V2_0);
    let fields = [
        "version",
        "include",
        "services",
        "profiles",
        "deployment",
        "endpoints",
        "reclamation",
    ];
    top.only(&fields, notes);
    if let Some(include) = top.get("include") {
        let read = include.texts(notes);
        notes.keep(read);
        let problem = "includes are not supported by the tools of the network";
        notes.warn(include.spot.warning(problem, "put everything into one text"));
    }
    let at = top.get("services");
    let services_line = at.as_ref().map_or(1, |at| at.spot.line);
    let services = named(at, notes, service::service);
    let (compute, placements) = profiles(&top, notes);
    let at = top.required("deployment", "assign each service to a placement");
    let at = notes.keep(at);
    let deployment_line = at.as_ref().map_or(1, |at| at.spot.line);
    let mut deployment = named(at, notes, deployed);
    // The missing section was reported above. Marked as unread, to suppress a second error that nothing is
    // deployed.
    deployment.is_unread |= top.get("deployment").is_none();
    let reclamation = reclamation(&top, notes);
    Ok(Document {
        version,
        services_line,
        services,
        compute,
        placements,
        deployment_line,
        deployment,
        endpoints: named(top.get("endpoints"), notes, endpoint),
        reclamation: notes.keep(reclamation).flatten(),
    })
}

fn profiles(top: &MapFields<'_>, notes: &mut Diagnostics) -> (NamedParts<Compute>, NamedParts<Placement>) {
    let Some(at) = top.get("profiles") else {
        return Default::default();
    };
    let Some(profiles) = notes.keep(at.map()) else {
        let (mut compute, mut placements) = <(NamedParts<_>, NamedParts<_>)>::default();
        // Missing names are not reported if the names could not be read.
        (compute.is_unread, placements.is_unread) = (true, true);
        return (compute, placements);
    };
    profiles.warn_others(&["compute", "placement"], notes);
    let compute = named(profiles.get("compute"), notes, profile::compute);
    let placements = named(profiles.get("placement"), notes, profile::placement);
    (compute, placements)
}

/// Reads the entries of an optional map. An invalid entry does not affect the others.
fn named<T>(
    at: Option<ValueRef<'_>>,
    notes: &mut Diagnostics,
    read: impl Fn(&ValueRef<'_>, &mut Diagnostics) -> Result<T, SdlError>,
) -> NamedParts<T> {
    let mut named = NamedParts::default();
    let Some(fields) = at.map(|at| at.map()) else {
        return named;
    };
    let Some(fields) = notes.keep(fields) else {
        named.is_unread = true;
        return named;
    };
    for (name, at) in fields.each() {
        match notes.whole(|notes| read(&at, notes)) {
            Some(part) => drop(named.read.insert(name.to_owned(), part)),
            None => drop(named.unread.insert(name.to_owned())),
        }
    }
    named
}

fn version(top: &MapFields<'_>, notes: &mut Diagnostics) -> Result<SdlVersion, SdlError> {
    const HELP: &str = "write `version: \"2.0\"` or `version: \"2.1\"`";
    let at = top.required("version", HELP)?;
    let text = at.text()?;
    let bad = || {
        let problem = format!("version `{}` is not supported", truncated(text));
        at.spot.error(ErrorKind::Version, problem, HELP)
    };
    let numbers = text.trim().trim_start_matches('v');
    let mut parts = [0_u32; 3];
    // Checked here, because `zip` would silently drop further parts.
    if numbers.split('.').count() > parts.len() {
        return Err(bad());
    }
    for (part, number) in parts.iter_mut().zip(numbers.split('.')) {
        if !number.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        *part = number.parse().map_err(|_| bad())?;
    }
    match parts {
        [2, 0, 0] => Ok(SdlVersion::V2_0),
        parts if parts >= [2, 1, 0] => {
            if parts != [2, 1, 0] {
                let problem = format!("version `{}` is unknown and treated as 2.1", truncated(text));
                notes.warn(at.spot.warning(problem, HELP));
            }
            Ok(SdlVersion::V2_1)
        }
        _ => Err(bad()),
    }
}

fn deployed(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<DeploymentEntry, SdlError> {
    // Only for its error: a value other than a map is one error, not an empty list of placements.
    at.map()?;
    Ok(DeploymentEntry {
        spot: at.spot.clone(),
        placed: named(Some(at.clone()), notes, placed),
    })
}

fn placed(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<PlacementEntry, SdlError> {
    let fields = at.map()?;
    fields.warn_others(&["profile", "count"], notes);
    let profile = fields
        .required("profile", "name a compute profile")
        .and_then(|at| at.text());
    let profile = notes.keep(profile).unwrap_or_default().to_owned();
    let count_at = fields.required("count", "set the number of replicas, from 1")?;
    let with_mend = |error| SdlError {
        help: "use a whole number from 1, without quotes".to_owned(),
        ..error
    };
    let count = count_at.whole(u32::MAX).map_err(with_mend)?;
    if count == 0 {
        let problem = "the count is 0";
        return Err(count_at.spot.error(
            ErrorKind::Invalid,
            problem,
            "use 1 or more, or remove the service",
        ));
    }
    let spot = fields.spot;
    Ok(PlacementEntry { spot, profile, count })
}

fn endpoint(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Location, SdlError> {
    let fields = at.map()?;
    fields.warn_others(&["kind"], notes);
    let name = at.spot.path.strip_prefix("endpoints.").unwrap_or_default();
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    let first = name.starts_with(|c: char| c.is_ascii_lowercase());
    if name.len() < 2 || !first || !name.bytes().all(allowed) {
        let problem = format!("`{}` cannot be the name of an endpoint", truncated(name));
        let help = "name an endpoint with at least two characters from a-z, 0-9, `-` and `_`, the first a \
                    letter";
        notes.wrong(at.spot.error(ErrorKind::Invalid, problem, help));
    }
    let kind = fields.required("kind", "write `kind: ip`")?;
    if kind.text()? != "ip" {
        let problem = format!("there is no endpoint kind `{}`", truncated(kind.text()?));
        return Err(kind.spot.error(ErrorKind::Invalid, problem, "write `kind: ip`"));
    }
    Ok(at.spot.clone())
}

fn reclamation(top: &MapFields<'_>, notes: &mut Diagnostics) -> Result<Option<Duration>, SdlError> {
    const HELP: &str = "write a whole number and a unit, for example `24h`";
    let Some(at) = top.present("reclamation") else {
        return Ok(None);
    };
    let fields = at.map()?;
    fields.warn_others(&["min_window"], notes);
    let at = fields.required("min_window", HELP)?;
    let text = at.text()?;
    let Some(window) = scalar::duration(text) else {
        let problem = format!("`{}` is not a duration", truncated(text));
        return Err(at.spot.error(ErrorKind::Invalid, problem, HELP));
    };
    if window.is_zero() {
        return Err(at.spot.error(
            ErrorKind::Invalid,
            "the window is zero",
            "use a longer window, or remove `reclamation`",
        ));
    }
    let digits = text.trim_end_matches(['s', 'm', 'h']);
    let simple = text.len() == digits.len() + 1
        && !digits.starts_with('0')
        && digits.bytes().all(|b| b.is_ascii_digit());
    if !simple {
        let problem = format!("other tools refuse the window `{}`", truncated(text));
        notes.warn(at.spot.warning(problem, HELP));
    }
    Ok(Some(window))
}

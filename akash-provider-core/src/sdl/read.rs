//! From the tree to the document: known fields only, each of its type.

mod at;
mod profile;
mod service;

use super::document::{Deployed, Document, Placed, Version};
use super::fault::{ErrorKind, SdlError, Spot, Warning, shown};
use super::node::Node;
use super::scalar;
use at::{At, Fields};
use std::collections::BTreeMap;
use std::time::Duration;

/// Reads the whole document.
///
/// # Errors
/// The first field that is unknown, missing, of a wrong type or of a wrong value.
pub(super) fn document(root: &Node, warnings: &mut Vec<Warning>) -> Result<Document, SdlError> {
    let top = At::top(root).map()?;
    let version = version(&top, warnings)?;
    top.only(&[
        "version",
        "include",
        "services",
        "profiles",
        "deployment",
        "endpoints",
        "reclamation",
    ])?;
    if let Some(include) = top.get("include") {
        include.texts(warnings)?;
        let problem = "no tool of the network follows includes, nor does this one";
        warnings.push(include.spot.warning(problem, "put everything into one text"));
    }
    let mut services = BTreeMap::new();
    let at = top.get("services");
    let services_line = at.as_ref().map_or(1, |at| at.spot.line);
    for (name, at) in each(at)? {
        services.insert(name.to_owned(), service::service(&at, warnings)?);
    }
    let (mut compute, mut placements) = (BTreeMap::new(), BTreeMap::new());
    if let Some(profiles) = top.get("profiles") {
        let profiles = profiles.map()?;
        profiles.only(&["compute", "placement"])?;
        for (name, at) in each(profiles.get("compute"))? {
            compute.insert(name.to_owned(), profile::compute(&at, warnings)?);
        }
        for (name, at) in each(profiles.get("placement"))? {
            placements.insert(name.to_owned(), profile::placement(&at, warnings)?);
        }
    }
    let at = top.required("deployment", "say which service goes to which placement")?;
    let deployment_line = at.spot.line;
    let mut deployment = BTreeMap::new();
    for (name, at) in each(Some(at))? {
        deployment.insert(name.to_owned(), deployed(&at)?);
    }
    Ok(Document {
        version,
        services_line,
        services,
        compute,
        placements,
        deployment_line,
        deployment,
        endpoints: endpoints(top.get("endpoints"))?,
        reclamation: reclamation(&top, warnings)?,
    })
}

/// The entries of a map that may be missing.
fn each<'a>(at: Option<At<'a>>) -> Result<Vec<(&'a str, At<'a>)>, SdlError> {
    match at {
        Some(at) => Ok(at.map()?.each().collect()),
        None => Ok(Vec::new()),
    }
}

fn version(top: &Fields<'_>, warnings: &mut Vec<Warning>) -> Result<Version, SdlError> {
    const MEND: &str = "write `version: \"2.0\"` or `version: \"2.1\"`";
    let at = top.required("version", MEND)?;
    let text = at.text()?;
    let bad = || {
        let problem = format!("`{}` is not a version that is read", shown(text));
        at.spot.error(ErrorKind::Version, problem, MEND)
    };
    let numbers = text.trim().trim_start_matches('v');
    let mut parts = [0_u32; 3];
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
        [2, 0, 0] => Ok(Version::V2_0),
        parts if parts >= [2, 1, 0] => {
            if parts != [2, 1, 0] {
                let problem = format!("version `{}` is unknown and read as 2.1", shown(text));
                warnings.push(at.spot.warning(problem, MEND));
            }
            Ok(Version::V2_1)
        }
        _ => Err(bad()),
    }
}

fn deployed(at: &At<'_>) -> Result<Deployed, SdlError> {
    let mut placed = BTreeMap::new();
    for (name, at) in at.map()?.each() {
        let fields = at.map()?;
        fields.only(&["profile", "count"])?;
        let profile = fields
            .required("profile", "name a compute profile")?
            .text()?
            .to_owned();
        let count_at = fields.required("count", "say how many replicas, from 1")?;
        let with_mend = |error| SdlError {
            mend: "use a whole number from 1, without quotes".to_owned(),
            ..error
        };
        let count = count_at.whole(u32::MAX).map_err(with_mend)?;
        if count == 0 {
            let problem = "the count is 0";
            return Err(count_at.spot.error(
                ErrorKind::Invalid,
                problem,
                "use 1 or more, or leave the service out",
            ));
        }
        let spot = fields.spot;
        placed.insert(name.to_owned(), Placed { spot, profile, count });
    }
    Ok(Deployed {
        spot: at.spot.clone(),
        placed,
    })
}

fn endpoints(at: Option<At<'_>>) -> Result<BTreeMap<String, Spot>, SdlError> {
    let mut endpoints = BTreeMap::new();
    for (name, at) in each(at)? {
        let fields = at.map()?;
        fields.only(&["kind"])?;
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
        let first = name.starts_with(|c: char| c.is_ascii_lowercase());
        if name.len() < 2 || !first || !name.bytes().all(allowed) {
            let problem = format!("`{}` cannot be the name of an endpoint", shown(name));
            let mend = "use two or more of a-z, 0-9, `-` and `_`, starting with a letter";
            return Err(at.spot.error(ErrorKind::Invalid, problem, mend));
        }
        let kind = fields.required("kind", "write `kind: ip`")?;
        if kind.text()? != "ip" {
            let problem = format!("there is no endpoint kind `{}`", shown(kind.text()?));
            return Err(kind.spot.error(ErrorKind::Invalid, problem, "write `kind: ip`"));
        }
        endpoints.insert(name.to_owned(), at.spot);
    }
    Ok(endpoints)
}

fn reclamation(top: &Fields<'_>, warnings: &mut Vec<Warning>) -> Result<Option<Duration>, SdlError> {
    const MEND: &str = "write a whole number and a unit, for example `24h`";
    let Some(at) = top.present("reclamation") else {
        return Ok(None);
    };
    let fields = at.map()?;
    fields.only(&["min_window"])?;
    let at = fields.required("min_window", MEND)?;
    let text = at.text()?;
    let Some(window) = scalar::duration(text) else {
        let problem = format!("`{}` is not a duration", shown(text));
        return Err(at.spot.error(ErrorKind::Invalid, problem, MEND));
    };
    if window.is_zero() {
        return Err(at.spot.error(
            ErrorKind::Invalid,
            "the window is zero",
            "use more, or leave `reclamation` out",
        ));
    }
    let digits = text.trim_end_matches(['s', 'm', 'h']);
    let simple = text.len() == digits.len() + 1
        && !digits.starts_with('0')
        && digits.bytes().all(|b| b.is_ascii_digit());
    if !simple {
        let problem = format!("other tools refuse the window `{}`", shown(text));
        warnings.push(at.spot.warning(problem, MEND));
    }
    Ok(Some(window))
}

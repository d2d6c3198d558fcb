//! Structural rules of a manifest, as in the tools and providers of the Akash network.

use super::fault::{ManifestError, StructureFault, broken, truncated};
use super::hostname::{check_hostname, is_label};
use super::image;
use super::{Group, HttpOptions, Manifest, Service, ServiceExpose, limits};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Maximum length of a service name. A service name becomes a label of a DNS name.
pub const MAX_SERVICE_NAME: usize = 63;

/// Conditions under which a proxy can try the next replica.
pub const NEXT_CASES: [&str; 10] = [
    "error", "timeout", "500", "502", "503", "504", "403", "404", "429", "off",
];

/// Entry of [`NEXT_CASES`] that a manifest cannot combine with other entries.
pub(crate) const NEXT_CASE_ALONE: &str = "off";

/// Maximum size of a request body in a proxy, in bytes.
pub const MAX_BODY: u32 = 104_857_600;

/// Maximum buffer size of a proxy, in bytes.
pub const MAX_PROXY_BUFFER: u32 = 1_048_576;

/// Maximum read and send timeout of a proxy, in milliseconds.
pub const MAX_PROXY_TIMEOUT: u32 = 60_000;

/// Checks all rules that do not depend on the chain. Groups and services exist, have names and are sorted.
/// Images, variables, ports, proxy options and hostnames are valid. All lists and texts are within
/// [`limits`]. At least one service is reachable from outside.
///
/// # Errors
/// Returns [`ManifestError::Structure`] for the first violated rule. The rules are checked in the order of
/// the manifest.
pub fn validate(manifest: &Manifest) -> Result<(), ManifestError> {
    faults(manifest, 1).pop().map_or(Ok(()), Err)
}

/// Returns the first fault of each service, at most `most` faults.
pub(crate) fn faults(manifest: &Manifest, most: usize) -> Vec<ManifestError> {
    let mut faults = Vec::new();
    let mut seen = SeenNames::default();
    if manifest.groups.is_empty() {
        faults.push(broken("manifest", StructureFault::NoGroups));
    }
    if let Err(fault) = limits::GROUPS.check("manifest", manifest.groups.len()) {
        return vec![fault];
    }
    for group in &manifest.groups {
        faults.extend(check_group(group).err());
        for service in &group.services {
            if faults.len() >= most {
                return faults;
            }
            let at = format!("{}.{}", truncated(&group.name), truncated(&service.name));
            faults.extend(check_service(&at, service, &mut seen).err());
        }
        if !seen.groups.insert(&group.name) {
            faults.push(broken(&truncated(&group.name), StructureFault::DuplicateGroup));
        }
        if faults.len() >= most {
            return faults;
        }
    }
    // Only without other faults, because the check of a service stops at its first fault and may not have
    // reached a global expose.
    if !seen.global && faults.is_empty() {
        faults.push(broken("manifest", StructureFault::NothingGlobal));
    }
    faults
}

#[derive(Default)]
struct SeenNames<'a> {
    groups: BTreeSet<&'a str>,
    hosts: BTreeSet<&'a str>,
    global: bool,
}

fn check_group(group: &Group) -> Result<(), ManifestError> {
    let name = truncated(&group.name);
    limits::check_group(&name, group)?;
    if group.services.is_empty() {
        return Err(broken(&name, StructureFault::NoServices));
    }
    for pair in group.services.windows(2) {
        let [before, after] = pair else { continue };
        match before.name.cmp(&after.name) {
            Ordering::Less => {}
            Ordering::Equal => {
                return Err(broken(
                    &format!("{name}.{}", truncated(&after.name)),
                    StructureFault::DuplicateService,
                ));
            }
            Ordering::Greater => {
                let fault = StructureFault::ServicesUnsorted {
                    name: truncated(&after.name),
                    before: truncated(&before.name),
                };
                return Err(broken(&name, fault));
            }
        }
    }
    Ok(())
}

fn check_service<'a>(at: &str, service: &'a Service, seen: &mut SeenNames<'a>) -> Result<(), ManifestError> {
    if !is_service_name(&service.name) {
        let name = truncated(&service.name);
        return Err(broken(at, StructureFault::ServiceName { name }));
    }
    limits::check_service(at, service)?;
    if service.image.is_empty() {
        return Err(broken(at, StructureFault::NoImage));
    }
    if let Err(problem) = image::check(&service.image) {
        let (image, problem) = (truncated(&service.image), problem.to_owned());
        return Err(broken(
            &format!("{at}.image"),
            StructureFault::Image { image, problem },
        ));
    }
    if service.resources.id == 0 {
        return Err(broken(at, StructureFault::NoResourceId));
    }
    for (n, line) in service.env.iter().flatten().enumerate() {
        let name = line.split_once('=').map_or(line.as_str(), |(name, _)| name);
        if !is_env_name(name) {
            let name = truncated(name);
            return Err(broken(
                &format!("{at}.env[{n}]"),
                StructureFault::EnvName { name },
            ));
        }
    }
    for (n, expose) in service.expose.iter().enumerate() {
        let at = || format!("{at}.expose[{n}]");
        let previous = n.checked_sub(1).and_then(|p| service.expose.get(p));
        if previous.is_some_and(|p| expose_order(p, expose) == Ordering::Greater) {
            return Err(broken(&at(), StructureFault::ExposesUnsorted));
        }
        check_expose(&at, expose, seen)?;
    }
    Ok(())
}

fn check_expose<'a>(
    at: &dyn Fn() -> String,
    expose: &'a ServiceExpose,
    seen: &mut SeenNames<'a>,
) -> Result<(), ManifestError> {
    if expose.port == 0 {
        return Err(broken(&at(), StructureFault::NoPort));
    }
    check_options(at, &expose.http_options)?;
    seen.global |= expose.global;
    for host in expose.hosts.iter().flatten() {
        if let Err(reason) = check_hostname(host) {
            let host = truncated(host);
            return Err(broken(&at(), StructureFault::Hostname { host, reason }));
        }
        // Upper-case names are refused above, so equal hostnames are byte-equal.
        if !seen.hosts.insert(host) {
            return Err(broken(
                &at(),
                StructureFault::DuplicateHostname {
                    host: truncated(host),
                },
            ));
        }
        limits::ALL_HOSTS.check(&at(), seen.hosts.len())?;
    }
    Ok(())
}

/// Checks the values of the proxy options by the rules of the SDL.
fn check_options(at: &dyn Fn() -> String, options: &HttpOptions) -> Result<(), ManifestError> {
    let at = || format!("{}.httpOptions", at());
    let cases = options.next_cases.as_deref().unwrap_or_default();
    if let Some(bad) = cases.iter().find(|case| !NEXT_CASES.contains(&case.as_str())) {
        return Err(broken(&at(), StructureFault::NextCase { case: truncated(bad) }));
    }
    // More entries than existing cases imply a duplicate.
    if cases.len() > NEXT_CASES.len() || (cases.len() > 1 && cases.iter().any(|c| c == NEXT_CASE_ALONE)) {
        return Err(broken(&at(), StructureFault::NextCases));
    }
    for (option, value, limit) in [
        ("maxBodySize", options.max_body_size, MAX_BODY),
        ("proxyBufferSize", options.proxy_buffer_size, MAX_PROXY_BUFFER),
        ("readTimeout", options.read_timeout, MAX_PROXY_TIMEOUT),
        ("sendTimeout", options.send_timeout, MAX_PROXY_TIMEOUT),
    ] {
        if value > limit {
            let option = option.to_owned();
            return Err(broken(&at(), StructureFault::HttpOption { option, value, limit }));
        }
    }
    Ok(())
}

/// Returns the required order of two exposes in a manifest: by service, then port, then protocol. If these
/// values are equal, a global expose comes first.
pub(crate) fn expose_order(a: &ServiceExpose, b: &ServiceExpose) -> Ordering {
    // `false` sorts before `true`, so the negation sorts global exposes first.
    let key = |e: &ServiceExpose| (e.port, e.proto, !e.global);
    a.service.cmp(&b.service).then_with(|| key(a).cmp(&key(b)))
}

/// Returns whether `name` matches `[a-z]([-a-z0-9]*[a-z0-9])?` with at most [`MAX_SERVICE_NAME`] characters.
#[must_use]
pub fn is_service_name(name: &str) -> bool {
    name.len() <= MAX_SERVICE_NAME && name.starts_with(|c: char| c.is_ascii_lowercase()) && is_label(name)
}

/// Returns whether Kubernetes accepts the name of an environment variable. The name consists of letters,
/// digits, `-`, `_` and `.`. The name does not start with a digit or `..`, and is not `.`.
pub(crate) fn is_env_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    !name.is_empty()
        && name != "."
        && !name.starts_with("..")
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests;

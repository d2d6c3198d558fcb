//! References: names that must lead somewhere, things somebody must use.

use super::document::{Compute, Deployed, Document, Placed, Service, To, Version};
use super::fault::{ErrorKind, SdlError, Spot, Warning, shown};
use crate::manifest::Proto;
use crate::types::Storage;
use std::collections::{BTreeMap, BTreeSet};

/// Checks that every deployed service, profile, price, endpoint and volume is there and fits.
///
/// # Errors
/// The first that does not, in the order of service names.
pub(super) fn document(document: &Document, warnings: &mut Vec<Warning>) -> Result<(), SdlError> {
    let mut ips = Ips::default();
    for (name, deployed) in &document.deployment {
        let service = document.services.get(name).ok_or_else(|| {
            let problem = format!("there is no service `{}`", shown(name));
            missing(&deployed.spot, problem, "describe it under `services`")
        })?;
        for (placement, placed) in &deployed.placed {
            let compute = profiles(document, placement, placed)?;
            endpoints(document, service, &mut ips)?;
            confidential(service, compute)?;
            volumes(document.version, service, compute, warnings)?;
        }
    }
    if document
        .deployment
        .values()
        .all(|deployed| deployed.placed.is_empty())
    {
        let spot = Spot::new(document.deployment_line, "deployment");
        let problem = "nothing is deployed";
        return Err(spot.error(
            ErrorKind::MissingField,
            problem,
            "place a service: service, placement, profile, count",
        ));
    }
    for (name, spot) in &document.endpoints {
        if !ips.used.contains(name.as_str()) {
            let problem = format!("the endpoint `{}` is never used", shown(name));
            return Err(missing(
                spot,
                problem,
                "name it as `ip` of a global expose, or remove it",
            ));
        }
    }
    idle(document, warnings);
    Ok(())
}

fn missing(spot: &Spot, problem: String, mend: &str) -> SdlError {
    spot.error(ErrorKind::Reference, problem, mend)
}

fn profiles<'a>(document: &'a Document, placement: &str, placed: &Placed) -> Result<&'a Compute, SdlError> {
    let profile = &placed.profile;
    let compute = document.compute.get(profile).ok_or_else(|| {
        let problem = format!("there is no compute profile `{}`", shown(profile));
        missing(&placed.spot, problem, "describe it under `profiles.compute`")
    })?;
    let infra = document.placements.get(placement).ok_or_else(|| {
        let problem = format!("there is no placement `{}`", shown(placement));
        missing(&placed.spot, problem, "describe it under `profiles.placement`")
    })?;
    if !infra.pricing.contains_key(profile) {
        let problem = format!("there is no price for the profile `{}` here", shown(profile));
        return Err(missing(&infra.spot, problem, "add it under `pricing`"));
    }
    Ok(compute)
}

/// Leased IPs as they are used.
#[derive(Default)]
struct Ips<'a> {
    used: BTreeSet<&'a str>,
    /// Who has a port of an address.
    ports: BTreeMap<(&'a str, u16, Proto), &'a Spot>,
}

fn endpoints<'a>(document: &Document, service: &'a Service, ips: &mut Ips<'a>) -> Result<(), SdlError> {
    for expose in &service.expose {
        for to in expose.to.iter().filter(|to| !to.ip.is_empty()) {
            check_ip(document, to)?;
            ips.used.insert(&to.ip);
            let external = if expose.external == 0 {
                expose.port
            } else {
                expose.external
            };
            if let Some(other) = ips.ports.insert((&to.ip, external, expose.proto), &expose.spot) {
                let ip = shown(&to.ip);
                let problem = format!(
                    "port {external} of the IP `{ip}` is used by `{}` on line {} already",
                    other.path, other.line
                );
                let mend =
                    "use another port, protocol or endpoint; a service with an IP goes to one placement";
                return Err(to.spot.error(ErrorKind::Reference, problem, mend));
            }
        }
    }
    Ok(())
}

fn check_ip(document: &Document, to: &To) -> Result<(), SdlError> {
    if !to.global {
        let problem = "an IP is for the outside, and this is not global";
        return Err(to.spot.error(ErrorKind::Reference, problem, "add `global: true`"));
    }
    if !document.endpoints.contains_key(&to.ip) {
        let problem = format!("there is no endpoint `{}`", shown(&to.ip));
        return Err(missing(
            &to.spot,
            problem,
            "add it under `endpoints` with `kind: ip`",
        ));
    }
    Ok(())
}

fn confidential(service: &Service, compute: &Compute) -> Result<(), SdlError> {
    let Some((spot, kind)) = service.params.as_ref().and_then(|params| params.tee.as_ref()) else {
        return Ok(());
    };
    if kind == "cpu-gpu" && compute.gpu.1.units == 0 {
        let problem = format!("`{kind}` needs a GPU and the compute profile has none");
        return Err(spot.error(
            ErrorKind::Reference,
            problem,
            "add `gpu` to the profile or use `cpu`",
        ));
    }
    Ok(())
}

fn volumes(
    version: Version,
    service: &Service,
    compute: &Compute,
    warnings: &mut Vec<Warning>,
) -> Result<(), SdlError> {
    let none = BTreeMap::new();
    let mounts = service.params.as_ref().map_or(&none, |params| &params.storage);
    let mut taken = BTreeMap::new();
    for (name, mount) in mounts {
        let volume = compute
            .storage
            .iter()
            .map(|(_, volume)| volume)
            .find(|volume| volume.name == *name);
        let Some(volume) = volume else {
            let problem = format!("the compute profile has no volume `{}`", shown(name));
            return Err(missing(
                &mount.spot,
                problem,
                "add it under `storage` of the profile",
            ));
        };
        if !mount.mount.starts_with('/') {
            let problem = format!("the mount `{}` is not an absolute path", shown(&mount.mount));
            return Err(mount.spot.error(ErrorKind::Invalid, problem, "start it with `/`"));
        }
        if let Some(other) = taken.insert(&mount.mount, name) {
            let problem = format!("the volume `{}` is mounted there already", shown(other));
            return Err(mount
                .spot
                .error(ErrorKind::Reference, problem, "give each its own path"));
        }
        if volume.is_ram() && mount.read_only && version == Version::V2_1 {
            let problem = "a volume in memory cannot be read-only";
            return Err(mount
                .spot
                .error(ErrorKind::Invalid, problem, "leave `readOnly` out"));
        }
        if !volume.is_persistent() && !volume.is_ram() {
            let problem = format!("the volume `{}` is part of the container's own disk", shown(name));
            let mend =
                "make it persistent or of class ram, or leave the mount out; providers cannot mount it";
            warnings.push(mount.spot.warning(problem, mend));
        }
    }
    for (spot, volume) in &compute.storage {
        if volume.is_persistent() && !mounts.contains_key(&volume.name) {
            unmounted(version, spot, volume, mounts.is_empty(), warnings)?;
        }
    }
    Ok(())
}

/// The network's tools refuse a persistent volume nobody mounts only in version 2.0, and only where the service
/// mounts nothing at all.
fn unmounted(
    version: Version,
    spot: &Spot,
    volume: &Storage,
    nothing: bool,
    warnings: &mut Vec<Warning>,
) -> Result<(), SdlError> {
    let problem = format!(
        "the persistent volume `{}` is not mounted by a service that uses it",
        shown(&volume.name)
    );
    let mend = "give it a `mount` under `params.storage` of the service";
    if version == Version::V2_0 && nothing {
        return Err(missing(spot, problem, mend));
    }
    warnings.push(spot.warning(problem, mend));
    Ok(())
}

/// Says what is described and never used.
fn idle(document: &Document, warnings: &mut Vec<Warning>) {
    for (name, service) in &document.services {
        if !document.deployment.contains_key(name) {
            let problem = format!("the service `{}` is never deployed", shown(name));
            warnings.push(
                service
                    .spot
                    .warning(problem, "place it under `deployment` or remove it"),
            );
        }
    }
    let placed = || {
        document
            .deployment
            .values()
            .flat_map(|Deployed { placed, .. }| placed)
    };
    for (name, compute) in &document.compute {
        if !placed().any(|(_, placed)| placed.profile == *name) {
            let problem = format!("the compute profile `{}` is never used", shown(name));
            warnings.push(
                compute
                    .spot
                    .warning(problem, "use it under `deployment` or remove it"),
            );
        }
    }
    for (name, placement) in &document.placements {
        if !placed().any(|(place, _)| place == name) {
            let problem = format!("the placement `{}` is never used", shown(name));
            warnings.push(
                placement
                    .spot
                    .warning(problem, "use it under `deployment` or remove it"),
            );
        }
    }
}

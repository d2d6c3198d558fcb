//! Checks of references between the parts of a document.

use super::diagnostics::Diagnostics;
use super::document::{Compute, DeploymentEntry, Document, PlacementEntry, SdlService, SdlVersion, To};
use super::fault::{ErrorKind, Location, SdlError, truncated};
use crate::manifest::Proto;
use crate::types::Storage;
use std::collections::{BTreeMap, BTreeSet};

/// Checks the references between services, profiles, prices, endpoints and volumes. A reference to an invalid
/// part adds no further error.
pub(super) fn document(document: &Document, notes: &mut Diagnostics) {
    let mut ips = Ips::default();
    for (name, deployed) in document.deployment.iter() {
        if document.services.lacks(name) {
            let problem = format!("there is no service `{}`", truncated(name));
            notes.wrong(missing(&deployed.spot, problem, "describe it under `services`"));
        }
        let service = document.services.get(name);
        for (placement, placed) in deployed.placed.iter() {
            profiles(document, placement, placed, notes);
            let Some(service) = service else { continue };
            endpoints(document, service, &mut ips, notes);
            if let Some(compute) = document.compute.get(&placed.profile) {
                notes.keep(confidential(service, compute));
                volumes(document.version, service, compute, notes);
            }
        }
    }
    // An unreadable part may be the deployed one.
    if document.deployment.is_whole() && document.deployment.values().all(|d| d.placed.is_empty()) {
        let spot = Location::new(document.deployment_line, "deployment");
        let problem = "nothing is deployed";
        let help =
            "add a service to `deployment`; under the service, add a placement with `profile` and `count`";
        notes.wrong(spot.error(ErrorKind::MissingField, problem, help));
    }
    // An unreadable part may use the endpoint.
    let is_whole = document.services.is_whole() && document.deployment.is_whole();
    for (name, spot) in document.endpoints.iter().filter(|_| is_whole) {
        if !ips.used.contains(name.as_str()) {
            let problem = format!("the endpoint `{}` is never used", truncated(name));
            let help = "name the endpoint as `ip` in a `to` entry with `global: true`, or remove the \
                        endpoint";
            notes.wrong(missing(spot, problem, help));
        }
    }
    // Warnings are added only to a valid document.
    if notes.is_clean() {
        idle(document, notes);
    }
}

fn missing(spot: &Location, problem: String, help: &str) -> SdlError {
    spot.error(ErrorKind::Reference, problem, help)
}

fn profiles(document: &Document, placement: &str, placed: &PlacementEntry, notes: &mut Diagnostics) {
    let profile = &placed.profile;
    if document.compute.lacks(profile) {
        let problem = format!("there is no compute profile `{}`", truncated(profile));
        notes.wrong(missing(
            &placed.spot,
            problem,
            "describe it under `profiles.compute`",
        ));
    }
    if document.placements.lacks(placement) {
        let problem = format!("there is no placement `{}`", truncated(placement));
        notes.wrong(missing(
            &placed.spot,
            problem,
            "describe it under `profiles.placement`",
        ));
    }
    let infra = document.placements.get(placement);
    let infra = infra.filter(|_| !document.compute.lacks(profile));
    if let Some(infra) = infra.filter(|infra| !infra.pricing.contains_key(profile)) {
        let problem = format!("there is no price for the profile `{}` here", truncated(profile));
        notes.wrong(missing(&infra.spot, problem, "add it under `pricing`"));
    }
}

/// Leased IPs that the services of the document use.
#[derive(Default)]
struct Ips<'a> {
    used: BTreeSet<&'a str>,
    /// Location of the `expose` entry that uses a port of a leased IP.
    ports: BTreeMap<(&'a str, u16, Proto), &'a Location>,
}

fn endpoints<'a>(document: &Document, service: &'a SdlService, ips: &mut Ips<'a>, notes: &mut Diagnostics) {
    for expose in &service.expose {
        for to in expose.to.iter().filter(|to| !to.ip.is_empty()) {
            notes.keep(check_ip(document, to));
            // Also for an invalid use, so that one fault is reported once.
            ips.used.insert(&to.ip);
            // Compared by the external port, which defaults to the port of the container.
            let external = if expose.external == 0 {
                expose.port
            } else {
                expose.external
            };
            if let Some(other) = ips.ports.insert((&to.ip, external, expose.proto), &expose.spot) {
                let ip = truncated(&to.ip);
                let problem = format!(
                    "port {external} of the IP `{ip}` is already used by `{}` on line {}",
                    other.path, other.line
                );
                let help = "use another port, protocol or endpoint, or only one placement for the service";
                notes.wrong(to.spot.error(ErrorKind::Reference, problem, help));
            }
        }
    }
}

fn check_ip(document: &Document, to: &To) -> Result<(), SdlError> {
    if !to.global {
        let problem = "an IP needs a global expose, but this expose is not global";
        return Err(to.spot.error(ErrorKind::Reference, problem, "add `global: true`"));
    }
    if document.endpoints.lacks(&to.ip) {
        let problem = format!("there is no endpoint `{}`", truncated(&to.ip));
        return Err(missing(
            &to.spot,
            problem,
            "add it under `endpoints` with `kind: ip`",
        ));
    }
    Ok(())
}

fn confidential(service: &SdlService, compute: &Compute) -> Result<(), SdlError> {
    let Some((spot, kind)) = service.params.as_ref().and_then(|params| params.tee.as_ref()) else {
        return Ok(());
    };
    if kind == "cpu-gpu" && compute.gpu.1.units == 0 {
        let problem = format!("`{kind}` needs a GPU, but the compute profile has none");
        return Err(spot.error(
            ErrorKind::Reference,
            problem,
            "add `gpu` to the profile or use `cpu`",
        ));
    }
    Ok(())
}

fn volumes(version: SdlVersion, service: &SdlService, compute: &Compute, notes: &mut Diagnostics) {
    let none = BTreeMap::new();
    let mounts = service.params.as_ref().map_or(&none, |params| &params.storage);
    let mut taken = BTreeMap::new();
    for (name, mount) in mounts {
        let spot = &mount.spot;
        let mut volumes = compute.storage.iter().map(|(_, volume)| &volume.value);
        let Some(volume) = volumes.find(|volume| volume.name == *name) else {
            let problem = format!("the compute profile has no volume `{}`", truncated(name));
            notes.wrong(missing(spot, problem, "add it under `storage` of the profile"));
            continue;
        };
        if !mount.mount.starts_with('/') {
            let problem = format!("the mount `{}` is not an absolute path", truncated(&mount.mount));
            notes.wrong(spot.error(ErrorKind::Invalid, problem, "start it with `/`"));
        }
        if let Some(other) = taken.insert(&mount.mount, name) {
            let problem = format!(
                "the volume `{}` is already mounted at this path",
                truncated(other)
            );
            notes.wrong(spot.error(ErrorKind::Reference, problem, "give each volume its own path"));
        }
        // The tools of the network check this in version 2.1 only.
        if volume.is_ram() && mount.read_only && version == SdlVersion::V2_1 {
            let problem = "a volume in memory cannot be read-only";
            notes.wrong(spot.error(ErrorKind::Invalid, problem, "remove `readOnly`"));
        }
        if !volume.is_persistent() && !volume.is_ram() {
            let problem = format!(
                "the volume `{}` is part of the container's own disk",
                truncated(name)
            );
            let help = "add `persistent: true` or `class: ram` to the volume, or remove the mount; \
                        providers cannot mount an ephemeral volume";
            notes.warn(spot.warning(problem, help));
        }
    }
    for (spot, volume) in &compute.storage {
        let volume = &volume.value;
        if volume.is_persistent() && !mounts.contains_key(&volume.name) {
            let noted = unmounted(version, spot, volume, mounts.is_empty(), notes);
            notes.keep(noted);
        }
    }
}

/// Reports a persistent volume that a service uses but does not mount. Returns an error for SDL version 2.0
/// if the service has no mounts at all. Otherwise adds a warning.
fn unmounted(
    version: SdlVersion,
    spot: &Location,
    volume: &Storage,
    nothing: bool,
    notes: &mut Diagnostics,
) -> Result<(), SdlError> {
    let problem = format!(
        "the persistent volume `{}` is not mounted by a service that uses it",
        truncated(&volume.name)
    );
    let help = "add a `mount` for the volume under `params.storage` of the service";
    if version == SdlVersion::V2_0 && nothing {
        return Err(missing(spot, problem, help));
    }
    notes.warn(spot.warning(problem, help));
    Ok(())
}

/// Adds warnings for unused parts.
fn idle(document: &Document, notes: &mut Diagnostics) {
    for (name, service) in document.services.iter() {
        if !document.deployment.contains_key(name) {
            let problem = format!("the service `{}` is never deployed", truncated(name));
            notes.warn(
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
            .flat_map(|DeploymentEntry { placed, .. }| placed.iter())
    };
    for (name, compute) in document.compute.iter() {
        if !placed().any(|(_, placed)| placed.profile == *name) {
            let problem = format!("the compute profile `{}` is never used", truncated(name));
            notes.warn(
                compute
                    .spot
                    .warning(problem, "use it under `deployment` or remove it"),
            );
        }
    }
    for (name, placement) in document.placements.iter() {
        if !placed().any(|(place, _)| place == name) {
            let problem = format!("the placement `{}` is never used", truncated(name));
            notes.warn(
                placement
                    .spot
                    .warning(problem, "use it under `deployment` or remove it"),
            );
        }
    }
}

//! Builds groups and manifest from a document. The hash and the comparison with the chain depend on the ids,
//! the sequence numbers and the order of all parts. For this reason, they are the same as in the Akash tools.

use super::document::{Compute, Document, Expose, Params, Placement, SdlService, SdlVersion};
use super::fault::{ErrorKind, Location, SdlError};
use crate::manifest::{
    self, Credentials, Manifest, ServiceExpose, ServiceParams, StorageParams, Tee, expose_order,
};
use crate::types::{
    Attribute, Endpoint, EndpointKind, GroupSpec, PlacementRequirements, ResourceUnit, Resources,
};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct BuildOutput {
    pub(super) groups: Vec<GroupSpec>,
    pub(super) manifest: Manifest,
    /// Names of the compute profiles of the units, per group.
    pub(super) profiles: Vec<Vec<String>>,
}

struct Building {
    spec: GroupSpec,
    services: Vec<manifest::Service>,
    profiles: Vec<String>,
    tee: Option<String>,
}

/// Builds the groups and the manifest. The references of the document must be valid.
///
/// # Errors
/// Returns an error when services of a placement request different types of confidential computing, or when a
/// sum overflows.
pub(super) fn build(document: &Document) -> Result<BuildOutput, SdlError> {
    let sequence = sequence_numbers(document);
    // By name, because the chain numbers groups in this order.
    let mut groups: BTreeMap<&str, Building> = BTreeMap::new();
    for (name, deployed) in document.deployment.iter() {
        for (placement, placed) in deployed.placed.iter() {
            let (Some(service), Some(compute), Some(infra)) = (
                document.services.get(name),
                document.compute.get(&placed.profile),
                document.placements.get(placement),
            ) else {
                // The checks have already reported this error.
                continue;
            };
            let Some((_, price)) = infra.pricing.get(&placed.profile) else {
                continue;
            };
            let group = groups.entry(placement).or_insert_with(|| start(placement, infra));
            confidential(group, service)?;
            let exposes = exposes(&service.expose, &sequence);
            let endpoints: Vec<Endpoint> = exposes.iter().flat_map(endpoints).collect();
            let mut resources = resources(compute, endpoints);
            // Version 2.0 creates a unit for each service; in version 2.1 services with the same profile
            // share a unit.
            let shared = match document.version {
                SdlVersion::V2_0 => None,
                SdlVersion::V2_1 => group
                    .profiles
                    .iter()
                    .position(|profile| *profile == placed.profile),
            };
            if let Some(unit) = shared.and_then(|at| group.spec.resources.get_mut(at)) {
                // The manifest refers to the shared unit, as the cross-check requires.
                resources.id = unit.resources.id;
                unit.count = unit
                    .count
                    .checked_add(placed.count)
                    .ok_or_else(|| too_many(&placed.spot))?;
                unit.resources.endpoints.extend(&resources.endpoints);
                unit.resources
                    .endpoints
                    .sort_by_key(|endpoint| endpoint.sequence_number);
            } else {
                // From 1, because the network treats 0 as a missing id.
                resources.id = u32::try_from(group.spec.resources.len() + 1).unwrap_or(u32::MAX);
                group.profiles.push(placed.profile.clone());
                group.spec.resources.push(ResourceUnit {
                    resources: resources.clone(),
                    count: placed.count,
                    price: price.clone(),
                });
            }
            group.services.push(manifest::Service {
                name: name.clone(),
                image: service.image.clone(),
                command: service.command.clone(),
                args: service.args.clone(),
                env: service.env.clone(),
                resources,
                count: placed.count,
                expose: exposes,
                params: service.params.as_ref().map(params),
                credentials: service
                    .credentials
                    .as_ref()
                    .map(|c| credentials(document.version, c)),
            });
        }
    }
    Ok(finish(groups))
}

fn finish(groups: BTreeMap<&str, Building>) -> BuildOutput {
    let mut built = BuildOutput {
        groups: Vec::new(),
        manifest: Manifest { groups: Vec::new() },
        profiles: Vec::new(),
    };
    for (name, group) in groups {
        built.groups.push(group.spec);
        built.profiles.push(group.profiles);
        built
            .manifest
            .groups
            .push(manifest::Group::new(name, group.services));
    }
    built
}

fn too_many(spot: &Location) -> SdlError {
    let problem = "the counts of services with this profile exceed the limit together";
    spot.error(ErrorKind::Limit, problem, "use smaller counts")
}

fn start(name: &str, infra: &Placement) -> Building {
    Building {
        spec: GroupSpec {
            name: name.to_owned(),
            requirements: PlacementRequirements {
                signed_by: infra.signed_by.clone(),
                attributes: infra.attributes.clone(),
            },
            resources: Vec::new(),
        },
        services: Vec::new(),
        profiles: Vec::new(),
        tee: None,
    }
}

/// Adds the confidential-computing type of a service to the required attributes of its placement.
fn confidential(group: &mut Building, service: &SdlService) -> Result<(), SdlError> {
    let Some((spot, kind)) = service.params.as_ref().and_then(|params| params.tee.as_ref()) else {
        return Ok(());
    };
    match &group.tee {
        None => {
            group.tee = Some(kind.clone());
            let attributes = &mut group.spec.requirements.attributes;
            attributes.push(Attribute::new(Attribute::TEE, kind));
            attributes.sort_by(|a, b| a.key.cmp(&b.key));
            Ok(())
        }
        Some(other) if other == kind => Ok(()),
        Some(other) => {
            let problem = format!(
                "this service requests `{kind}`, but another service of the placement requests `{other}`"
            );
            Err(spot.error(ErrorKind::Reference, problem, "use one type per placement"))
        }
    }
}

/// Returns the sequence number of each leased IP name. The names are sorted and numbered from 1. A name that
/// occurs several times gets the number of its last occurrence.
fn sequence_numbers(document: &Document) -> BTreeMap<&str, u32> {
    let services = document
        .deployment
        .keys()
        .filter_map(|name| document.services.get(name));
    let targets = services
        .flat_map(|service| &service.expose)
        .flat_map(|expose| &expose.to);
    let mut names: Vec<&str> = targets
        .filter(|to| !(to.global && to.ip.is_empty()))
        .map(|to| to.ip.as_str())
        .collect();
    names.sort_unstable();
    names.into_iter().zip(1..).collect()
}

fn exposes(exposes: &[Expose], sequence: &BTreeMap<&str, u32>) -> Vec<ServiceExpose> {
    let mut all = Vec::new();
    for expose in exposes {
        let bare = || ServiceExpose {
            port: expose.port,
            external_port: expose.external,
            proto: expose.proto,
            service: String::new(),
            global: false,
            hosts: expose.hosts.clone(),
            http_options: expose.http.clone(),
            ip: String::new(),
            endpoint_sequence_number: 0,
        };
        // A port without a target is for other services of the tenant, and also has an entry in the manifest.
        if expose.to.is_empty() {
            all.push(bare());
        }
        for to in &expose.to {
            let number = if to.global && !to.ip.is_empty() {
                sequence.get(to.ip.as_str()).copied().unwrap_or(0)
            } else {
                0
            };
            all.push(ServiceExpose {
                service: to.service.clone(),
                global: to.global,
                ip: to.ip.clone(),
                endpoint_sequence_number: number,
                ..bare()
            });
        }
    }
    // Sorted as a manifest requires.
    all.sort_by(expose_order);
    all
}

/// Returns the endpoints of one expose: none unless the expose is global.
fn endpoints(expose: &ServiceExpose) -> Vec<Endpoint> {
    if !expose.global {
        return Vec::new();
    }
    let kind = if expose.is_ingress() {
        EndpointKind::SharedHttp
    } else {
        EndpointKind::RandomPort
    };
    let mut endpoints = vec![Endpoint::new(kind, 0)];
    if !expose.ip.is_empty() {
        endpoints.push(Endpoint::new(
            EndpointKind::LeasedIp,
            expose.endpoint_sequence_number,
        ));
    }
    endpoints
}

fn resources(compute: &Compute, endpoints: Vec<Endpoint>) -> Resources {
    Resources {
        id: 0,
        cpu: compute.cpu.1.value.clone(),
        memory: compute.memory.1.value.clone(),
        storage: compute
            .storage
            .iter()
            .map(|(_, volume)| volume.value.clone())
            .collect(),
        gpu: compute.gpu.1.clone(),
        endpoints,
    }
}

fn params(params: &Params) -> ServiceParams {
    let mounts: Vec<StorageParams> = params
        .storage
        .iter()
        .map(|(name, mount)| StorageParams {
            name: name.clone(),
            mount: mount.mount.clone(),
            read_only: mount.read_only,
        })
        .collect();
    ServiceParams {
        storage: (!mounts.is_empty()).then_some(mounts),
        credentials: None,
        permissions: params.permissions.clone(),
        tee: params.tee.as_ref().map(|(_, kind)| Tee {
            kind: kind.clone(),
            attestation: true,
        }),
    }
}

/// Returns the registry login of a service. In version 2.0, the mail address is dropped and white space is
/// not trimmed.
fn credentials(version: SdlVersion, credentials: &Credentials) -> Credentials {
    match version {
        SdlVersion::V2_0 => Credentials {
            email: String::new(),
            ..credentials.clone()
        },
        SdlVersion::V2_1 => Credentials {
            host: credentials.host.trim().to_owned(),
            email: credentials.email.trim().to_owned(),
            username: credentials.username.trim().to_owned(),
            password: credentials.password.trim().to_owned(),
        },
    }
}

//! Comparison of a manifest with the groups on the chain. Both must have the same groups and resources, and
//! the manifest must use every endpoint and replica.

use super::fault::{CrossFault, EndpointNeed, ManifestError, ResourceKind, truncated};
use super::{Group, Manifest, Service};
use crate::types::{EndpointKind, GroupSpec, ResourceUnit};

/// Compares a valid manifest with all groups of its deployment, by the rules of the Akash network.
///
/// # Errors
/// Returns [`ManifestError::Cross`] for the first difference. The services are compared in the order of the
/// manifest. Unused replicas and endpoints of the deployment are reported last.
pub fn cross_validate(manifest: &Manifest, groups: &[&GroupSpec]) -> Result<(), ManifestError> {
    // With equal counts, and unique names in the manifest, every group of the chain is compared.
    if manifest.groups.len() != groups.len() {
        let fault = CrossFault::GroupCount {
            manifest: manifest.groups.len(),
            deployment: groups.len(),
        };
        return Err(differs("manifest", fault));
    }
    for group in &manifest.groups {
        let Some(spec) = groups.iter().find(|spec| spec.name == group.name) else {
            return Err(differs(&truncated(&group.name), CrossFault::UnknownGroup));
        };
        check_group(group, spec)?;
    }
    Ok(())
}

/// Unused replicas and endpoints of a resource unit.
struct RemainingUnit<'a> {
    unit: &'a ResourceUnit,
    replicas: u32,
    http: u32,
    port: u32,
    ip: u32,
}

impl<'a> RemainingUnit<'a> {
    fn all_of(unit: &'a ResourceUnit) -> Self {
        let of = |kind| {
            let endpoints = unit.resources.endpoints.iter().filter(|e| e.kind == kind);
            u32::try_from(endpoints.count()).unwrap_or(u32::MAX)
        };
        Self {
            unit,
            replicas: unit.count,
            http: of(EndpointKind::SharedHttp),
            port: of(EndpointKind::RandomPort),
            ip: of(EndpointKind::LeasedIp),
        }
    }

    const fn id(&self) -> u32 {
        self.unit.resources.id
    }

    fn take(&mut self, endpoint: EndpointNeed) -> Result<(), CrossFault> {
        let left = match endpoint {
            EndpointNeed::Http => &mut self.http,
            EndpointNeed::Port => &mut self.port,
            EndpointNeed::Ip => &mut self.ip,
        };
        match left.checked_sub(1) {
            Some(rest) => {
                *left = rest;
                Ok(())
            }
            None => Err(CrossFault::TooManyEndpoints {
                id: self.id(),
                endpoint,
            }),
        }
    }

    fn nothing(&self) -> Result<(), CrossFault> {
        let id = self.id();
        let endpoints = [
            (EndpointNeed::Http, self.http),
            (EndpointNeed::Port, self.port),
            (EndpointNeed::Ip, self.ip),
        ];
        for (endpoint, left) in endpoints {
            if left > 0 {
                return Err(CrossFault::UnusedEndpoints { id, endpoint, left });
            }
        }
        if self.replicas > 0 {
            let left = self.replicas;
            return Err(CrossFault::UnusedReplicas { id, left });
        }
        Ok(())
    }
}

fn check_group(group: &Group, spec: &GroupSpec) -> Result<(), ManifestError> {
    let name = truncated(&group.name);
    let mut left: Vec<RemainingUnit<'_>> = spec.resources.iter().map(RemainingUnit::all_of).collect();
    for service in &group.services {
        check_service(service, &mut left)
            .map_err(|fault| differs(&format!("{name}.{}", truncated(&service.name)), fault))?;
    }
    // Unused parts are reported last, because a wrong service is the more likely cause.
    for unit in &left {
        unit.nothing().map_err(|fault| differs(&name, fault))?;
    }
    Ok(())
}

fn check_service(service: &Service, left: &mut [RemainingUnit<'_>]) -> Result<(), CrossFault> {
    let id = service.resources.id;
    let Some(left) = left.iter_mut().find(|unit| unit.id() == id) else {
        return Err(CrossFault::UnknownResource { id });
    };
    let Some(replicas) = left.replicas.checked_sub(service.count) else {
        return Err(CrossFault::TooManyReplicas {
            id,
            wanted: service.count,
            left: left.replicas,
        });
    };
    let (ours, theirs) = (&service.resources, &left.unit.resources);
    let same = [
        (ResourceKind::Cpu, ours.cpu == theirs.cpu),
        (ResourceKind::Gpu, ours.gpu == theirs.gpu),
        (ResourceKind::Memory, ours.memory == theirs.memory),
        (ResourceKind::Storage, ours.storage == theirs.storage),
    ];
    if let Some((what, _)) = same.into_iter().find(|(_, same)| !same) {
        return Err(CrossFault::Mismatch { id, what });
    }
    // Services of one deployment reach each other without an endpoint on the chain.
    for expose in service.expose.iter().filter(|expose| expose.global) {
        left.take(if expose.is_ingress() {
            EndpointNeed::Http
        } else {
            EndpointNeed::Port
        })?;
        // A leased IP is needed in addition to the endpoint of its port.
        if !expose.ip.is_empty() {
            left.take(EndpointNeed::Ip)?;
        }
    }
    left.replicas = replicas;
    Ok(())
}

fn differs(at: &str, fault: CrossFault) -> ManifestError {
    ManifestError::Cross {
        at: at.to_owned(),
        fault,
    }
}

#[cfg(test)]
mod tests;

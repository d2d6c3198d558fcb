//! Hostnames and leased IPs that a group requests.

use super::{Group, Service, ServiceExpose};
use crate::cluster::{HostnameDeclaration, IpDeclaration};
use crate::types::LeaseId;
use crate::types::id::ip_sharing_key;
use std::collections::BTreeSet;

/// Returns the hostnames to declare for a lease. Each ingress expose gets the automatic hostname below
/// `static_domain`, if this domain is set, followed by the hostnames in the manifest. Hostnames are in lower
/// case. If a hostname occurs twice, it belongs to the first expose.
#[must_use]
pub fn hostnames_wanted(
    group: &Group,
    lease: &LeaseId,
    static_domain: Option<&str>,
) -> Vec<HostnameDeclaration> {
    let mut seen = BTreeSet::new();
    let mut wanted = Vec::new();
    for (service, expose) in ingresses(group) {
        let automatic =
            static_domain.map(|domain| format!("{}.{domain}", lease.ingress_label(&service.name)));
        for host in automatic.iter().chain(expose.hosts.iter().flatten()) {
            // DNS is case-insensitive, so duplicates are detected in lower case.
            let hostname = host.to_lowercase();
            if seen.insert(hostname.clone()) {
                wanted.push(HostnameDeclaration {
                    hostname,
                    service: service.name.clone(),
                    external_port: expose.effective_external_port(),
                });
            }
        }
    }
    wanted
}

/// Returns the hostnames in the exposes of the group, in lower case and in the order of the manifest. Each
/// hostname occurs once.
#[must_use]
pub fn custom_hosts(group: &Group) -> Vec<String> {
    let mut seen = BTreeSet::new();
    listed(group).filter(|host| seen.insert(host.clone())).collect()
}

pub(crate) fn custom_host_set(group: &Group) -> BTreeSet<String> {
    listed(group).collect()
}

/// Returns the leased IPs to declare for a lease: one entry per global expose with a leased IP.
#[must_use]
pub fn ips_wanted(group: &Group, lease: &LeaseId) -> Vec<IpDeclaration> {
    let exposes = group
        .services
        .iter()
        .flat_map(|service| service.expose.iter().map(move |expose| (service, expose)));
    exposes
        .filter(|(_, expose)| expose.global && !expose.ip.is_empty())
        .map(|(service, expose)| IpDeclaration {
            service: service.name.clone(),
            port: expose.port,
            external_port: expose.effective_external_port(),
            proto: expose.proto,
            sharing_key: ip_sharing_key(lease.owner(), &expose.ip),
        })
        .collect()
}

/// Returns an error message about the first ingress expose without a hostname. Returns `None` if no such
/// expose exists, or if the provider assigns automatic hostnames (`static_hosts`).
#[must_use]
pub fn missing_hostname(group: &Group, static_hosts: bool) -> Option<String> {
    if static_hosts {
        return None;
    }
    let (service, expose) =
        ingresses(group).find(|(_, expose)| expose.hosts.as_ref().is_none_or(Vec::is_empty))?;
    Some(format!(
        "service \"{}\" exposed on {}:TCP must have a hostname: list one under `accept:` in the SDL (this provider \
         assigns none; its operator can set --deployment-ingress-static-hosts and --deployment-ingress-domain)",
        service.name,
        expose.effective_external_port()
    ))
}

/// Returns whether both groups have services with the same names. An update must not change the names.
#[must_use]
pub fn same_services(old: &Group, new: &Group) -> bool {
    let names = |group: &Group| -> BTreeSet<String> {
        group
            .services
            .iter()
            .map(|service| service.name.clone())
            .collect()
    };
    names(old) == names(new)
}

fn listed(group: &Group) -> impl Iterator<Item = String> {
    let exposes = group.services.iter().flat_map(|service| &service.expose);
    let hosts = exposes.flat_map(|expose| expose.hosts.iter().flatten());
    hosts.map(|host| host.to_lowercase())
}

fn ingresses(group: &Group) -> impl Iterator<Item = (&Service, &ServiceExpose)> {
    let exposes = group
        .services
        .iter()
        .flat_map(|service| service.expose.iter().map(move |expose| (service, expose)));
    exposes.filter(|(_, expose)| expose.is_ingress())
}

#[cfg(test)]
mod tests;

//! Status, ports and restarts of a lease, pure functions of its objects.

use super::LeaseView;
use super::health::replicas;
use super::replica_counts::Replicas;
use crate::labels;
use akash_provider_core::cluster::{AssignedIp, ForwardedPort, LeaseStatus, ServiceStatus, Termination};
use akash_provider_core::manifest::Proto;
use akash_provider_kube_model::crd::notes::Notes;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Suffix of the name of a Service with node ports.
const NODE_PORTS: &str = "-np";

/// Returns the status of every service, or `None` if the lease has no Manifest and no workload.
#[must_use]
pub fn lease_status(view: &LeaseView, host: &str) -> Option<LeaseStatus> {
    if view.manifest.is_none() && view.deployments.is_empty() && view.stateful_sets.is_empty() {
        return None;
    }
    let recorded = view.wanted().unwrap_or_default().iter().map(|s| s.name.as_str());
    let running = view.deployments.keys().chain(view.stateful_sets.keys());
    // A service may be recorded and not created yet, or run without a record.
    let names: BTreeSet<&str> = recorded.chain(running.map(String::as_str)).collect();
    let status = |name: &str| (name.to_owned(), status_of(view, name));
    Some(LeaseStatus {
        services: names.into_iter().map(status).collect(),
        forwarded_ports: forwarded_ports(view, host),
        ips: assigned_ips(view),
    })
}

/// Returns the status of one service, or `None` if the service has no Manifest entry and no workload.
#[must_use]
pub fn service_status(view: &LeaseView, service: &str) -> Option<ServiceStatus> {
    has_service(view, service).then(|| status_of(view, service))
}

/// Returns true for a service with a Manifest entry or a workload.
#[must_use]
pub fn has_service(view: &LeaseView, service: &str) -> bool {
    let mut recorded = view.wanted().unwrap_or_default().iter();
    recorded.any(|s| s.name == service)
        || view.deployments.contains_key(service)
        || view.stateful_sets.contains_key(service)
}

fn status_of(view: &LeaseView, service: &str) -> ServiceStatus {
    let mut recorded = view.wanted().unwrap_or_default().iter();
    let count = recorded.find(|s| s.name == service).map_or(0, |s| s.count);
    let not_made = || Replicas {
        wanted: count,
        ..Replicas::default()
    };
    let replicas = replicas(view, service).unwrap_or_else(not_made);
    let hosts = view.hosts.values().filter(|h| h.spec.service_name == service);
    let noted = hosts.clone().filter_map(|host| {
        let notes =
            Notes::from_annotations(host.metadata.annotations.as_ref()).for_tenant(&host.spec.owner)?;
        Some((host.spec.hostname.clone(), notes))
    });
    ServiceStatus {
        name: service.to_owned(),
        available: replicas.available,
        total: replicas.wanted,
        hostnames: noted.collect(),
        uris: hosts.map(|h| h.spec.hostname.clone()).collect(),
        updated_replicas: replicas.updated,
        ready_replicas: replicas.ready,
        replicas: replicas.there,
        available_replicas: replicas.available,
        observed_generation: replicas.observed,
        last_termination: last_termination(view, service),
    }
}

/// Returns the newest container termination of a service. Ignores pods that are being deleted.
fn last_termination(view: &LeaseView, service: &str) -> Option<Termination> {
    let stays = |pod: &&Arc<Pod>| pod.metadata.deletion_timestamp.is_none();
    let pods = view.pods.values().filter(stays);
    let containers = pods
        .filter(|pod| pod_service(pod) == Some(service))
        .flat_map(|pod| {
            pod.status
                .iter()
                .flat_map(|s| s.container_statuses.iter().flatten())
        });
    let newest = containers
        .filter_map(terminated)
        .max_by_key(|ended| ended.finished_at.clone())?;
    Some(Termination {
        reason: newest.reason.clone().unwrap_or_default(),
        exit_code: newest.exit_code,
        restarts: restarts(view).get(service).copied().unwrap_or(0),
    })
}

/// Returns the current termination of a container. If the container is not terminated, returns its previous
/// termination.
pub(super) fn terminated(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    let states = [&container.state, &container.last_state];
    states
        .into_iter()
        .flatten()
        .find_map(|state| state.terminated.as_ref())
}

/// Returns the node ports of each service. Clients reach these ports at `host`.
#[must_use]
pub fn forwarded_ports(view: &LeaseView, host: &str) -> BTreeMap<String, Vec<ForwardedPort>> {
    let mut by_service: BTreeMap<String, Vec<ForwardedPort>> = BTreeMap::new();
    for (name, service) in &view.services {
        let Some(spec) = service
            .spec
            .as_ref()
            .filter(|s| s.type_.as_deref() == Some("NodePort"))
        else {
            continue;
        };
        let of = service_of(name, service);
        let ports = spec.ports.iter().flatten();
        let ports: Vec<_> = ports.filter_map(|port| forwarded(port, &of, host)).collect();
        if !ports.is_empty() {
            by_service.entry(of).or_default().extend(ports);
        }
    }
    by_service
}

fn service_of(name: &str, service: &Service) -> String {
    let label = service
        .metadata
        .labels
        .as_ref()
        .and_then(|l| l.get(labels::SERVICE));
    // A Service of another provider may lack the label.
    let by_name = || name.strip_suffix(NODE_PORTS).unwrap_or(name).to_owned();
    label.cloned().unwrap_or_else(by_name)
}

/// Returns the addresses of the load balancers, by service.
fn assigned_ips(view: &LeaseView) -> BTreeMap<String, Vec<AssignedIp>> {
    let mut by_service: BTreeMap<String, Vec<AssignedIp>> = BTreeMap::new();
    for service in view.services.values() {
        let Some(spec) = &service.spec else { continue };
        // Their labels name only the lease; the selector names the service.
        let leads_to = spec.selector.as_ref().and_then(|s| s.get(labels::SERVICE));
        let (Some("LoadBalancer"), Some(name)) = (spec.type_.as_deref(), leads_to) else {
            continue;
        };
        let balancer = service.status.as_ref().and_then(|s| s.load_balancer.as_ref());
        let ingress = balancer.and_then(|b| b.ingress.as_ref()).into_iter().flatten();
        for ip in ingress.filter_map(|i| i.ip.as_ref()?.parse().ok()) {
            let ports = spec.ports.iter().flatten();
            let assigned = ports.filter_map(|port| {
                Some(AssignedIp {
                    ip,
                    port: inside(port)?,
                    external_port: u16::try_from(port.port).ok()?,
                    proto: proto(port)?,
                })
            });
            by_service.entry(name.clone()).or_default().extend(assigned);
        }
    }
    by_service
}

/// Returns the container port that a Service port targets.
fn inside(port: &ServicePort) -> Option<u16> {
    let number = match &port.target_port {
        Some(IntOrString::Int(number)) => *number,
        // The default is the same port; named ports are not used.
        _ => port.port,
    };
    u16::try_from(number).ok()
}

fn proto(port: &ServicePort) -> Option<Proto> {
    match port.protocol.as_deref() {
        None | Some("TCP") => Some(Proto::Tcp),
        Some("UDP") => Some(Proto::Udp),
        Some(_) => None,
    }
}

fn forwarded(port: &ServicePort, service: &str, host: &str) -> Option<ForwardedPort> {
    Some(ForwardedPort {
        host: host.to_owned(),
        port: inside(port)?,
        external_port: u16::try_from(port.node_port?).ok()?,
        proto: proto(port)?,
        name: service.to_owned(),
    })
}

/// Returns the number of container restarts in the existing pods, by service.
#[must_use]
pub fn restarts(view: &LeaseView) -> BTreeMap<String, u32> {
    let mut by_service = BTreeMap::new();
    for pod in view.pods.values() {
        let Some(service) = pod_service(pod) else {
            continue;
        };
        let containers = pod
            .status
            .iter()
            .flat_map(|s| s.container_statuses.iter().flatten());
        let restarts = containers
            .map(|c| u32::try_from(c.restart_count).unwrap_or(0))
            .sum::<u32>();
        *by_service.entry(service.to_owned()).or_insert(0) += restarts;
    }
    by_service
}

/// Returns the service of a pod.
#[must_use]
pub fn pod_service(pod: &Pod) -> Option<&str> {
    let labels = pod.metadata.labels.as_ref()?;
    labels.get(labels::SERVICE).map(String::as_str)
}

#[cfg(test)]
mod tests;

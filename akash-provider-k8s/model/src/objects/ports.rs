//! Kubernetes Services for the exposed ports of a service.

use super::context::RenderContext;
use super::{MAX_PORTS, RenderError, text};
use crate::leased_ips::{TARGET, is_any_pool, protocol};
use akash_provider_core::cluster::IpDeclaration;
use akash_provider_core::manifest::{Group, Proto, Service as Manifest, ServiceExpose};
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::labels;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::{BTreeMap, BTreeSet};

/// MetalLB annotation with the key by which Services share an address.
const SHARING_KEY: &str = "metallb.universe.tf/allow-shared-ip";
const POOL: &str = "metallb.universe.tf/address-pool";

/// Predicate that selects the exposes of one Service.
type ExposePredicate = fn(&ServiceExpose) -> bool;

/// Returns the name of the Service with the node ports of a service.
#[must_use]
pub fn node_port_service_name(service: &str) -> String {
    format!("{service}-np")
}

/// Returns the name of the Service with a leased address.
#[must_use]
pub fn leased_ip_service_name(service: &str, external_port: u16, proto: Proto) -> String {
    let proto = protocol(proto).to_ascii_lowercase();
    format!("{service}-ip-{external_port}-{proto}")
}

pub(super) fn is_node_port(expose: &ServiceExpose) -> bool {
    expose.global && !expose.is_ingress() && expose.ip.is_empty()
}

pub(super) fn is_leased_ip(expose: &ServiceExpose) -> bool {
    expose.global && !expose.ip.is_empty()
}

fn is_local(expose: &ServiceExpose) -> bool {
    expose.is_ingress() || !expose.global
}

pub(super) fn check_total(group: &Group) -> Result<(), RenderError> {
    let total: usize = group.services.iter().map(|service| service.expose.len()).sum();
    if total > MAX_PORTS {
        let problem = format!("{total} ports in all services exceed the maximum of {MAX_PORTS} for a lease");
        return Err(RenderError::new("", "expose", problem));
    }
    Ok(())
}

/// Renders the Services of a service: one for ports inside the lease and for the proxy, one for node ports.
pub(super) fn render(cx: &RenderContext<'_>, service: &Manifest) -> Result<Vec<Service>, RenderError> {
    check_leased(service)?;
    let name = service.name.as_str();
    let kinds: [(String, &str, ExposePredicate); 2] = [
        (name.to_owned(), "ClusterIP", is_local),
        (node_port_service_name(name), "NodePort", is_node_port),
    ];
    let mut services = Vec::new();
    for (object, kind, wanted) in kinds {
        let ports = service_ports(service, wanted)?;
        if ports.is_empty() {
            continue;
        }
        // The name of a Service must be a DNS label.
        fits(service, &object)?;
        services.push(Service {
            metadata: cx.meta(object, cx.service_labels(name)),
            spec: Some(ServiceSpec {
                type_: Some(kind.to_owned()),
                selector: Some(labels::service_selector(&cx.name, name)),
                ports: Some(ports),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        });
    }
    Ok(services)
}

/// Returns the ports of a Service, without duplicate pairs of external port and protocol.
fn service_ports(service: &Manifest, wanted: ExposePredicate) -> Result<Vec<ServicePort>, RenderError> {
    let mut seen: BTreeMap<(u16, Proto), u16> = BTreeMap::new();
    let mut ports = Vec::new();
    for (n, expose) in service.expose.iter().enumerate().filter(|(_, e)| wanted(e)) {
        let external = expose.effective_external_port();
        match seen.insert((external, expose.proto), expose.port) {
            None => ports.push(ServicePort {
                // Several ports of a Service need distinct names.
                name: Some(format!("{n}-{external}")),
                port: i32::from(external),
                protocol: Some(protocol(expose.proto).to_owned()),
                target_port: Some(IntOrString::Int(i32::from(expose.port))),
                ..ServicePort::default()
            }),
            // Exposed again, for other hosts or services: one port suffices.
            Some(target) if target == expose.port => {}
            Some(target) => return Err(conflict(service, n, target)),
        }
    }
    Ok(ports)
}

/// Checks that the names of the Services for leased IPs are short enough, and that each port has only one
/// target.
fn check_leased(service: &Manifest) -> Result<(), RenderError> {
    let mut seen: BTreeMap<(u16, Proto), &ServiceExpose> = BTreeMap::new();
    for (n, expose) in service.expose.iter().enumerate().filter(|(_, e)| is_leased_ip(e)) {
        let external = expose.effective_external_port();
        fits(
            service,
            &leased_ip_service_name(&service.name, external, expose.proto),
        )?;
        let Some(before) = seen.insert((external, expose.proto), expose) else {
            continue;
        };
        if before.port != expose.port {
            return Err(conflict(service, n, before.port));
        }
        if before.ip != expose.ip {
            let problem = format!(
                "external port {external} {} is already exposed on another address; a service can expose each port on one address",
                protocol(expose.proto)
            );
            return Err(RenderError::new(
                &service.name,
                format!("expose[{n}].ip"),
                problem,
            ));
        }
    }
    Ok(())
}

/// Returns the names of all Kubernetes Services for a service of the manifest.
pub(super) fn names(service: &Manifest) -> BTreeSet<String> {
    let kinds = service.expose.iter().flat_map(|expose| {
        [
            is_local(expose).then(|| service.name.clone()),
            is_node_port(expose).then(|| node_port_service_name(&service.name)),
            leased_ip_name(&service.name, expose),
        ]
    });
    kinds.flatten().collect()
}

/// Returns the name of the Service for the leased IP of a port, or `None` for other ports.
pub(crate) fn leased_ip_name(service: &str, expose: &ServiceExpose) -> Option<String> {
    let name = || leased_ip_service_name(service, expose.effective_external_port(), expose.proto);
    is_leased_ip(expose).then(name)
}

fn conflict(service: &Manifest, n: usize, target: u16) -> RenderError {
    let Some(expose) = service.expose.get(n) else {
        return RenderError::new(&service.name, "expose", "two exposed ports conflict");
    };
    let problem = format!(
        "external port {} {} already routes to port {target} and cannot route to {} too; choose another port with `as`",
        expose.effective_external_port(),
        protocol(expose.proto),
        expose.port
    );
    RenderError::new(&service.name, format!("expose[{n}].external_port"), problem)
}

fn fits(service: &Manifest, object: &str) -> Result<(), RenderError> {
    let extra = object.len() - service.name.len();
    if object.len() <= text::MAX_LABEL {
        return Ok(());
    }
    let problem = format!(
        "{} characters; with its exposed ports the name must have at most {}",
        service.name.len(),
        text::MAX_LABEL - extra
    );
    Err(RenderError::new(&service.name, "name", problem))
}

/// Renders the Service of a leased IP. `pool` is the MetalLB pool of the address.
#[must_use]
pub fn leased_ip_service(lease: &LeaseId, ip: &IpDeclaration, pool: &str) -> Service {
    let name = leased_ip_service_name(&ip.service, ip.external_port, ip.proto);
    let namespace = lease.namespace();
    // Without the namespace label, which would mark the Service as part of the workload.
    let mut object_labels = labels::lease(lease);
    object_labels.insert(labels::MANAGED.to_owned(), "true".to_owned());
    object_labels.insert(labels::SERVICE_TARGET.to_owned(), TARGET.to_owned());
    let mut annotations = BTreeMap::from([(SHARING_KEY.to_owned(), ip.sharing_key.clone())]);
    if !is_any_pool(pool) {
        annotations.insert(POOL.to_owned(), pool.to_owned());
    }
    let selector = [(labels::MANAGED, "true"), (labels::SERVICE, ip.service.as_str())];
    Service {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace),
            labels: Some(object_labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            type_: Some("LoadBalancer".to_owned()),
            // A leased address needs no node ports, which are scarce.
            allocate_load_balancer_node_ports: Some(false),
            selector: Some(selector.map(|(k, v)| (k.to_owned(), v.to_owned())).into()),
            ports: Some(vec![ServicePort {
                name: Some(name),
                port: i32::from(ip.external_port),
                protocol: Some(protocol(ip.proto).to_owned()),
                target_port: Some(IntOrString::Int(i32::from(ip.port))),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

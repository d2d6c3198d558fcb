//! Stand-in for an unknown manifest, made from the live objects of a lease.

use crate::apply::item::ItemKind;
use crate::apply::plan::ObjectHashes;
use crate::labels;
use crate::state::LeaseView;
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::{
    Group, HttpOptions, Permissions, Proto, Service, ServiceExpose, ServiceParams,
};
use akash_provider_core::types::{Attribute, Cpu, Gpu, LeaseId, Memory, Resources, Storage};
use akash_provider_kube_kernel::subset::quantity;
use akash_provider_kube_model::objects::{leased_ip_policy_name, node_port_service_name};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec, Service as KubeService, ServicePort};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Endpoint name that the stand-in manifest uses for every leased address.
const ADDRESS: &str = "address";
/// One thousandth, in billionths. [`quantity`] returns billionths.
const MILLI: i128 = 1_000_000;
const WHOLE: i128 = 1_000_000_000;
/// Vendors of GPUs that can be requested.
const VENDORS: [&str; 2] = ["nvidia", "amd"];

pub(super) fn workload(lease: &LeaseId, services: Vec<Service>) -> WorkloadSpec {
    WorkloadSpec {
        lease: lease.clone(),
        group: Arc::new(Group::new(String::new(), services)),
        params: Arc::default(),
        hostnames: Vec::new(),
        ips: Vec::new(),
        epoch: 0,
    }
}

/// Returns stand-in services. The rendered objects have the same names, requests and ports as the live
/// objects.
pub(super) fn services(view: &LeaseView, ledger: &ObjectHashes) -> Vec<Service> {
    let is_account = |kind: ItemKind| matches!(kind, ItemKind::ServiceAccount | ItemKind::Role);
    let accounts: BTreeSet<&String> = ledger
        .keys()
        .filter(|id| is_account(id.kind))
        .map(|id| &id.name)
        .collect();
    let deployments = view.deployments.iter().map(|(name, workload)| {
        let spec = workload.spec.as_ref();
        (name, spec.map(|spec| (&spec.template, spec.replicas, false)))
    });
    let stateful_sets = view.stateful_sets.iter().map(|(name, workload)| {
        let spec = workload.spec.as_ref();
        (name, spec.map(|spec| (&spec.template, spec.replicas, true)))
    });
    let running: BTreeMap<&String, _> = deployments.chain(stateful_sets).collect();
    let names: BTreeSet<&String> = running.keys().copied().chain(accounts.iter().copied()).collect();
    names
        .into_iter()
        .map(|name| {
            let (template, replicas, is_stateful) = match running.get(name) {
                Some(Some((template, replicas, is_stateful))) => (Some(*template), *replicas, *is_stateful),
                Some(None) | None => (None, None, false),
            };
            let container = template.and_then(|template| container(template, name));
            let permissions = accounts.contains(name).then(|| Permissions {
                // The hash determines the actual permissions.
                read: Some(vec!["logs".to_owned()]),
            });
            Service {
                name: name.clone(),
                // Placeholder: the image of the live object is used.
                image: "image".to_owned(),
                command: None,
                args: None,
                env: None,
                resources: resources(container, is_stateful),
                count: replicas
                    .and_then(|count| u32::try_from(count).ok())
                    .unwrap_or_default(),
                expose: exposes(view, name, container),
                params: permissions.map(|permissions| ServiceParams {
                    permissions: Some(permissions),
                    ..ServiceParams::default()
                }),
                credentials: None,
            }
        })
        .collect()
}

fn container<'a>(template: &'a PodTemplateSpec, service: &str) -> Option<&'a Container> {
    let mut containers = template.spec.as_ref()?.containers.iter();
    containers.find(|container| container.name == service)
}

/// Returns the requested resources of the live container. A stateful container gets a persistent volume.
fn resources(container: Option<&Container>, is_stateful: bool) -> Resources {
    let requests = container.and_then(|container| container.resources.as_ref()?.requests.as_ref());
    let amount = |name: &str, unit: i128| -> u64 {
        let amount = requests.and_then(|requests| requests.get(name));
        let amount = amount.and_then(|Quantity(text)| quantity(&Value::from(text.as_str())));
        amount
            .and_then(|amount| u64::try_from(amount / unit).ok())
            .unwrap_or_default()
    };
    let volume = |name: &str, bytes: u64, attributes: Vec<Attribute>| Storage::new(name, bytes, attributes);
    let mut storage = vec![volume("default", amount("ephemeral-storage", WHOLE), Vec::new())];
    if is_stateful {
        let attributes = vec![Attribute::new("persistent", "true")];
        storage.push(volume("data", 1, attributes));
    }
    let devices = VENDORS.map(|vendor| (vendor, amount(&format!("{vendor}.com/gpu"), WHOLE)));
    let (vendor, units) = devices
        .into_iter()
        .find(|(_, units)| *units > 0)
        .unwrap_or_default();
    Resources {
        id: 1,
        cpu: Cpu::new(amount("cpu", MILLI), Vec::new()),
        memory: Memory::new(amount("memory", WHOLE), Vec::new()),
        storage,
        gpu: Gpu::new(units, vec![Attribute::new(format!("vendor/{vendor}"), "")]),
        endpoints: Vec::new(),
    }
}

/// Returns a [`ServiceExpose`] for each port of the live Services, in the order of the container ports.
fn exposes(view: &LeaseView, service: &str, container: Option<&Container>) -> Vec<ServiceExpose> {
    let order: Vec<i32> = container
        .and_then(|container| container.ports.as_ref())
        .into_iter()
        .flatten()
        .map(|port| port.container_port)
        .collect();
    let node_ports = node_port_service_name(service);
    let has_addresses = view.policies.contains_key(&leased_ip_policy_name(service));
    let mut found = Vec::new();
    for (name, object) in &view.services {
        let (is_global, ip) = if name == service {
            (false, "")
        } else if *name == node_ports {
            (true, "")
        } else if has_addresses && is_address_of(object, service) {
            (true, ADDRESS)
        } else {
            continue;
        };
        let ports = object.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
        found.extend(ports.filter_map(|port| expose(port, is_global, ip)));
    }
    let place = |expose: &ServiceExpose| order.iter().position(|port| *port == i32::from(expose.port));
    found.sort_by_key(|expose| place(expose).unwrap_or(usize::MAX));
    found
}

fn is_address_of(object: &KubeService, service: &str) -> bool {
    let labels = object.metadata.labels.as_ref();
    let selector = object.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    labels.is_some_and(|labels| labels.contains_key(labels::SERVICE_TARGET))
        && selector.is_some_and(|selector| selector.get(labels::SERVICE).is_some_and(|name| name == service))
}

fn expose(port: &ServicePort, global: bool, ip: &str) -> Option<ServiceExpose> {
    let target = match port.target_port.as_ref()? {
        IntOrString::Int(target) => u16::try_from(*target).ok()?,
        IntOrString::String(_) => return None,
    };
    Some(ServiceExpose {
        port: target,
        external_port: u16::try_from(port.port).ok()?,
        proto: if port.protocol.as_deref() == Some("UDP") {
            Proto::Udp
        } else {
            Proto::Tcp
        },
        service: String::new(),
        global,
        hosts: None,
        http_options: HttpOptions::default(),
        ip: ip.to_owned(),
        endpoint_sequence_number: 0,
    })
}

//! Network policies: allowed incoming and outgoing connections of the pods of a lease.

use super::account::permissions;
use super::context::RenderContext;
use super::networks::Networks;
use super::{RenderError, ports};
use crate::settings::{IngressMode, ProxyPods};
use akash_provider_core::manifest::{Service, ServiceExpose};
use akash_provider_kube_kernel::labels::{self, Labels};
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Name of the policy that isolates the pods of a lease.
pub const RESTRICTIONS: &str = "akash-deployment-restrictions";

const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
const WORLD_V4: &str = "0.0.0.0/0";
const WORLD_V6: &str = "::/0";
/// Networks that the Go provider blocks for pods of leases.
const LEGACY_CLOSED: [&str; 3] = ["10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12"];

/// Returns the name of the policy that opens the node ports of a service.
#[must_use]
pub fn node_port_policy_name(service: &str) -> String {
    format!("akash-{service}-np")
}

/// Returns the name of the policy that opens the leased addresses of a service.
#[must_use]
pub fn leased_ip_policy_name(service: &str) -> String {
    format!("akash-{service}-ip")
}

/// Returns the name of the policy that lets a service with read permissions connect to the API server.
#[must_use]
pub fn api_server_policy_name(service: &str) -> String {
    format!("akash-apiserver-{service}")
}

/// Renders all policies of a lease; none if [`KubeSettings::network_policies`](crate::settings::KubeSettings::network_policies)
/// is false.
pub(super) fn render(cx: &RenderContext<'_>) -> Result<Vec<NetworkPolicy>, RenderError> {
    if !cx.settings.network_policies {
        return Ok(Vec::new());
    }
    let mut policies = vec![restrictions(cx)?];
    for service in &cx.deployment.group.services {
        policies.extend(node_ports(cx, service));
        policies.extend(leased_ips(cx, service));
        policies.extend(api_server(cx, service));
    }
    Ok(policies)
}

pub(super) fn names(service: &Service) -> impl Iterator<Item = String> {
    let any = |wanted: fn(&ServiceExpose) -> bool| service.expose.iter().any(wanted);
    let name = service.name.as_str();
    [
        any(ports::is_node_port).then(|| node_port_policy_name(name)),
        any(ports::is_leased_ip).then(|| leased_ip_policy_name(name)),
        (!permissions(service).is_empty()).then(|| api_server_policy_name(name)),
    ]
    .into_iter()
    .flatten()
}

fn restrictions(cx: &RenderContext<'_>) -> Result<NetworkPolicy, RenderError> {
    let own = || pods((labels::NAMESPACE, cx.name.as_str()), None);
    let mut sources = vec![own()];
    sources.extend(cx.settings.proxies.iter().map(proxy));
    if let IngressMode::GatewayApi { namespace, .. } = &cx.settings.ingress {
        sources.push(pods((NAMESPACE_NAME, namespace.as_str()), None));
    }
    let from = |peer| NetworkPolicyIngressRule {
        from: Some(vec![peer]),
        ..NetworkPolicyIngressRule::default()
    };
    let mut egress = vec![to(vec![own()], None)];
    egress.extend(resolvers(cx)?);
    egress.extend(world(cx)?);
    let spec = NetworkPolicySpec {
        // The empty selector includes all pods of the namespace, also those of other clients.
        pod_selector: Some(LabelSelector::default()),
        policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
        ingress: Some(sources.into_iter().map(from).collect()),
        egress: Some(egress),
    };
    Ok(policy(cx, RESTRICTIONS.to_owned(), spec))
}

/// Permits connections to port 53 of the cluster's DNS resolvers, even in closed networks.
fn resolvers(cx: &RenderContext<'_>) -> Result<Vec<NetworkPolicyEgressRule>, RenderError> {
    let dns = || Some(vec![port(53, "UDP"), port(53, "TCP")]);
    let labels = cx.settings.egress.resolver_pods.iter();
    let labels: Vec<_> = labels.map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let mut rules = Vec::new();
    if !labels.is_empty() {
        let peer = pods((NAMESPACE_NAME, "kube-system"), Some(&labels));
        rules.push(to(vec![peer], dns()));
    }
    // The policies of a legacy lease equal those of the Go provider.
    let networks = if cx.is_legacy() {
        Vec::new()
    } else {
        Networks::resolvers(cx)?
    };
    if !networks.is_empty() {
        let blocks = networks
            .iter()
            .map(|network| block(network.to_string(), Vec::new()));
        rules.push(to(blocks.collect(), dns()));
    }
    Ok(rules)
}

/// Permits connections to all networks except the blocked networks.
fn world(cx: &RenderContext<'_>) -> Result<Vec<NetworkPolicyEgressRule>, RenderError> {
    if cx.is_legacy() {
        // IPv4 only, like the Go provider: without a rule, IPv6 stays closed.
        let mut closed = LEGACY_CLOSED.map(str::to_owned).to_vec();
        // These addresses serve the credentials of the node.
        closed.extend(Networks::metadata().iter().map(ToString::to_string));
        return Ok(vec![to(vec![block(WORLD_V4.to_owned(), closed)], None)]);
    }
    let closed = Networks::closed(cx)?;
    let v4: Vec<_> = closed.v4.iter().map(ToString::to_string).collect();
    let v6: Vec<_> = closed.v6.iter().map(ToString::to_string).collect();
    let families = [(WORLD_V4, v4), (WORLD_V6, v6)];
    let open = families
        .into_iter()
        // A completely closed family gets no rule: an exception must be smaller than its block.
        .filter(|(world, closed)| closed.iter().all(|network| network != world));
    Ok(open
        .map(|(world, closed)| to(vec![block(world.to_owned(), closed)], None))
        .collect())
}

fn node_ports(cx: &RenderContext<'_>, service: &Service) -> Option<NetworkPolicy> {
    let ports = container_ports(service, ports::is_node_port)?;
    // Without a source, because node ports are public.
    let rule = NetworkPolicyIngressRule {
        ports: Some(ports),
        ..NetworkPolicyIngressRule::default()
    };
    Some(policy(
        cx,
        node_port_policy_name(&service.name),
        ingress_of(service, rule),
    ))
}

fn leased_ips(cx: &RenderContext<'_>, service: &Service) -> Option<NetworkPolicy> {
    let ports = container_ports(service, ports::is_leased_ip)?;
    let mut from = vec![block(WORLD_V4.to_owned(), Vec::new())];
    if !cx.is_legacy() {
        from.push(block(WORLD_V6.to_owned(), Vec::new()));
    }
    let rule = NetworkPolicyIngressRule {
        ports: Some(ports),
        from: Some(from),
    };
    Some(policy(
        cx,
        leased_ip_policy_name(&service.name),
        ingress_of(service, rule),
    ))
}

/// Permits a service with read permissions to connect to the API servers.
fn api_server(cx: &RenderContext<'_>, service: &Service) -> Option<NetworkPolicy> {
    let servers = &cx.settings.egress.api_servers;
    if permissions(service).is_empty() || servers.is_empty() {
        return None;
    }
    let rules = servers.iter().map(|server| {
        let length = match server.ip() {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        let host = block(format!("{}/{length}", server.ip()), Vec::new());
        to(vec![host], Some(vec![port(server.port(), "TCP")]))
    });
    let spec = NetworkPolicySpec {
        pod_selector: Some(of_service(service)),
        policy_types: Some(vec!["Egress".to_owned()]),
        egress: Some(rules.collect()),
        ingress: None,
    };
    Some(policy(cx, api_server_policy_name(&service.name), spec))
}

/// Returns the container ports of the selected exposes, without duplicates.
fn container_ports(service: &Service, wanted: fn(&ServiceExpose) -> bool) -> Option<Vec<NetworkPolicyPort>> {
    let mut seen = BTreeSet::new();
    let exposes = service.expose.iter().filter(|expose| wanted(expose));
    let once = exposes.filter(|expose| seen.insert((expose.port, expose.proto)));
    let ports: Vec<_> = once
        .map(|expose| port(expose.port, crate::leased_ips::protocol(expose.proto)))
        .collect();
    (!ports.is_empty()).then_some(ports)
}

fn ingress_of(service: &Service, rule: NetworkPolicyIngressRule) -> NetworkPolicySpec {
    NetworkPolicySpec {
        pod_selector: Some(of_service(service)),
        policy_types: Some(vec!["Ingress".to_owned()]),
        ingress: Some(vec![rule]),
        egress: None,
    }
}

fn of_service(service: &Service) -> LabelSelector {
    matching(&[(labels::SERVICE, service.name.as_str())])
}

fn policy(cx: &RenderContext<'_>, name: String, spec: NetworkPolicySpec) -> NetworkPolicy {
    NetworkPolicy {
        metadata: cx.meta(name, cx.labels()),
        spec: Some(spec),
    }
}

fn to(peers: Vec<NetworkPolicyPeer>, ports: Option<Vec<NetworkPolicyPort>>) -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        to: Some(peers),
        ports,
    }
}

fn proxy(proxy: &ProxyPods) -> NetworkPolicyPeer {
    let selector = |labels: &[(String, String)]| {
        let labels: Vec<_> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        matching(&labels)
    };
    NetworkPolicyPeer {
        // The empty selector includes all namespaces.
        namespace_selector: Some(selector(&proxy.namespace)),
        pod_selector: (!proxy.pods.is_empty()).then(|| selector(&proxy.pods)),
        ..NetworkPolicyPeer::default()
    }
}

fn pods(namespace: (&str, &str), pods: Option<&[(&str, &str)]>) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        namespace_selector: Some(matching(&[namespace])),
        pod_selector: pods.map(matching),
        ..NetworkPolicyPeer::default()
    }
}

fn block(cidr: String, except: Vec<String>) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        ip_block: Some(IPBlock {
            cidr,
            except: (!except.is_empty()).then_some(except),
        }),
        ..NetworkPolicyPeer::default()
    }
}

fn matching(labels: &[(&str, &str)]) -> LabelSelector {
    let labels: Labels = labels
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    LabelSelector {
        match_labels: Some(labels),
        ..LabelSelector::default()
    }
}

fn port(port: u16, protocol: &str) -> NetworkPolicyPort {
    NetworkPolicyPort {
        port: Some(IntOrString::Int(i32::from(port))),
        protocol: Some(protocol.to_owned()),
        ..NetworkPolicyPort::default()
    }
}

//! Evaluation of network policies by the rules of Kubernetes.
//!
//! A pod selected by a policy for a direction accepts only the traffic that one of its policies allows.
//! Policies are additive. Pods outside of leases are open.

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Source or target of a flow.
#[derive(Debug, Clone)]
pub(crate) enum Endpoint {
    /// Pod, with the labels of its namespace and its own labels.
    Pod {
        namespace: String,
        namespace_labels: BTreeMap<String, String>,
        labels: BTreeMap<String, String>,
    },
    /// An address that does not belong to a pod.
    Host(IpAddr),
}

impl Endpoint {
    pub(crate) fn pod(namespace: &str, namespace_labels: &[(&str, &str)], labels: &[(&str, &str)]) -> Self {
        let owned = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        let mut namespace_labels = owned(namespace_labels);
        namespace_labels.insert("kubernetes.io/metadata.name".to_owned(), namespace.to_owned());
        Self::Pod {
            namespace: namespace.to_owned(),
            namespace_labels,
            labels: owned(labels),
        }
    }

    pub(crate) fn host(address: &str) -> Self {
        Self::Host(address.parse().unwrap())
    }
}

/// Returns `true` if the policies of a lease allow a flow at both ends.
pub(crate) fn allowed(
    policies: &[NetworkPolicy],
    lease: &str,
    from: &Endpoint,
    to: &Endpoint,
    protocol: &str,
    port: u16,
) -> bool {
    let passes = |end: &Endpoint, other: &Endpoint, direction: &str| {
        let Endpoint::Pod {
            namespace, labels, ..
        } = end
        else {
            return true;
        };
        if namespace != lease {
            return true;
        }
        let selecting: Vec<_> = policies
            .iter()
            .map(|policy| policy.spec.as_ref().unwrap())
            .filter(|spec| {
                spec.policy_types
                    .as_ref()
                    .unwrap()
                    .iter()
                    .any(|kind| kind == direction)
            })
            .filter(|spec| matches(spec.pod_selector.as_ref().unwrap(), labels))
            .collect();
        selecting.is_empty()
            || selecting
                .iter()
                .flat_map(|spec| rules(spec, direction))
                .any(|(peers, ports)| opens(lease, peers, ports, other, protocol, port))
    };
    passes(from, to, "Egress") && passes(to, from, "Ingress")
}

type Rule<'a> = (Option<&'a [NetworkPolicyPeer]>, Option<&'a [NetworkPolicyPort]>);

fn rules<'a>(spec: &'a NetworkPolicySpec, direction: &str) -> Vec<Rule<'a>> {
    if direction == "Ingress" {
        let rules = spec.ingress.iter().flatten();
        rules
            .map(|rule| (rule.from.as_deref(), rule.ports.as_deref()))
            .collect()
    } else {
        let rules = spec.egress.iter().flatten();
        rules
            .map(|rule| (rule.to.as_deref(), rule.ports.as_deref()))
            .collect()
    }
}

fn opens(
    lease: &str,
    peers: Option<&[NetworkPolicyPeer]>,
    ports: Option<&[NetworkPolicyPort]>,
    other: &Endpoint,
    protocol: &str,
    port: u16,
) -> bool {
    let on_port = |wanted: &NetworkPolicyPort| {
        assert_eq!(wanted.end_port, None, "ranges are not evaluated");
        let number = match wanted.port.as_ref() {
            Some(IntOrString::Int(number)) => *number == i32::from(port),
            Some(IntOrString::String(name)) => panic!("the named port {name} is not evaluated"),
            None => true,
        };
        number && wanted.protocol.as_deref().unwrap_or("TCP") == protocol
    };
    let by_peer = peers
        .is_none_or(|peers| peers.is_empty() || peers.iter().any(|peer| matches_peer(lease, peer, other)));
    by_peer && ports.is_none_or(|ports| ports.is_empty() || ports.iter().any(on_port))
}

fn matches_peer(lease: &str, peer: &NetworkPolicyPeer, place: &Endpoint) -> bool {
    if let Some(block) = &peer.ip_block {
        assert!(
            peer.namespace_selector.is_none() && peer.pod_selector.is_none(),
            "the API server refuses a peer with both"
        );
        let Endpoint::Host(address) = place else {
            return false;
        };
        let network: IpNet = block.cidr.parse().unwrap();
        let inside = |text: &String| {
            let except: IpNet = text.parse().unwrap();
            assert!(
                network.contains(&except) && network != except,
                "the API server refuses {text} in {network}"
            );
            except.contains(address)
        };
        return network.contains(address) && !block.except.iter().flatten().any(inside);
    }
    let Endpoint::Pod {
        namespace,
        namespace_labels,
        labels,
    } = place
    else {
        return false;
    };
    let in_namespace = match &peer.namespace_selector {
        Some(selector) => matches(selector, namespace_labels),
        None => namespace == lease,
    };
    in_namespace
        && peer
            .pod_selector
            .as_ref()
            .is_none_or(|selector| matches(selector, labels))
}

fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    assert!(
        selector.match_expressions.is_none(),
        "expressions are not evaluated"
    );
    let mut wanted = selector.match_labels.iter().flatten();
    wanted.all(|(key, value)| labels.get(key) == Some(value))
}

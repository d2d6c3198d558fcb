//! Addresses of nodes and API servers, which pods of tenants must not reach.

mod watch;

pub use watch::InfrastructureWatch;

use crate::settings::Egress;
use akash_provider_core::error::Error;
use akash_provider_kube_kernel::pages;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const OPERATION: &str = "infrastructure";
/// Selector of the endpoint slices of the API server (Service `kubernetes`).
const API_SERVERS: &str = "kubernetes.io/service-name=kubernetes";

/// Addresses of the nodes and API servers of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Infrastructure {
    /// Internal and external addresses of nodes.
    pub nodes: BTreeSet<IpAddr>,
    /// Endpoints of the API server.
    pub api_servers: BTreeSet<SocketAddr>,
}

impl Infrastructure {
    /// Reads the addresses. `limit` is the timeout of one call.
    ///
    /// # Errors
    /// The errors of the API server. A failed query never returns an empty list.
    pub async fn read(client: &Client, limit: Duration) -> Result<Self, Error> {
        let nodes: Api<Node> = Api::all(client.clone());
        let nodes = pages::objects(&nodes, ListParams::default(), limit, OPERATION).await?;
        let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
        let params = ListParams::default().labels(API_SERVERS);
        let slices = pages::objects(&slices, params, limit, OPERATION).await?;
        Ok(Self {
            nodes: nodes.iter().flat_map(node_addresses).collect(),
            api_servers: slices.iter().flat_map(backends).collect(),
        })
    }

    /// Sets the addresses that pods must not reach. Pods of services with read permissions can still reach
    /// the API server.
    pub fn close(&self, egress: &mut Egress) {
        let servers = self.api_servers.iter().map(SocketAddr::ip);
        let all: BTreeSet<IpAddr> = self.nodes.iter().copied().chain(servers).collect();
        egress.infrastructure = all.into_iter().map(network).collect();
        egress.api_servers = self.api_servers.iter().copied().collect();
    }
}

fn network(address: IpAddr) -> String {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    format!("{address}/{bits}")
}

fn node_addresses(node: &Node) -> Vec<IpAddr> {
    let addresses = node.status.iter().flat_map(|s| s.addresses.iter().flatten());
    // Other types of addresses are names.
    let ips = addresses.filter(|a| matches!(a.type_.as_str(), "InternalIP" | "ExternalIP"));
    ips.filter_map(|a| a.address.parse().ok()).collect()
}

fn backends(slice: &EndpointSlice) -> Vec<SocketAddr> {
    let ports: Vec<u16> = slice
        .ports
        .iter()
        .flatten()
        .filter_map(|p| u16::try_from(p.port?).ok())
        .collect();
    let addresses = slice.endpoints.iter().flat_map(|e| &e.addresses);
    let ips = addresses.filter_map(|a| a.parse::<IpAddr>().ok());
    ips.flat_map(|ip| ports.iter().map(move |port| SocketAddr::new(ip, *port)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_of_nodes_and_api_servers_are_closed() {
        let node: Node = serde_json::from_value(json!({
            "metadata": { "name": "n" },
            "status": { "addresses": [
                { "type": "InternalIP", "address": "10.0.0.1" }, { "type": "ExternalIP", "address": "203.0.113.9" },
                { "type": "InternalIP", "address": "2001:db8::1" }, { "type": "Hostname", "address": "198.51.100.1" },
            ] },
        }))
        .unwrap();
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": { "name": "kubernetes" }, "addressType": "IPv4",
            "endpoints": [{ "addresses": ["203.0.113.1", "nonsense"] }, { "addresses": ["203.0.113.2"] }],
            "ports": [{ "port": 6443 }, { "port": null }],
        }))
        .unwrap();
        let found = Infrastructure {
            nodes: node_addresses(&node).into_iter().collect(),
            api_servers: backends(&slice).into_iter().collect(),
        };
        let mut egress = Egress::default();
        found.close(&mut egress);
        let closed = [
            "10.0.0.1/32",
            "203.0.113.1/32",
            "203.0.113.2/32",
            "203.0.113.9/32",
            "2001:db8::1/128",
        ];
        assert_eq!(egress.infrastructure, closed);
        let servers: Vec<_> = egress.api_servers.iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["203.0.113.1:6443", "203.0.113.2:6443"]);
    }
}

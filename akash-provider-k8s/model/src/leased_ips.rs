//! Leased addresses: names of their objects, the pools of MetalLB, and the used addresses.

pub mod pool;
mod usage;

pub use usage::{AddressCount, AddressUsage, Balancer, PoolStatus};

use crate::crd::{ManifestLeaseId, ProviderLeasedIpSpec};
use akash_provider_core::cluster::IpDeclaration;
use akash_provider_core::manifest::Proto;
use akash_provider_core::types::{DeploymentId, LeaseId};
use akash_provider_kube_kernel::labels::{self, Labels};
use serde_json::Value;
use std::net::IpAddr;

/// Value of [`SERVICE_TARGET`](labels::SERVICE_TARGET) on the Services of leased addresses.
pub const TARGET: &str = "metal-lb";
/// Pool name that lets MetalLB choose the pool.
pub const DEFAULT_POOL: &str = "default";

/// Maximum number of addresses that are read per Service.
const ADDRESSES_MAX: usize = 16;

/// Status of a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Assignment {
    /// Assigned addresses.
    pub addresses: Vec<IpAddr>,
    /// Number of entries in the status, including entries without an address.
    pub entries: usize,
}

impl Assignment {
    /// Decodes the status of a Service.
    #[must_use]
    pub fn from_status(service: &Value) -> Self {
        let entries = service.pointer("/status/loadBalancer/ingress");
        let entries = entries.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let address = |entry: &Value| entry.get("ip")?.as_str()?.parse().ok();
        Self {
            addresses: entries.iter().take(ADDRESSES_MAX).filter_map(address).collect(),
            entries: entries.len(),
        }
    }
}

/// Returns true if MetalLB chooses the pool of the leased addresses.
#[must_use]
pub fn is_any_pool(pool: &str) -> bool {
    pool.is_empty() || pool == DEFAULT_POOL
}

/// Returns true for the labels of the Service of a leased address.
#[must_use]
pub fn is_leased(service: Option<&Labels>) -> bool {
    let has = |key: &str, value: &str| service.and_then(|all| all.get(key)).is_some_and(|v| v == value);
    has(labels::MANAGED, "true") && has(labels::SERVICE_TARGET, TARGET)
}

/// Returns true for the spec of a Service of the type LoadBalancer.
#[must_use]
pub fn is_balancer(spec: &Value) -> bool {
    spec.get("type").and_then(Value::as_str) == Some("LoadBalancer")
}

/// Returns the name of a protocol in Kubernetes objects.
pub(crate) const fn protocol(proto: Proto) -> &'static str {
    match proto {
        Proto::Tcp => "TCP",
        Proto::Udp => "UDP",
    }
}

/// Returns the unique object name for a port of an address.
#[must_use]
pub fn object_name(ip: &IpDeclaration) -> String {
    format!("{}-{}-{}", ip.sharing_key, protocol(ip.proto), ip.external_port).to_lowercase()
}

/// Returns the spec of the ProviderLeasedIP object of a port.
#[must_use]
pub fn spec(lease: &LeaseId, ip: &IpDeclaration) -> ProviderLeasedIpSpec {
    let group = &lease.order.group;
    ProviderLeasedIpSpec {
        lease_id: ManifestLeaseId {
            owner: group.deployment.owner.to_string(),
            dseq: group.deployment.dseq.to_string(),
            gseq: group.gseq,
            oseq: lease.order.oseq,
            provider: lease.provider.to_string(),
        },
        service_name: ip.service.clone(),
        port: u32::from(ip.port),
        external_port: u32::from(ip.external_port),
        sharing_key: ip.sharing_key.clone(),
        protocol: protocol(ip.proto).to_owned(),
    }
}

/// Returns the lease of a leased address, or `None` if the lease ID in the record is invalid.
#[must_use]
pub fn lease_of(spec: &ProviderLeasedIpSpec) -> Option<LeaseId> {
    let id = &spec.lease_id;
    let group = DeploymentId::new(id.owner.parse().ok()?, id.dseq.parse().ok()?).group(id.gseq);
    Some(group.order(id.oseq).bid(id.provider.parse().ok()?))
}

/// Decodes a declaration; `None` if a port or the protocol is invalid.
#[must_use]
pub fn declaration(spec: &ProviderLeasedIpSpec) -> Option<IpDeclaration> {
    let proto = match spec.protocol.to_ascii_uppercase().as_str() {
        "TCP" => Proto::Tcp,
        "UDP" => Proto::Udp,
        _ => return None,
    };
    Some(IpDeclaration {
        service: spec.service_name.clone(),
        port: spec.port.try_into().ok()?,
        external_port: spec.external_port.try_into().ok()?,
        proto,
        sharing_key: spec.sharing_key.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_its_own_object_and_round_trips() {
        let text = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh/3944427/1/1/\
                    akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";
        let lease: LeaseId = text.parse().unwrap();
        let ip = IpDeclaration {
            service: "web".to_owned(),
            port: 80,
            external_port: 8080,
            proto: Proto::Udp,
            sharing_key: "akash1x-ip-Front".to_owned(),
        };
        assert_eq!(object_name(&ip), "akash1x-ip-front-udp-8080");
        let spec = spec(&lease, &ip);
        assert_eq!(lease_of(&spec), Some(lease));
        assert_eq!(declaration(&spec), Some(ip));
        for garbage in ["", "SCTP"] {
            let spec = ProviderLeasedIpSpec {
                protocol: garbage.to_owned(),
                ..spec.clone()
            };
            assert_eq!(declaration(&spec), None);
        }
        let spec = ProviderLeasedIpSpec { port: 65_536, ..spec };
        assert_eq!(declaration(&spec), None);
    }
}

//! ProviderLeasedIP object: a port of a leased IP address that routes to a service of a lease.

use super::manifest::ManifestLeaseId;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Port of a leased address, and the service it routes to.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "akash.network",
    version = "v2beta2",
    kind = "ProviderLeasedIP",
    plural = "providerleasedips",
    shortname = "plip",
    namespaced,
    derive = "PartialEq"
)]
pub struct ProviderLeasedIpSpec {
    /// Lease.
    pub lease_id: ManifestLeaseId,
    /// Service of the lease.
    pub service_name: String,
    /// Port in the container.
    pub port: u32,
    /// Port of the leased address.
    pub external_port: u32,
    /// Key of the address. Ports with the same key share an address.
    pub sharing_key: String,
    /// `TCP` or `UDP`.
    pub protocol: String,
}

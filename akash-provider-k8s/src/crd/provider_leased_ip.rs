//! A leased IP address that leads to a service of a lease.

use super::manifest::ManifestLeaseId;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which port of which service an address leads to.
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
    /// The lease.
    pub lease_id: ManifestLeaseId,
    /// Service of the lease.
    pub service_name: String,
    /// Port in the container.
    pub port: u32,
    /// Port on the address.
    pub external_port: u32,
    /// Exposes with the same key share an address.
    pub sharing_key: String,
    /// `TCP` or `UDP`.
    pub protocol: String,
}

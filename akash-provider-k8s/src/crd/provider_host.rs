//! A hostname that leads to a service of a lease.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which service of which lease a hostname leads to.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "akash.network",
    version = "v2beta2",
    kind = "ProviderHost",
    plural = "providerhosts",
    shortname = "ph",
    namespaced,
    derive = "PartialEq"
)]
pub struct ProviderHostSpec {
    /// Tenant.
    pub owner: String,
    /// Provider.
    pub provider: String,
    /// Lower case; also the object's name.
    pub hostname: String,
    /// Deployment sequence number.
    pub dseq: u64,
    /// Group sequence number.
    pub gseq: u32,
    /// Order sequence number.
    pub oseq: u32,
    /// Service of the lease.
    pub service_name: String,
    /// External port of the expose.
    pub external_port: u32,
}

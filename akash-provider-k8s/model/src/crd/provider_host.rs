//! ProviderHost object: a hostname that routes to a service of a lease.

use akash_provider_core::types::{DeploymentId, LeaseId};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Hostname, and the service of a lease it routes to.
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
    /// Address of the tenant.
    pub owner: String,
    /// Address of the provider.
    pub provider: String,
    /// Hostname in lower case; also the name of the object.
    pub hostname: String,
    /// Deployment sequence number.
    pub dseq: u64,
    /// Group sequence number.
    pub gseq: u32,
    /// Order sequence number.
    pub oseq: u32,
    /// Service of the lease.
    pub service_name: String,
    /// External port of the service.
    pub external_port: u32,
}

/// Returns the lease of a hostname, or `None` if the owner or the provider in the record is invalid.
#[must_use]
pub fn lease_of_host(host: &ProviderHostSpec) -> Option<LeaseId> {
    let group = DeploymentId::new(host.owner.parse().ok()?, host.dseq).group(host.gseq);
    Some(group.order(host.oseq).bid(host.provider.parse().ok()?))
}

//! Rights of the provider in the cluster.

mod required;

pub use required::{Condition, Rule, RuleScope, required, required_in_leases};

use akash_provider_core::error::Error;
use akash_provider_kube_kernel::rights::may;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::Client;
use std::time::Duration;

/// Returns true if the Kubernetes account of the client may use `verb` on `resource`. `rule` contains the API
/// group and the scope. `namespace` is used only for the scopes `Records` and `Lease`.
///
/// # Errors
/// Returns an error if the API server does not respond within `limit`.
pub async fn is_granted(
    client: &Client,
    limit: Duration,
    rule: &Rule,
    resource: &str,
    verb: &str,
    namespace: &str,
) -> Result<bool, Error> {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, below)) => (resource, Some(below.to_owned())),
        None => (resource, None),
    };
    let attributes = ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(rule.group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        name: rule.name.map(str::to_owned),
        namespace: rule.scope.namespace(namespace).map(str::to_owned),
        ..ResourceAttributes::default()
    };
    may(client, limit, attributes, "check the rights").await
}

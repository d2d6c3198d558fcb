//! Labels and annotations of the Akash network, and the lease in the labels of an object.
//!
//! This provider and the Go provider find each other's objects by these labels. Therefore only names that start with
//! [`OURS`] can change.

use akash_provider_core::types::{Address, DeploymentId, LeaseId};
use std::collections::BTreeMap;

/// Label with the value `true` on objects of a provider, and on nodes and storage classes that the provider
/// may use.
pub const MANAGED: &str = "akash.network";
/// Label: namespace of the lease to which the object belongs.
pub const NAMESPACE: &str = "akash.network/namespace";
/// Label: `resourceVersion` of the Manifest at the time when this object was rendered.
pub const MANIFEST_VERSION: &str = "akash.network/manifest.resource.version";
/// Label: name of the service to which the object belongs.
pub const SERVICE: &str = "akash.network/manifest-service";
/// Label: address of the tenant, who owns the deployment.
pub const LEASE_OWNER: &str = "akash.network/lease.id.owner";
/// Label: sequence number of the deployment, in decimal.
pub const LEASE_DSEQ: &str = "akash.network/lease.id.dseq";
/// Label: sequence number of the group within its deployment.
pub const LEASE_GSEQ: &str = "akash.network/lease.id.gseq";
/// Label: sequence number of the order within its group.
pub const LEASE_OSEQ: &str = "akash.network/lease.id.oseq";
/// Label: address of the provider's account.
pub const LEASE_PROVIDER: &str = "akash.network/lease.id.provider";
/// Labels that identify a lease.
pub const LEASE: [&str; 5] = [LEASE_OWNER, LEASE_DSEQ, LEASE_GSEQ, LEASE_OSEQ, LEASE_PROVIDER];
/// Label of the Services of leased IPs. The value is `metal-lb`.
pub const SERVICE_TARGET: &str = "akash.network/service-target";
/// Prefix of the labels of mountable storage classes. The value of such a label is a number above zero.
pub const CLASS_LABEL: &str = "akash.network/capabilities.storage.class.";
/// Annotation of a ProviderHost: time of the last declaration, RFC 3339 in UTC.
pub const UPDATED_AT: &str = "akash.network/lease.updated_at";

/// Prefix of the annotations of this provider program. The Go provider preserves these annotations.
pub const OURS: &str = "provider.akash.network/";
/// Annotation on the objects of a lease: the chain id of the lease.
pub const CHAIN_ID: &str = "provider.akash.network/chain-id";
/// Annotation of a namespace: hash of all applied objects, written last.
pub const APPLIED: &str = "provider.akash.network/applied";
/// Annotation of an object: hash of the object at the last apply.
pub const APPLIED_HASH: &str = "provider.akash.network/applied-hash";
/// Annotation: election term of the operator instance that last wrote the object.
pub const OPERATOR_TERM: &str = "provider.akash.network/operator-term";
/// Annotation of the election Lease: address and settings of the leader, and state for the next leader.
pub const BESIDE_LEADERSHIP: &str = "provider.akash.network/leadership";
/// Annotation of a namespace: isolation level of its pods.
pub const ISOLATION: &str = "provider.akash.network/isolation";
/// Label with the value `true` on a NetworkPolicy, Role or RoleBinding that an administrator added to the
/// namespace of a lease. Without the label, such an object is deleted.
pub const KEEP: &str = "provider.akash.network/keep";
/// Annotation of a Manifest, as JSON: the values that the spec cannot express.
pub const EXTRA: &str = "provider.akash.network/deployment";

/// Annotation of a ProviderHost, as JSON: the state of the ownership proof.
pub const HOSTNAME_PROOF: &str = "provider.akash.network/hostname-proof";
/// Annotation of a ProviderHost: result of the last probe of the hostname, as JSON.
pub const HOSTNAME_REACHABLE: &str = "provider.akash.network/hostname-reachable";

/// Selector of all objects of a provider.
pub const SELECTOR: &str = "akash.network=true";

/// Set of labels.
pub type Labels = BTreeMap<String, String>;

/// Returns the labels by which workloads, Services and policies select pods of a lease.
#[must_use]
pub fn selector(namespace: &str) -> Labels {
    Labels::from([
        (MANAGED.to_owned(), "true".to_owned()),
        (NAMESPACE.to_owned(), namespace.to_owned()),
    ])
}

/// Returns the labels by which pods of one service are selected.
#[must_use]
pub fn service_selector(namespace: &str, service: &str) -> Labels {
    let mut labels = selector(namespace);
    labels.insert(SERVICE.to_owned(), service.to_owned());
    labels
}

/// Returns the labels that identify a lease.
#[must_use]
pub fn lease(lease: &LeaseId) -> Labels {
    let group = &lease.order.group;
    Labels::from([
        (LEASE_OWNER.to_owned(), group.deployment.owner.to_string()),
        (LEASE_DSEQ.to_owned(), group.deployment.dseq.to_string()),
        (LEASE_GSEQ.to_owned(), group.gseq.to_string()),
        (LEASE_OSEQ.to_owned(), lease.order.oseq.to_string()),
        (LEASE_PROVIDER.to_owned(), lease.provider.to_string()),
    ])
}

/// Returns the lease that the labels identify; `None` if a label is missing or invalid.
#[must_use]
pub fn lease_of(labels: &Labels) -> Option<LeaseId> {
    let text = |key: &str| labels.get(key).map(String::as_str);
    let owner: Address = text(LEASE_OWNER)?.parse().ok()?;
    let group =
        DeploymentId::new(owner, text(LEASE_DSEQ)?.parse().ok()?).group(text(LEASE_GSEQ)?.parse().ok()?);
    Some(
        group
            .order(text(LEASE_OSEQ)?.parse().ok()?)
            .bid(text(LEASE_PROVIDER)?.parse().ok()?),
    )
}

/// Formats labels as a selector: `a=b,c=d`.
#[must_use]
pub fn to_selector(labels: &Labels) -> String {
    let parts: Vec<_> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_round_trips_through_its_labels() {
        let text = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh/3944427/1/1/\
                    akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";
        let id: LeaseId = text.parse().unwrap();
        assert_eq!(lease_of(&lease(&id)), Some(id.clone()));
        for key in lease(&id).keys() {
            let mut labels = lease(&id);
            labels.remove(key);
            assert_eq!(lease_of(&labels), None, "without {key}");
            labels.insert(key.clone(), "nonsense".to_owned());
            assert_eq!(lease_of(&labels), None, "invalid {key}");
        }
    }
}

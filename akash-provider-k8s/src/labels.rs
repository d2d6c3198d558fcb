//! Labels and annotations of the network, and how a lease is read back from them.
//!
//! Both providers find each other's objects by these, so that every text here is a fact of the network but
//! for the ones that start with [`OURS`].

use akash_provider_core::types::{Address, DeploymentId, GroupId, LeaseId, OrderId};
use std::collections::BTreeMap;

/// `true` on everything a provider made, on nodes it may use and on storage classes it may offer.
pub const MANAGED: &str = "akash.network";
/// Namespace of the lease an object belongs to.
pub const NAMESPACE: &str = "akash.network/namespace";
/// `resourceVersion` of the Manifest object that the object was made from.
pub const MANIFEST_VERSION: &str = "akash.network/manifest.resource.version";
/// Service of the lease an object belongs to.
pub const SERVICE: &str = "akash.network/manifest-service";
/// Tenant: address of the account that owns the deployment.
pub const LEASE_OWNER: &str = "akash.network/lease.id.owner";
/// Sequence number of the deployment, in decimal.
pub const LEASE_DSEQ: &str = "akash.network/lease.id.dseq";
/// Sequence number of the group within its deployment.
pub const LEASE_GSEQ: &str = "akash.network/lease.id.gseq";
/// Sequence number of the order within its group.
pub const LEASE_OSEQ: &str = "akash.network/lease.id.oseq";
/// Provider: address of its account.
pub const LEASE_PROVIDER: &str = "akash.network/lease.id.provider";
/// The labels that name a lease.
pub const LEASE: [&str; 5] = [LEASE_OWNER, LEASE_DSEQ, LEASE_GSEQ, LEASE_OSEQ, LEASE_PROVIDER];
/// `metal-lb` on services of leased IPs.
pub const SERVICE_TARGET: &str = "akash.network/service-target";
/// Annotation of a ProviderHost: when it was last declared, RFC 3339 in UTC.
pub const UPDATED_AT: &str = "akash.network/lease.updated_at";

/// Prefix of the annotations that only this provider writes; others keep and ignore them.
pub const OURS: &str = "provider.akash.network/";
/// Annotation: id of the chain the lease lives on.
pub const CHAIN_ID: &str = "provider.akash.network/chain-id";
/// Annotation of a namespace: hash of everything that was applied to it last, written after all of it.
pub const APPLIED: &str = "provider.akash.network/applied";
/// Annotation of an object: hash of what was applied to it last.
pub const APPLIED_HASH: &str = "provider.akash.network/applied-hash";
/// Annotation: the term of the operator that wrote an object last, counted by its Lease.
pub const OPERATOR_TERM: &str = "provider.akash.network/operator-term";
/// What lies beside a leadership, on its Lease: where the leader is asked, its settings, what the next one must know.
pub const BESIDE_LEADERSHIP: &str = "provider.akash.network/leadership";
/// Annotation of a namespace: the isolation its pods got, see [`Isolation`](crate::settings::Isolation).
pub const ISOLATION: &str = "provider.akash.network/isolation";
/// Label `true` of a NetworkPolicy, Role or RoleBinding that an operator put into the namespace of a lease: the
/// object stays. Without it such an object is deleted.
pub const KEEP: &str = "provider.akash.network/keep";
/// Annotation of a Manifest: what its fields cannot say, as JSON.
pub const EXTRA: &str = "provider.akash.network/deployment";

/// Annotation of a ProviderHost: whether its owner has proved that the name is theirs, as JSON.
pub const HOSTNAME_PROOF: &str = "provider.akash.network/hostname-proof";
/// Annotation of a ProviderHost: whether the address of its routes answers, as JSON.
pub const HOSTNAME_REACHABLE: &str = "provider.akash.network/hostname-reachable";

/// Selector of everything a provider made.
pub const SELECTOR: &str = "akash.network=true";

/// A set of labels.
pub type Labels = BTreeMap<String, String>;

/// Labels by which workloads, services and policies select pods of a lease.
#[must_use]
pub fn selector(namespace: &str) -> Labels {
    Labels::from([
        (MANAGED.to_owned(), "true".to_owned()),
        (NAMESPACE.to_owned(), namespace.to_owned()),
    ])
}

/// Labels by which pods of one service are selected.
#[must_use]
pub fn service_selector(namespace: &str, service: &str) -> Labels {
    let mut labels = selector(namespace);
    labels.insert(SERVICE.to_owned(), service.to_owned());
    labels
}

/// The labels that name a lease.
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

/// The lease that labels name; `None` when one is missing or makes no sense.
#[must_use]
pub fn lease_of(labels: &Labels) -> Option<LeaseId> {
    let text = |key: &str| labels.get(key).map(String::as_str);
    let owner: Address = text(LEASE_OWNER)?.parse().ok()?;
    let deployment = DeploymentId {
        owner,
        dseq: text(LEASE_DSEQ)?.parse().ok()?,
    };
    let group = GroupId {
        deployment,
        gseq: text(LEASE_GSEQ)?.parse().ok()?,
    };
    Some(LeaseId {
        order: OrderId {
            group,
            oseq: text(LEASE_OSEQ)?.parse().ok()?,
        },
        provider: text(LEASE_PROVIDER)?.parse().ok()?,
    })
}

/// Labels as a selector text: `a=b,c=d`.
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
    fn a_lease_is_read_back_from_its_labels() {
        let text = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh/3944427/1/1/\
                    akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";
        let id: LeaseId = text.parse().unwrap();
        assert_eq!(lease_of(&lease(&id)), Some(id.clone()));
        for key in lease(&id).keys() {
            let mut labels = lease(&id);
            labels.remove(key);
            assert_eq!(lease_of(&labels), None, "without {key}");
            labels.insert(key.clone(), "nonsense".to_owned());
            assert_eq!(lease_of(&labels), None, "{key} is nonsense");
        }
    }
}

//! Watched kinds, and the lease of an object.

use super::LeaseView;
use crate::labels;
use akash_provider_kube_model::crd::{Manifest, ProviderHost, ProviderLeasedIP, lease_of_host};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Pod, ResourceQuota, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::Lookup;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;

/// Watched kind; each kind has its own watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CachedKind {
    /// Namespaces with the label `akash.network=true`.
    Namespaces,
    /// Workloads without persistent volumes.
    Deployments,
    /// Workloads with persistent volumes.
    StatefulSets,
    /// Pods of leases. Only some fields are decoded.
    Pods,
    /// Services of leases, including those of the IP operator.
    Services,
    /// Network policies of leases.
    Policies,
    /// Manifests, in the manifest namespace.
    Manifests,
    /// ProviderHost objects: declared hostnames, in the manifest namespace.
    Hosts,
    /// ProviderLeasedIP objects: declared leased addresses, in the manifest namespace.
    Ips,
    /// Events in the namespaces of leases.
    Events,
    /// Quotas of leases.
    Quotas,
    /// Service accounts of leases.
    Accounts,
    /// Roles in lease namespaces, created by any client.
    Roles,
    /// Role bindings in lease namespaces, created by any client.
    RoleBindings,
}

impl CachedKind {
    /// All kinds, including kinds that the provider does not need at the start.
    pub const ALL: [Self; 14] = [
        Self::Namespaces,
        Self::Deployments,
        Self::StatefulSets,
        Self::Pods,
        Self::Services,
        Self::Policies,
        Self::Manifests,
        Self::Hosts,
        Self::Ips,
        Self::Events,
        Self::Quotas,
        Self::Accounts,
        Self::Roles,
        Self::RoleBindings,
    ];

    /// Returns true for a kind that affects the health of leases.
    #[must_use]
    pub const fn decides_health(self) -> bool {
        matches!(
            self,
            Self::Namespaces | Self::Deployments | Self::StatefulSets | Self::Manifests
        )
    }

    /// Returns true for the kinds of record objects: Manifest, ProviderHost and ProviderLeasedIP.
    pub(super) const fn is_record(self) -> bool {
        matches!(self, Self::Manifests | Self::Hosts | Self::Ips)
    }

    /// Returns true for a kind that a cluster may lack. The provider then assumes that no such object exists.
    #[must_use]
    pub const fn may_be_absent(self) -> bool {
        matches!(self, Self::Policies | Self::Hosts | Self::Ips | Self::Events)
    }

    /// Returns true for a kind that is not required to deploy leases. The start does not wait for the list of
    /// such a kind.
    pub(super) const fn may_come_late(self) -> bool {
        matches!(
            self,
            Self::Events | Self::Quotas | Self::Accounts | Self::Roles | Self::RoleBindings
        )
    }

    /// Returns the name of the resource at the API server.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Deployments => "deployments.apps",
            Self::StatefulSets => "statefulsets.apps",
            Self::Pods => "pods",
            Self::Services => "services",
            Self::Policies => "networkpolicies.networking.k8s.io",
            Self::Manifests => "manifests.akash.network",
            Self::Hosts => "providerhosts.akash.network",
            Self::Ips => "providerleasedips.akash.network",
            Self::Events => "events.events.k8s.io",
            Self::Quotas => "resourcequotas",
            Self::Accounts => "serviceaccounts",
            Self::Roles => "roles.rbac.authorization.k8s.io",
            Self::RoleBindings => "rolebindings.rbac.authorization.k8s.io",
        }
    }
}

impl fmt::Display for CachedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

pub(crate) trait WatchedKind:
    kube::Resource<DynamicType = ()>
    + Lookup<DynamicType = ()>
    + Clone
    + DeserializeOwned
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// Kind of the type.
    const KIND: CachedKind;

    /// Returns the namespace of the object's lease.
    fn home(&self) -> Option<String> {
        home_of(Self::KIND, self.meta())
    }

    /// Inserts the object into the view of its lease, or removes the object `name` if `object` is `None`.
    fn put(view: &mut LeaseView, name: &str, object: Option<Arc<Self>>);

    /// Removes all objects of this kind from the view.
    fn clear(view: &mut LeaseView);

    /// Returns true for an object in a lease namespace. True by default, because most watches select only
    /// objects of leases.
    fn is_of_a_lease(&self) -> bool {
        true
    }

    /// Removes fields that are never read.
    fn trim(&mut self) {
        super::trim::metadata(self.meta_mut());
    }
}

/// Returns the lease namespace in the metadata of an object.
pub(super) fn home_of(kind: CachedKind, meta: &ObjectMeta) -> Option<String> {
    match kind {
        // Both kinds have the name of the lease namespace.
        CachedKind::Namespaces | CachedKind::Manifests => meta.name.clone(),
        CachedKind::Hosts | CachedKind::Ips => {
            let lease = labels::lease_of(meta.labels.as_ref()?)?;
            Some(lease.namespace())
        }
        _ => meta.namespace.clone(),
    }
}

macro_rules! one_of_a_lease {
    ($type:ty, $kind:ident, $field:ident) => {
        impl WatchedKind for $type {
            const KIND: CachedKind = CachedKind::$kind;

            fn put(view: &mut LeaseView, _: &str, object: Option<Arc<Self>>) {
                view.$field = object;
            }

            fn clear(view: &mut LeaseView) {
                view.$field = None;
            }
        }
    };
}

macro_rules! many_of_a_lease {
    ($type:ty, $kind:ident, $field:ident $(, $extra:item)*) => {
        impl WatchedKind for $type {
            const KIND: CachedKind = CachedKind::$kind;

            fn put(view: &mut LeaseView, name: &str, object: Option<Arc<Self>>) {
                match object {
                    Some(object) => view.$field.insert(name.to_owned(), object),
                    None => view.$field.remove(name),
                };
            }

            fn clear(view: &mut LeaseView) {
                view.$field.clear();
            }

            $($extra)*
        }
    };
}

one_of_a_lease!(Namespace, Namespaces, namespace);
one_of_a_lease!(Manifest, Manifests, manifest);
many_of_a_lease!(Deployment, Deployments, deployments);
many_of_a_lease!(StatefulSet, StatefulSets, stateful_sets);
many_of_a_lease!(
    Pod,
    Pods,
    pods,
    fn trim(&mut self) {
        super::trim::pod(self);
    }
);
many_of_a_lease!(Service, Services, services);
many_of_a_lease!(ResourceQuota, Quotas, quotas);
many_of_a_lease!(ServiceAccount, Accounts, accounts);
macro_rules! any_in_a_lease {
    ($type:ty, $kind:ident, $field:ident) => {
        many_of_a_lease!(
            $type,
            $kind,
            $field,
            // The watch has no selector: objects that open a lease rarely carry its labels.
            fn is_of_a_lease(&self) -> bool {
                self.metadata
                    .namespace
                    .as_deref()
                    .is_some_and(is_lease_namespace)
            }
        );
    };
}
any_in_a_lease!(NetworkPolicy, Policies, policies);
any_in_a_lease!(Role, Roles, roles);
any_in_a_lease!(RoleBinding, RoleBindings, role_bindings);
many_of_a_lease!(
    ProviderHost,
    Hosts,
    hosts,
    fn home(&self) -> Option<String> {
        let lease = lease_of_host(&self.spec).map(|lease| lease.namespace());
        // The spec has precedence; labels count only if the spec names no lease.
        lease.or_else(|| home_of(Self::KIND, &self.metadata))
    }
);
many_of_a_lease!(ProviderLeasedIP, Ips, ips);

/// Returns true for a name in the form of [`LeaseId::namespace`](akash_provider_core::types::LeaseId::namespace): SHA-224 in base32.
#[must_use]
pub fn is_lease_namespace(name: &str) -> bool {
    name.len() == 45
        && name
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'v').contains(&byte))
}

/// Returns the kind and the lease namespace of an object, or `None` if the kind does not affect lease health.
pub(super) fn decisive<K: kube::Resource<DynamicType = ()>>(object: &K) -> Option<(CachedKind, String)> {
    let (plural, group) = (K::plural(&()), K::group(&()));
    let name = if group.is_empty() {
        plural.into_owned()
    } else {
        format!("{plural}.{group}")
    };
    let mut decisive = CachedKind::ALL.into_iter().filter(|kind| kind.decides_health());
    let kind = decisive.find(|kind| kind.as_str() == name)?;
    Some((kind, home_of(kind, object.meta())?))
}

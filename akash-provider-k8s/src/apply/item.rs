//! Rendered object of a lease, ready to be applied.

use super::{APPLIED_VERSION, KEPT, TEMPLATE_HASH};
use crate::labels;
use akash_provider_kube_kernel::hash;
use akash_provider_kube_kernel::subset::Lists;
use akash_provider_kube_model::objects::{ACCESS, LeaseObjects};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ResourceQuota, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::ApiResource;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// Kinds of the objects in the namespace of a lease, in the order in which they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemKind {
    /// Allowed traffic of pods.
    NetworkPolicy,
    /// Quota of the namespace.
    ResourceQuota,
    /// Login for an image registry.
    Secret,
    /// Kubernetes identity of the pods of a service.
    ServiceAccount,
    /// Rights of a ServiceAccount.
    Role,
    /// Workload without persistent volumes.
    Deployment,
    /// Workload with persistent volumes.
    StatefulSet,
    /// Reachable ports of a service, inside or outside the lease.
    Service,
    /// Binding of a Role to the ServiceAccount of a service, or of a ClusterRole to the account of the provider.
    RoleBinding,
}

impl ItemKind {
    /// All kinds, in the order in which they are written.
    pub const ALL: [Self; 9] = [
        Self::NetworkPolicy,
        Self::ResourceQuota,
        Self::Secret,
        Self::ServiceAccount,
        Self::Role,
        Self::Deployment,
        Self::StatefulSet,
        Self::Service,
        Self::RoleBinding,
    ];

    /// Returns the stage in which objects of the kind are written.
    #[must_use]
    pub const fn stage(self) -> ApplyStage {
        match self {
            Self::NetworkPolicy | Self::Secret | Self::ServiceAccount | Self::Role => ApplyStage::BeforePods,
            Self::ResourceQuota => ApplyStage::BeforeMorePods,
            Self::Deployment | Self::StatefulSet => ApplyStage::Pods,
            Self::Service | Self::RoleBinding => ApplyStage::Rest,
        }
    }

    /// Returns the name of the kind at the API server.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NetworkPolicy => "NetworkPolicy",
            Self::ResourceQuota => "ResourceQuota",
            Self::Secret => "Secret",
            Self::ServiceAccount => "ServiceAccount",
            Self::Role => "Role",
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::Service => "Service",
            Self::RoleBinding => "RoleBinding",
        }
    }

    /// Returns true if deploys compare objects of this kind with the watch caches.
    #[must_use]
    pub const fn is_watched(self) -> bool {
        matches!(
            self,
            Self::NetworkPolicy | Self::Deployment | Self::StatefulSet | Self::Service
        )
    }

    /// Returns the watch for objects of this kind, or `None` for Secrets, which are not watched.
    pub(crate) const fn watch(self) -> Option<crate::state::CachedKind> {
        use crate::state::CachedKind;
        match self {
            Self::NetworkPolicy => Some(CachedKind::Policies),
            Self::ResourceQuota => Some(CachedKind::Quotas),
            Self::Secret => None,
            Self::ServiceAccount => Some(CachedKind::Accounts),
            Self::Role => Some(CachedKind::Roles),
            Self::Deployment => Some(CachedKind::Deployments),
            Self::StatefulSet => Some(CachedKind::StatefulSets),
            Self::Service => Some(CachedKind::Services),
            Self::RoleBinding => Some(CachedKind::RoleBindings),
        }
    }

    /// Returns true for a kind that isolates leases. Such objects are repaired first, even in the drift mode
    /// `report`.
    #[must_use]
    pub const fn is_isolation(self) -> bool {
        matches!(
            self,
            Self::NetworkPolicy | Self::ResourceQuota | Self::ServiceAccount | Self::Role | Self::RoleBinding
        )
    }

    /// Returns true for a kind that can weaken the isolation of a lease. Such objects are deleted if the
    /// provider did not render them.
    #[must_use]
    pub const fn opens(self) -> bool {
        matches!(self, Self::NetworkPolicy | Self::Role | Self::RoleBinding)
    }

    /// Returns true for kinds that create pods. A deleted workload exists until its pods are deleted.
    #[must_use]
    pub const fn is_workload(self) -> bool {
        matches!(self, Self::Deployment | Self::StatefulSet)
    }

    /// Returns the API resource of the kind.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        match self {
            Self::NetworkPolicy => ApiResource::erase::<NetworkPolicy>(&()),
            Self::ResourceQuota => ApiResource::erase::<ResourceQuota>(&()),
            Self::Secret => ApiResource::erase::<Secret>(&()),
            Self::ServiceAccount => ApiResource::erase::<ServiceAccount>(&()),
            Self::Role => ApiResource::erase::<Role>(&()),
            Self::Deployment => ApiResource::erase::<Deployment>(&()),
            Self::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
            Self::Service => ApiResource::erase::<Service>(&()),
            Self::RoleBinding => ApiResource::erase::<RoleBinding>(&()),
        }
    }

    /// Returns whether other clients may add elements to lists in objects of the kind.
    #[must_use]
    pub const fn lists(self) -> Lists {
        if self.is_workload() || matches!(self, Self::Service) {
            Lists::Open
        } else {
            Lists::Closed
        }
    }
}

/// Stage of an apply. Objects of the same stage do not depend on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApplyStage {
    /// Objects that are written before the first pod.
    BeforePods,
    /// Objects that are written before an update creates more pods.
    BeforeMorePods,
    /// Workloads, which create pods.
    Pods,
    /// Objects that send traffic to pods or give rights to pods. These objects are written after the pods.
    Rest,
}

impl ApplyStage {
    /// Returns the stage in which an object is written in a new namespace.
    #[must_use]
    pub fn in_new_namespace(self) -> Self {
        if self == Self::BeforeMorePods {
            Self::Rest
        } else {
            self
        }
    }
}

/// Kind and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Kind of the object.
    pub kind: ItemKind,
    /// Name within the namespace of the lease.
    pub name: String,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{}", self.kind, self.name)
    }
}

impl ObjectId {
    /// Creates the id of an object.
    #[must_use]
    pub fn new(kind: ItemKind, name: impl Into<String>) -> Self {
        let name = name.into();
        Self { kind, name }
    }

    /// Returns true for the RoleBinding that gives the provider its rights in the namespace of a lease.
    pub(crate) fn is_access(&self) -> bool {
        self.kind == ItemKind::RoleBinding && self.name == ACCESS
    }

    /// Parses the output of [`Display`](fmt::Display).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        // Ledgers store these names: renaming a kind would orphan its objects.
        let kind = ItemKind::ALL.into_iter().find(|k| format!("{k:?}") == kind)?;
        Some(Self {
            kind,
            name: name.to_owned(),
        })
    }
}

/// Hashes of the data entries of a Secret, by the key of the entry.
pub type Data = BTreeMap<String, String>;

/// Returns the hash of each data entry of an object from the API server.
#[must_use]
pub fn data_of(body: &Value) -> Data {
    let data = body.get("data").and_then(Value::as_object);
    let entries = data.into_iter().flatten();
    entries
        .map(|(key, value)| (key.clone(), hash::hash_value(value)))
        .collect()
}

/// Rendered object.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Kind and name of the object.
    pub id: ObjectId,
    /// Rendered object. Does not contain the annotations that are added when the object is applied.
    pub body: Value,
    /// Hash of the object. Excludes the data of a Secret, because readers of metadata can see this hash.
    pub hash: String,
    /// Hash of each data entry of a Secret, in memory only. No hash of a password is persisted.
    pub data: Data,
    /// Hash of the pod template of a workload.
    pub template_hash: Option<String>,
}

impl Item {
    /// Creates an item from a rendered object.
    #[must_use]
    pub fn new(kind: ItemKind, object: &impl Serialize) -> Self {
        let body = serde_json::to_value(object).unwrap_or_default();
        let name = body.pointer("/metadata/name").and_then(Value::as_str);
        let template = kind.is_workload().then(|| body.pointer("/spec/template"));
        let (hash, data) = if kind == ItemKind::Secret {
            (hash::hash_value(&without_data(&body)), data_of(&body))
        } else {
            (hash::hash_value(&body), Data::new())
        };
        Self {
            id: ObjectId::new(kind, name.unwrap_or_default().to_owned()),
            hash,
            data,
            template_hash: template.flatten().map(hash::hash_value),
            body,
        }
    }

    /// Adds annotations from which the next deploy detects changes. If `is_adopted` is true, also marks the
    /// pod template as adopted.
    #[must_use]
    pub fn annotated(&self, mut body: Value, is_adopted: bool) -> Value {
        let version = body
            .pointer("/metadata/labels")
            .and_then(|l| l.get(labels::MANIFEST_VERSION));
        let version = version.and_then(Value::as_str).map(str::to_owned);
        let mut marks = vec![(labels::APPLIED_HASH, self.hash.as_str())];
        marks.extend(version.as_deref().map(|v| (APPLIED_VERSION, v)));
        marks.extend(self.template_hash.as_deref().map(|h| (TEMPLATE_HASH, h)));
        if is_adopted {
            marks.push((KEPT, "true"));
        }
        for (key, value) in marks {
            body["metadata"]["annotations"][key] = Value::from(value);
        }
        body
    }

    /// Returns an apply body that sets only the annotations of this item. The live object must already equal
    /// the item.
    #[must_use]
    pub fn mark(&self) -> Value {
        let resource = self.id.kind.resource();
        let bare = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": self.id.name},
        });
        self.annotated(bare, true)
    }
}

fn without_data(body: &Value) -> Value {
    let mut bare = body.clone();
    if let Some(fields) = bare.as_object_mut() {
        // A short password could be guessed from a hash that includes it.
        fields.remove("data");
    }
    bare
}

/// Returns all rendered objects except the namespace, in the order in which they are written.
#[must_use]
pub fn items(objects: &LeaseObjects) -> Vec<Item> {
    let mut items = Vec::new();
    extend(&mut items, ItemKind::NetworkPolicy, &objects.policies);
    extend(&mut items, ItemKind::ResourceQuota, objects.quota.as_slice());
    extend(&mut items, ItemKind::Secret, &objects.secrets);
    extend(&mut items, ItemKind::ServiceAccount, &objects.service_accounts);
    extend(&mut items, ItemKind::Role, &objects.roles);
    extend(&mut items, ItemKind::Deployment, &objects.deployments);
    extend(&mut items, ItemKind::StatefulSet, &objects.stateful_sets);
    extend(&mut items, ItemKind::Service, &objects.services);
    extend(&mut items, ItemKind::RoleBinding, &objects.role_bindings);
    items
}

fn extend(items: &mut Vec<Item>, kind: ItemKind, objects: &[impl Serialize]) {
    items.extend(objects.iter().map(|o| Item::new(kind, o)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_through_their_text() {
        for kind in ItemKind::ALL {
            let id = ObjectId::new(kind, "web");
            assert_eq!(ObjectId::parse(&id.to_string()), Some(id));
        }
        for text in ["", "Secret", "Pod/x", "secret/x"] {
            assert_eq!(ObjectId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn persisted_values_do_not_depend_on_a_password() {
        let login = |password: &str| {
            let secret = json!({"metadata": {"name": "docker-creds-web"}, "data": {"login": password}});
            Item::new(ItemKind::Secret, &secret)
        };
        let (one, other) = (login("aHVudGVyMg=="), login("aHVudGVyMw=="));
        assert_eq!(one.hash, other.hash);
        assert_ne!(one.data, other.data, "a new password is a difference");
        let marks = |item: &Item| item.annotated(item.body.clone(), false)["metadata"].clone();
        assert_eq!(marks(&one), marks(&other));
    }

    #[test]
    fn objects_that_pods_need_come_first() {
        let of = |wanted: fn(ApplyStage) -> bool| -> Vec<_> {
            ItemKind::ALL.into_iter().filter(|k| wanted(k.stage())).collect()
        };
        let guards = [
            ItemKind::NetworkPolicy,
            ItemKind::Secret,
            ItemKind::ServiceAccount,
            ItemKind::Role,
        ];
        assert_eq!(of(|stage| stage.in_new_namespace() < ApplyStage::Pods), guards);
        let before_more = of(|stage| stage < ApplyStage::Pods);
        assert!(guards.iter().all(|kind| before_more.contains(kind)));
        assert!(before_more.contains(&ItemKind::ResourceQuota) && before_more.len() == 5);
        assert_eq!(
            of(|stage| stage == ApplyStage::Pods),
            [ItemKind::Deployment, ItemKind::StatefulSet]
        );
    }
}

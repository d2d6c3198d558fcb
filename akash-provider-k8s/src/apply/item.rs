//! One object of a lease, ready to be applied.

use super::{APPLIED_VERSION, KEPT, TEMPLATE_HASH, hash, subset::Lists};
use crate::labels;
use crate::objects::{ACCESS, LeaseObjects};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ResourceQuota, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::ApiResource;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// Kinds of the objects in a lease's namespace that are ours, in the order in which they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Which traffic pods may have.
    NetworkPolicy,
    /// Quota of the namespace.
    ResourceQuota,
    /// Login for a registry of images.
    Secret,
    /// Account of a service.
    ServiceAccount,
    /// What accounts may do.
    Role,
    /// Workload without persistent volumes.
    Deployment,
    /// Workload with persistent volumes.
    StatefulSet,
    /// Ports of a service, inside the lease or to the outside.
    Service,
    /// Which account may do it.
    RoleBinding,
}

impl Kind {
    /// All of them, in the order in which they are written.
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

    /// When it is written.
    #[must_use]
    pub const fn turn(self) -> Turn {
        match self {
            Self::NetworkPolicy | Self::Secret | Self::ServiceAccount | Self::Role => Turn::BeforePods,
            Self::ResourceQuota => Turn::BeforeMorePods,
            Self::Deployment | Self::StatefulSet => Turn::Pods,
            Self::Service | Self::RoleBinding => Turn::Rest,
        }
    }

    /// The watches hold objects of this kind.
    #[must_use]
    pub const fn is_watched(self) -> bool {
        matches!(
            self,
            Self::NetworkPolicy | Self::Deployment | Self::StatefulSet | Self::Service
        )
    }

    /// The watch that holds objects of this kind; Secrets have none, and are never compared with one.
    pub(crate) const fn watch(self) -> Option<crate::state::Kind> {
        use crate::state::Kind as Watch;
        match self {
            Self::NetworkPolicy => Some(Watch::Policies),
            Self::ResourceQuota => Some(Watch::Quotas),
            Self::Secret => None,
            Self::ServiceAccount => Some(Watch::Accounts),
            Self::Role => Some(Watch::Roles),
            Self::Deployment => Some(Watch::Deployments),
            Self::StatefulSet => Some(Watch::StatefulSets),
            Self::Service => Some(Watch::Services),
            Self::RoleBinding => Some(Watch::RoleBindings),
        }
    }

    /// Objects of this kind keep leases apart. They are restored first, whatever an operator chose for others.
    #[must_use]
    pub const fn is_isolation(self) -> bool {
        matches!(
            self,
            Self::NetworkPolicy | Self::ResourceQuota | Self::ServiceAccount | Self::Role | Self::RoleBinding
        )
    }

    /// An object of this kind opens a lease, so that one that was not rendered is deleted.
    #[must_use]
    pub const fn opens(self) -> bool {
        matches!(self, Self::NetworkPolicy | Self::Role | Self::RoleBinding)
    }

    /// Objects of this kind make pods; a deleted one stays until its pods are gone.
    #[must_use]
    pub const fn is_workload(self) -> bool {
        matches!(self, Self::Deployment | Self::StatefulSet)
    }

    /// Group, version and path of the kind.
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

    /// May others add to lists of it?
    #[must_use]
    pub const fn lists(self) -> Lists {
        if self.is_workload() || matches!(self, Self::Service) {
            Lists::Open
        } else {
            Lists::Closed
        }
    }
}

/// When an object is written. What has the same turn does not depend on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Turn {
    /// Must be there before the first pod.
    BeforePods,
    /// Must be there before an update makes more of them. The first ones may come before it, since it counts
    /// them too.
    BeforeMorePods,
    /// Makes pods; what those need is there by then.
    Pods,
    /// Leads to pods or gives them rights: may come after them.
    Rest,
}

impl Turn {
    /// The turn in a namespace that is new, where nothing runs that an update could add to.
    #[must_use]
    pub fn in_new_namespace(self) -> Self {
        if self == Self::BeforeMorePods {
            Self::Rest
        } else {
            self
        }
    }
}

/// An object's kind and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Kind of the object.
    pub kind: Kind,
    /// Name within the namespace of the lease.
    pub name: String,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{}", self.kind, self.name)
    }
}

impl Id {
    /// True for the binding that gives the provider its rights in the namespace of a lease.
    pub(crate) fn is_access(&self) -> bool {
        self.kind == Kind::RoleBinding && self.name == ACCESS
    }

    /// The id that [`Display`](fmt::Display) wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        // Ledgers hold these names: a kind that is renamed would lose its objects.
        let kind = Kind::ALL.into_iter().find(|k| format!("{k:?}") == kind)?;
        Some(Self {
            kind,
            name: name.to_owned(),
        })
    }
}

/// Hash of each datum of a Secret, by its key.
pub type Data = BTreeMap<String, String>;

/// Hashes of the data of an object as the API server has it.
#[must_use]
pub fn data_of(body: &Value) -> Data {
    let data = body.get("data").and_then(Value::as_object);
    let entries = data.into_iter().flatten();
    entries
        .map(|(key, value)| (key.clone(), hash::of(value)))
        .collect()
}

/// An object as rendered.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Kind and name, by which it is found again.
    pub id: Id,
    /// The object as rendered, without the annotations of an apply.
    pub body: Value,
    /// Hash of the object without the data of a Secret: it is written where metadata are read.
    pub hash: String,
    /// Hash of each datum of a Secret. Nothing derived from a password is written anywhere; this stays in memory.
    pub data: Data,
    /// Hash of its pod template, where it has one.
    pub template_hash: Option<String>,
}

impl Item {
    /// Of a rendered object.
    #[must_use]
    pub fn new(kind: Kind, object: &impl Serialize) -> Self {
        let body = serde_json::to_value(object).unwrap_or_default();
        let name = body.pointer("/metadata/name").and_then(Value::as_str);
        let template = kind.is_workload().then(|| body.pointer("/spec/template"));
        let (hash, data) = if kind == Kind::Secret {
            (hash::of(&without_data(&body)), data_of(&body))
        } else {
            (hash::of(&body), Data::new())
        };
        Self {
            id: Id {
                kind,
                name: name.unwrap_or_default().to_owned(),
            },
            hash,
            data,
            template_hash: template.flatten().map(hash::of),
            body,
        }
    }

    /// The object with the annotations that let the next comparison be short.
    #[must_use]
    pub fn annotated(&self, mut body: Value, kept: bool) -> Value {
        let version = body
            .pointer("/metadata/labels")
            .and_then(|l| l.get(labels::MANIFEST_VERSION));
        let version = version.and_then(Value::as_str).map(str::to_owned);
        let mut marks = vec![(labels::APPLIED_HASH, self.hash.as_str())];
        marks.extend(version.as_deref().map(|v| (APPLIED_VERSION, v)));
        marks.extend(self.template_hash.as_deref().map(|h| (TEMPLATE_HASH, h)));
        if kept {
            marks.push((KEPT, "true"));
        }
        for (key, value) in marks {
            body["metadata"]["annotations"][key] = Value::from(value);
        }
        body
    }

    /// Nothing but the annotations: tells that the live object stands for this one as it is.
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
        // A short password could be guessed from a hash that it is part of.
        fields.remove("data");
    }
    bare
}

/// Everything in the namespace, in the order in which it is written.
#[must_use]
pub fn items(objects: &LeaseObjects) -> Vec<Item> {
    let mut items = Vec::new();
    extend(&mut items, Kind::NetworkPolicy, &objects.policies);
    extend(&mut items, Kind::ResourceQuota, objects.quota.as_slice());
    extend(&mut items, Kind::Secret, &objects.secrets);
    extend(&mut items, Kind::ServiceAccount, &objects.service_accounts);
    extend(&mut items, Kind::Role, &objects.roles);
    extend(&mut items, Kind::Deployment, &objects.deployments);
    extend(&mut items, Kind::StatefulSet, &objects.stateful_sets);
    extend(&mut items, Kind::Service, &objects.services);
    extend(&mut items, Kind::RoleBinding, &objects.role_bindings);
    items
}

fn extend(items: &mut Vec<Item>, kind: Kind, objects: &[impl Serialize]) {
    items.extend(objects.iter().map(|o| Item::new(kind, o)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_back() {
        for kind in Kind::ALL {
            let id = Id {
                kind,
                name: "web".to_owned(),
            };
            assert_eq!(Id::parse(&id.to_string()), Some(id));
        }
        for text in ["", "Secret", "Pod/x", "secret/x"] {
            assert_eq!(Id::parse(text), None, "{text}");
        }
    }

    #[test]
    fn nothing_that_is_written_depends_on_a_password() {
        let login = |password: &str| {
            let secret = json!({"metadata": {"name": "docker-creds-web"}, "data": {"login": password}});
            Item::new(Kind::Secret, &secret)
        };
        let (one, other) = (login("aHVudGVyMg=="), login("aHVudGVyMw=="));
        assert_eq!(one.hash, other.hash);
        assert_ne!(one.data, other.data, "a new password is noticed");
        let marks = |item: &Item| item.annotated(item.body.clone(), false)["metadata"].clone();
        assert_eq!(marks(&one), marks(&other));
    }

    #[test]
    fn what_pods_need_comes_first() {
        let of = |wanted: fn(Turn) -> bool| -> Vec<_> {
            Kind::ALL.into_iter().filter(|k| wanted(k.turn())).collect()
        };
        let guards = [
            Kind::NetworkPolicy,
            Kind::Secret,
            Kind::ServiceAccount,
            Kind::Role,
        ];
        assert_eq!(of(|turn| turn.in_new_namespace() < Turn::Pods), guards);
        let before_more = of(|turn| turn < Turn::Pods);
        assert!(guards.iter().all(|kind| before_more.contains(kind)));
        assert!(before_more.contains(&Kind::ResourceQuota) && before_more.len() == 5);
        assert_eq!(
            of(|turn| turn == Turn::Pods),
            [Kind::Deployment, Kind::StatefulSet]
        );
    }
}

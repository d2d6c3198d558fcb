//! Objects of a lease without a readable record, derived from the rules of rendering.
//!
//! ```text
//! live objects, ledger ─► stand-in manifest ─► render ─► the applied hash? ─ yes ─► the object as applied
//!                                                                          ─ no ──► rules over the live object
//! ```
//!
//! Each object, and the ledger of the namespace, contain the hash of the object as the provider applied it. A
//! rendering with this hash equals the applied object. Without such a rendering, fields that no manifest
//! determines are rendered, and all other fields are left unchanged. Policies and Roles then permit only what
//! a rendering can permit.

mod stand_in;

use super::ClusterContext;
use super::namespace::{annotation, isolation_of, with_type};
use super::rollouts::is_applied;
use crate::apply::item::{Item, ItemKind, ObjectId, items};
use crate::apply::plan::{LiveObject, ObjectHashes, WatchedObjects};
use crate::apply::{KEPT, LEDGER, TEMPLATE_HASH, exact, ledger_of};
use crate::labels;
use crate::settings::{CommitLevels, Isolation, KubeSettings};
use crate::state::LeaseView;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::hash;
use akash_provider_kube_model::objects::{self, PriorState};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use std::collections::BTreeMap;

/// Pod fields that depend on the manifest or on the settings.
const POD_FIELDS: [&str; 4] = ["affinity", "imagePullSecrets", "runtimeClassName", "volumes"];
/// Container fields that depend on the manifest.
const CONTAINER_FIELDS: [&str; 7] = [
    "image",
    "command",
    "args",
    "env",
    "ports",
    "resources",
    "volumeMounts",
];
/// Workload fields that depend on the manifest.
const WORKLOAD_FIELDS: [&str; 2] = ["replicas", "volumeClaimTemplates"];

/// Objects rendered from a substitute manifest, for a lease without a Manifest record.
pub(super) struct DerivedObjects {
    rendered: BTreeMap<ObjectId, Item>,
    ledger: ObjectHashes,
    /// Whether the namespace has a ledger of applied objects.
    has_ledger: bool,
    /// Namespace with its current hash and ledger.
    pub(super) namespace: Value,
}

/// Desired object of a lease that has no Manifest record.
pub(super) struct DerivedItem {
    pub(super) item: Item,
    /// True if the item is certainly the desired object: the item has the hash of the applied object, or the
    /// object exists for every lease.
    pub(super) is_verified: bool,
}

impl ClusterContext {
    /// Renders a substitute manifest for a lease that has no Manifest record.
    pub(super) fn rules(&self, lease: &LeaseId, namespace: &Namespace, view: &LeaseView) -> DerivedObjects {
        DerivedObjects::new(lease, namespace, view, self.rendering())
    }
}

impl DerivedObjects {
    fn new(lease: &LeaseId, namespace: &Namespace, view: &LeaseView, mut settings: KubeSettings) -> Self {
        // The limits of the stand-in are the live requests, so nothing is overcommitted.
        settings.commit = CommitLevels::default();
        let ledger = ledger_of(namespace);
        // The namespace may have lost its labels.
        let mut metas = std::iter::once(&namespace.metadata).chain(view.openings().map(|(_, meta)| meta));
        let version = metas.find_map(|meta| meta.labels.as_ref()?.get(labels::MANIFEST_VERSION));
        let prior = PriorState {
            manifest_version: version.cloned().unwrap_or_default(),
            isolation: level(namespace, &ledger, view, settings.isolation),
            unchanged: BTreeMap::new(),
        };
        let services = stand_in::services(view, &ledger);
        let render = |services| objects::render(&stand_in::workload(lease, services), &settings, &prior);
        // Without services, the policy that closes the lease remains.
        let objects = render(services)
            .or_else(|_| render(Vec::new()))
            .unwrap_or_default();
        let is_possible = |item: &Item| {
            let kind = item.id.kind;
            kind != ItemKind::Secret
                && (kind.is_watched() || item.id.is_access() || ledger.contains_key(&item.id))
        };
        let rendered = items(&objects).into_iter().filter(is_possible);
        let mut body = with_type(&objects.namespace);
        for key in [LEDGER, labels::APPLIED] {
            if let Some(value) = annotation(namespace, key) {
                body["metadata"]["annotations"][key] = Value::from(value.as_str());
            }
        }
        Self {
            rendered: rendered.map(|item| (item.id.clone(), item)).collect(),
            has_ledger: annotation(namespace, LEDGER).is_some() && !ledger.is_empty(),
            ledger,
            namespace: body,
        }
    }

    pub(super) fn derive(&self, view: &LeaseView) -> Vec<DerivedItem> {
        let ids = self.rendered.keys();
        ids.filter_map(|id| self.item(id, view.find(id).as_ref()))
            .collect()
    }

    /// Returns one desired object, or `None` if the object cannot be derived.
    pub(super) fn item(&self, id: &ObjectId, live: Option<&LiveObject>) -> Option<DerivedItem> {
        let rendered = self.rendered.get(id)?;
        let applied = live.and_then(|live| live.annotation(labels::APPLIED_HASH));
        let Some(hash) = self.ledger.get(id).map(String::as_str).or(applied) else {
            return rendered.without_hash(live);
        };
        if live.is_some_and(|live| live.annotation(KEPT).is_some()) {
            return None;
        }
        let candidates = std::iter::once(rendered.body.clone())
            .chain(live.map(|live| unedited(rendered, live)))
            .chain(roles(rendered));
        let item = |body: Value, is_verified: bool| {
            let rendered_template = body.pointer("/spec/template").map(hash::hash_value);
            let live_template = live
                .and_then(|live| live.annotation(TEMPLATE_HASH))
                .map(str::to_owned);
            DerivedItem {
                item: Item {
                    id: id.clone(),
                    body,
                    hash: hash.to_owned(),
                    data: BTreeMap::new(),
                    template_hash: live_template
                        .or(rendered_template)
                        .filter(|_| id.kind.is_workload()),
                },
                is_verified,
            }
        };
        for body in candidates {
            if hash::hash_value(&body) == hash {
                return Some(item(body, true));
            }
        }
        Some(item(over(rendered, live?), false))
    }

    /// Returns true if the provider rendered the object for the lease.
    pub(super) fn is_rendered(&self, id: &ObjectId, meta: &ObjectMeta) -> bool {
        let labels = meta.labels.as_ref();
        let is_labelled = labels.is_some_and(|l| l.get(labels::MANAGED).is_some_and(|value| value == "true"));
        // The ledger does not contain policies.
        let is_listed = self.has_ledger && id.kind != ItemKind::NetworkPolicy;
        self.rendered.contains_key(id) || self.ledger.contains_key(id) || (is_labelled && !is_listed)
    }
}

/// Returns the isolation level of a lease. A lease with a quota has the level `Baseline`.
fn level(namespace: &Namespace, ledger: &ObjectHashes, view: &LeaseView, new: Isolation) -> Isolation {
    let has_quota = ledger.keys().any(|id| id.kind == ItemKind::ResourceQuota)
        || view.quotas.values().any(|quota| is_applied(&quota.metadata));
    if has_quota {
        return Isolation::Baseline;
    }
    isolation_of(Some(namespace), new)
}

impl Item {
    /// Derives the desired object while the hash of the applied object is unknown. Returns `None` if the
    /// object cannot be derived.
    fn without_hash(&self, live: Option<&LiveObject>) -> Option<DerivedItem> {
        let is_of_every_lease = self.id.name == objects::RESTRICTIONS || self.id.is_access();
        let body = match live {
            None if is_of_every_lease => self.body.clone(),
            Some(live) if self.id.kind.is_isolation() => over(self, live),
            None | Some(_) => return None,
        };
        Some(DerivedItem {
            item: Self { body, ..self.clone() },
            is_verified: is_of_every_lease,
        })
    }
}

/// Converts the live object to the form of a rendered object. If no client edited the object, the result has
/// the same hash as the applied object.
fn unedited(rendered: &Item, live: &LiveObject) -> Value {
    let kind = rendered.id.kind;
    let mut body = rendered.body.clone();
    let stripped = exact::without_defaults(kind, &body, &live.body);
    for root in exact::roots(kind) {
        copy(&mut body, &stripped, root);
    }
    // Labels are compared separately.
    if kind.is_workload() {
        body["spec"]["template"]["metadata"] = rendered.body["spec"]["template"]["metadata"].clone();
    }
    body
}

/// Returns one Role for each list of permissions that a manifest can contain. Returns nothing for other
/// kinds.
fn roles(rendered: &Item) -> impl Iterator<Item = Value> {
    let is_role = rendered.id.kind == ItemKind::Role;
    let all = is_role.then(objects::all_permissions).into_iter().flatten();
    all.map(|rules| {
        let mut body = rendered.body.clone();
        body["rules"] = rules;
        body
    })
}

/// Returns the rendered object. Fields that depend on the manifest have the values of the live object.
fn over(rendered: &Item, live: &LiveObject) -> Value {
    let mut body = rendered.body.clone();
    let live_body = &live.body;
    match rendered.id.kind {
        ItemKind::Deployment | ItemKind::StatefulSet => {
            for field in WORKLOAD_FIELDS {
                copy(&mut body["spec"], &live_body["spec"], field);
            }
            let unedited = unedited(rendered, live)["spec"]["template"].take();
            if live.annotation(TEMPLATE_HASH) == Some(&hash::hash_value(&unedited)) {
                body["spec"]["template"] = unedited;
            } else {
                let claims = body["spec"]["volumeClaimTemplates"].clone();
                pod(
                    &mut body["spec"]["template"]["spec"],
                    &live_body["spec"]["template"]["spec"],
                    &claims,
                );
            }
        }
        ItemKind::Service => copy(&mut body["spec"], &live_body["spec"], "ports"),
        ItemKind::ResourceQuota => copy(&mut body["spec"], &live_body["spec"], "hard"),
        ItemKind::NetworkPolicy if rendered.id.name == objects::RESTRICTIONS => {
            keep_closed(&mut body, live_body);
        }
        ItemKind::NetworkPolicy => narrow_ports(&mut body, live_body),
        ItemKind::Role => {
            let allowed: Vec<Value> = objects::all_permissions()
                .into_iter()
                .flat_map(|rules| elements(&rules).to_vec())
                .collect();
            let rules = elements(&live_body["rules"]).iter();
            body["rules"] = rules.filter(|rule| allowed.contains(rule)).cloned().collect();
        }
        ItemKind::ServiceAccount | ItemKind::RoleBinding | ItemKind::Secret => {}
    }
    body
}

/// Copies the pod fields that depend on the manifest. Omits variables with `valueFrom`. Omits volumes other
/// than `emptyDir` volumes and PersistentVolumeClaims.
fn pod(body: &mut Value, live: &Value, claims: &Value) {
    for field in POD_FIELDS {
        copy(body, live, field);
    }
    retain(&mut body["volumes"], |volume| volume.get("emptyDir").is_some());
    let name = body["containers"][0]["name"].clone();
    let containers = elements(&live["containers"]);
    let Some(container) = containers.iter().find(|container| container["name"] == name) else {
        return;
    };
    let named = |list: &Value, pointer: &str| -> Vec<Value> {
        let names = elements(list)
            .iter()
            .filter_map(|element| element.pointer(pointer));
        names.cloned().collect()
    };
    let mut volumes = named(&body["volumes"], "/name");
    volumes.extend(named(claims, "/metadata/name"));
    let Some(rendered) = body.pointer_mut("/containers/0") else {
        return;
    };
    for field in CONTAINER_FIELDS {
        copy(rendered, container, field);
    }
    retain(&mut rendered["env"], |variable| {
        variable.get("valueFrom").is_none()
    });
    retain(&mut rendered["volumeMounts"], |mount| {
        volumes.contains(&mount["name"])
    });
}

/// Adds the excluded networks of the live policy. Shortly after a start, the rendered policy can lack the
/// addresses of nodes.
fn keep_closed(body: &mut Value, live: &Value) {
    let blocks = |body: &Value| -> Vec<Value> {
        let rules = elements(&body["spec"]["egress"]).iter();
        let peers = rules.flat_map(|rule| elements(&rule["to"]));
        peers.map(|peer| peer["ipBlock"].clone()).collect()
    };
    let live = blocks(live);
    let rules = body.pointer_mut("/spec/egress").and_then(Value::as_array_mut);
    let peers = rules
        .into_iter()
        .flatten()
        .filter_map(|rule| rule.get_mut("to")?.as_array_mut());
    for peer in peers.flatten() {
        let Some(Value::Array(closed)) = peer.pointer_mut("/ipBlock/except").map(Value::take) else {
            continue;
        };
        let same = live
            .iter()
            .filter(|block| block["cidr"] == peer["ipBlock"]["cidr"]);
        let more: Vec<Value> = same
            .flat_map(|block| elements(&block["except"]))
            .filter(|network| !closed.contains(network))
            .cloned()
            .collect();
        peer["ipBlock"]["except"] = closed.into_iter().chain(more).collect();
    }
}

/// Removes the rendered ports that the live policy does not open. If the live policy opens none of these
/// ports, the ports are unchanged.
fn narrow_ports(body: &mut Value, live: &Value) {
    const PORTS: &str = "/spec/ingress/0/ports";
    let open = live.pointer(PORTS).map(elements).unwrap_or_default();
    let is_open = |port: &Value| {
        let fields = ["port", "protocol"];
        open.iter()
            .any(|live| fields.iter().all(|field| live[field] == port[field]))
    };
    if let Some(ports) = body.pointer_mut(PORTS).and_then(Value::as_array_mut)
        && ports.iter().any(is_open)
    {
        ports.retain(is_open);
    }
}

/// Copies a field from another object. Removes the field if the other object lacks it.
fn copy(into: &mut Value, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => into[field] = value.clone(),
        None => {
            if let Some(fields) = into.as_object_mut() {
                fields.remove(field);
            }
        }
    }
}

fn retain(list: &mut Value, is_retained: impl FnMut(&Value) -> bool) {
    if let Some(list) = list.as_array_mut() {
        list.retain(is_retained);
    }
}

fn elements(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests;

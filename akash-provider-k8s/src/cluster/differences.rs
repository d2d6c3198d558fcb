//! Differences between the rendered objects of a lease and the cached objects, for deploys, repairs and findings.

use super::ClusterContext;
use super::namespace::with_type;
use crate::apply::item::{Item, ItemKind, ObjectId};
use crate::apply::plan::{LiveObject, WatchedObjects};
use crate::drift::{DriftedObject, NOT_RENDERED, drifted, foreign, is_among};
use crate::labels;
use crate::settings::Isolation;
use crate::state::LeaseView;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rendered objects of a completely applied lease.
pub(super) struct AppliedItems {
    /// Rendered namespace, without the hash of all objects.
    pub(super) body: Value,
    pub(super) items: Vec<Item>,
    pub(super) mark: String,
    pub(super) isolation: Isolation,
}

/// Returns the existing objects that differ from `items`. Omits objects of watched kinds, because each deploy
/// compares these objects.
pub(super) fn unplanned(items: &[Item], view: &LeaseView) -> Vec<DriftedObject> {
    let mut all = drifted(items, view);
    all.retain(|found| !found.is_missing && !found.write.id.kind.is_watched());
    all
}

/// Returns the foreign objects that weaken the isolation of a lease, each with the reason. A foreign object
/// is not in `items`.
pub(super) fn not_rendered(items: &[Item], view: &LeaseView) -> Vec<(ObjectId, String)> {
    let foreign = foreign(is_among(items), view.openings()).into_iter();
    foreign.map(|(id, _)| (id, NOT_RENDERED.to_owned())).collect()
}

impl ClusterContext {
    /// Compares the objects of an applied lease with `items`. Returns each object that differs from its item,
    /// and each object without an item. Each object has a text that describes the difference.
    pub(super) fn differences(&self, home: &str, items: &[Item]) -> Vec<(ObjectId, String)> {
        let view = self.state.lease_in(home);
        let edits = drifted(items, &view).into_iter();
        let edits = edits.filter(|found| !found.is_missing || found.write.id.kind.is_watched());
        edits
            .map(|found| (found.write.id, found.write.reason))
            .chain(not_rendered(items, &view))
            .collect()
    }
}

pub(super) fn meta_of<'a>(view: &'a LeaseView, id: &ObjectId) -> Option<&'a ObjectMeta> {
    match id.kind {
        ItemKind::NetworkPolicy => view.policies.get(&id.name).map(|o| o.meta()),
        ItemKind::Deployment => view.deployments.get(&id.name).map(|o| o.meta()),
        ItemKind::StatefulSet => view.stateful_sets.get(&id.name).map(|o| o.meta()),
        ItemKind::Service => view.services.get(&id.name).map(|o| o.meta()),
        ItemKind::ResourceQuota => view.quotas.get(&id.name).map(|o| o.meta()),
        ItemKind::ServiceAccount => view.accounts.get(&id.name).map(|o| o.meta()),
        ItemKind::Role => view.roles.get(&id.name).map(|o| o.meta()),
        ItemKind::RoleBinding => view.role_bindings.get(&id.name).map(|o| o.meta()),
        ItemKind::Secret => None,
    }
}

impl LeaseView {
    /// Returns the network policies, roles and role bindings of a lease. Such objects can weaken the
    /// isolation.
    pub(super) fn openings(&self) -> impl Iterator<Item = (ObjectId, &ObjectMeta)> {
        let policies = self
            .policies
            .values()
            .map(|o| (ItemKind::NetworkPolicy, o.meta()));
        let roles = self.roles.values().map(|o| (ItemKind::Role, o.meta()));
        let bindings = self
            .role_bindings
            .values()
            .map(|o| (ItemKind::RoleBinding, o.meta()));
        policies.chain(roles).chain(bindings).map(|(kind, meta)| {
            let name = meta.name.clone().unwrap_or_default();
            (ObjectId::new(kind, name), meta)
        })
    }
}

impl WatchedObjects for LeaseView {
    fn find(&self, id: &ObjectId) -> Option<LiveObject> {
        let body = match id.kind {
            ItemKind::NetworkPolicy => self.policies.get(&id.name).map(|o| with_type(&**o)),
            ItemKind::Deployment => self.deployments.get(&id.name).map(|o| with_type(&**o)),
            ItemKind::StatefulSet => self.stateful_sets.get(&id.name).map(|o| with_type(&**o)),
            ItemKind::Service => self.services.get(&id.name).map(|o| with_type(&**o)),
            ItemKind::ResourceQuota => self.quotas.get(&id.name).map(|o| with_type(&**o)),
            ItemKind::ServiceAccount => self.accounts.get(&id.name).map(|o| with_type(&**o)),
            ItemKind::Role => self.roles.get(&id.name).map(|o| with_type(&**o)),
            ItemKind::RoleBinding => self.role_bindings.get(&id.name).map(|o| with_type(&**o)),
            ItemKind::Secret => None,
        };
        let meta = meta_of(self, id)?;
        Some(LiveObject {
            uid: meta.uid.clone().unwrap_or_default(),
            is_deleting: meta.deletion_timestamp.is_some(),
            body: body?,
        })
    }

    fn ours(&self) -> Vec<(ObjectId, String)> {
        let mut found = Vec::new();
        add(&mut found, ItemKind::NetworkPolicy, &self.policies);
        add(&mut found, ItemKind::Deployment, &self.deployments);
        add(&mut found, ItemKind::StatefulSet, &self.stateful_sets);
        add(&mut found, ItemKind::Service, &self.services);
        found
    }
}

/// Adds the objects with the label `akash.network=true` to `found`. Skips objects that are being deleted and
/// objects of the IP operator.
fn add<K: Resource>(found: &mut Vec<(ObjectId, String)>, kind: ItemKind, objects: &BTreeMap<String, Arc<K>>) {
    for (name, object) in objects {
        let meta = object.meta();
        let labels = meta.labels.as_ref();
        let is_operators = labels.is_some_and(|l| l.contains_key(labels::SERVICE_TARGET));
        let is_managed = labels.is_some_and(|l| l.get(labels::MANAGED).is_some_and(|value| value == "true"));
        if meta.deletion_timestamp.is_none() && is_managed && !is_operators {
            let id = ObjectId::new(kind, name.clone());
            found.push((id, meta.uid.clone().unwrap_or_default()));
        }
    }
}

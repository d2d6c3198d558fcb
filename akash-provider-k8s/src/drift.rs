//! Detection of drift: objects of a lease that other clients changed or deleted. Pure functions.
//!
//! ```text
//! rendered + live objects ─ differences ─► certain differences ─ drift mode ─► repairs ─ back-off ─► now or later
//! ```

mod backoff;

pub(crate) use backoff::{CONFLICT_REPAIRS, Limit, RepairBackoff};

use crate::apply::item::{Item, ItemKind, ObjectId};
use crate::apply::plan::{ObjectWrite, WatchedObjects, compare, restoring};
use crate::labels::{self, KEEP};
use crate::settings::Drift;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Role bindings that OpenShift creates in every namespace.
const OF_OPENSHIFT: [&str; 3] = [
    "system:deployers",
    "system:image-builders",
    "system:image-pullers",
];

/// Returns a predicate for the ids of `items`.
pub(crate) fn is_among(items: &[Item]) -> impl Fn(&ObjectId, &ObjectMeta) -> bool {
    |id, _| items.iter().any(|item| item.id == *id)
}

/// Reason for the deletion of an object that the provider did not render.
pub(crate) const NOT_RENDERED: &str = "not part of the lease";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DriftedObject {
    /// Write that restores the object.
    pub(crate) write: ObjectWrite,
    /// Whether the object is missing.
    pub(crate) is_missing: bool,
    /// Whether the hash annotation differs from the desired hash. An edit or a newer deploy causes this
    /// difference.
    pub(crate) has_other_hash: bool,
}

/// Returns the items that are missing or different in the caches, isolation objects first.
///
/// The lease must be applied completely. For isolation objects, the caller confirms the difference at the API
/// server.
pub(crate) fn drifted(items: &[Item], seen: &dyn WatchedObjects) -> Vec<DriftedObject> {
    // Secrets have no watch.
    let items = items.iter().filter(|item| item.id.kind != ItemKind::Secret);
    let judged = items.filter_map(|item| {
        let live = seen.find(&item.id);
        // Objects being deleted, and StatefulSets with other volume claims, have no repair.
        let mut write = compare(item, live.as_ref())?;
        let is_missing = live.is_none();
        let hash = live
            .as_ref()
            .and_then(|live| live.annotation(labels::APPLIED_HASH));
        // Every write of the provider sets a hash, so an object without one was recreated by another client.
        let has_other_hash = hash.is_some_and(|hash| hash != item.hash || write.take_over);
        let is_edited = hash.is_some() && !has_other_hash;
        if let Some(live) = live.as_ref().filter(|_| !is_edited) {
            write.patch = Some(restoring(item.id.kind, &write.body, live));
            write.take_over = false;
        }
        let is_sure = is_missing || is_edited || item.id.kind.is_isolation();
        is_sure.then_some(DriftedObject {
            write,
            is_missing,
            has_other_hash,
        })
    });
    let mut all: Vec<DriftedObject> = judged.collect();
    all.sort_by_key(|found| !found.write.id.kind.is_isolation());
    all
}

/// Returns the objects of other clients that weaken the isolation of a lease, including objects that are
/// being deleted.
///
/// Omits objects with the label [`KEEP`] and the role bindings of OpenShift.
pub(crate) fn foreign<'a>(
    is_rendered: impl Fn(&ObjectId, &ObjectMeta) -> bool,
    there: impl IntoIterator<Item = (ObjectId, &'a ObjectMeta)>,
) -> Vec<(ObjectId, ObjectMeta)> {
    let is_labelled = |meta: &ObjectMeta| {
        let labels = meta.labels.as_ref();
        labels.is_some_and(|labels| labels.get(KEEP).map(String::as_str) == Some("true"))
    };
    let found = there.into_iter().filter(|(id, meta)| {
        let is_of_kubernetes = id.kind == ItemKind::RoleBinding && OF_OPENSHIFT.contains(&id.name.as_str());
        id.kind.opens() && !is_rendered(id, meta) && !is_of_kubernetes && !is_labelled(meta)
    });
    found.map(|(id, meta)| (id, meta.clone())).collect()
}

impl Limit {
    pub(crate) fn for_kind(kind: ItemKind) -> Self {
        if kind.is_isolation() {
            Self::Isolation
        } else {
            Self::Other
        }
    }
}

impl ItemKind {
    /// Returns true if objects of the kind are repaired automatically. Isolation objects are always repaired.
    pub(crate) fn is_healed(self, mode: Drift) -> bool {
        mode == Drift::Heal || self.is_isolation()
    }
}

#[cfg(test)]
mod tests;

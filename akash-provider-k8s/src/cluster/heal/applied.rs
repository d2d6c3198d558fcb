//! Desired objects of an applied lease, and the repair of one of them.

use super::super::unrecorded::DerivedObjects;
use crate::apply::item::{Item, ObjectId};
use crate::apply::plan::{LiveObject, ObjectWrite, WatchedObjects};
use crate::cluster::namespace::with_type;
use crate::drift::{CONFLICT_REPAIRS, drifted, foreign, is_among};
use crate::labels;
use crate::state::LeaseView;
use akash_provider_kube_kernel::ownership::MANAGER;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) struct AppliedLease {
    pub(super) view: LeaseView,
    pub(super) items: Vec<Item>,
    pub(super) mark: String,
    /// Desired namespace, with its ledger and the hash of all objects.
    pub(super) namespace: Value,
    /// Whether the isolation objects were rendered from a Manifest record.
    pub(super) is_recorded: bool,
    /// Rules for the desired objects of a lease without a Manifest record; `None` if the record exists. If
    /// `is_recorded` is true, the rules do not apply to isolation objects.
    pub(super) rules: Option<DerivedObjects>,
    /// Desired objects that may be wrong, because the hash of the applied object differs or is unknown.
    pub(super) unverified: BTreeSet<ObjectId>,
}

impl AppliedLease {
    pub(super) fn is_marked(&self, live: &ObjectMeta) -> bool {
        let mark = live.annotations.as_ref().and_then(|a| a.get(labels::APPLIED));
        live.deletion_timestamp.is_none() && mark == Some(&self.mark)
    }

    /// Returns the objects that weaken the isolation of the lease and were not rendered.
    pub(super) fn foreign(&self) -> Vec<(ObjectId, ObjectMeta)> {
        let openings = self.view.openings();
        still_there(match self.rules.as_ref().filter(|_| !self.is_recorded) {
            Some(rules) => foreign(|id, meta| rules.is_rendered(id, meta), openings),
            None => foreign(is_among(&self.items), openings),
        })
    }

    /// Returns the repair of the live object; `None` if no repair is needed, or if a newer deploy wrote the
    /// object.
    pub(super) fn repair_of(&self, id: &ObjectId, live: &DynamicObject) -> Option<Repair> {
        let meta = &live.metadata;
        let live = LiveObject {
            uid: meta.uid.clone().unwrap_or_default(),
            is_deleting: meta.deletion_timestamp.is_some(),
            body: with_type(live),
        };
        let rules = self.rules.as_ref();
        let item = match rules.filter(|_| !(self.is_recorded && id.kind.is_isolation())) {
            Some(rules) => rules.item(id, Some(&live))?.item,
            None => self.items.iter().find(|item| item.id == *id)?.clone(),
        };
        let write = drifted(&[item], &SingleObject(live.clone())).pop()?.write;
        let others = meta.managed_fields.iter().flatten().filter(|entry| {
            let is_spec = entry.subresource.as_deref().unwrap_or_default().is_empty();
            is_spec && entry.manager.as_deref() != Some(MANAGER)
        });
        Some(Repair {
            write,
            live: Some(live),
            by: others
                .max_by_key(|entry| entry.time.clone())
                .and_then(|entry| entry.manager.clone()),
        })
    }
}

pub(super) struct Repair {
    pub(super) write: ObjectWrite,
    /// Object to restore; `None` if the object does not exist.
    pub(super) live: Option<LiveObject>,
    /// Last field manager, other than this provider, that changed the object.
    pub(super) by: Option<String>,
}

impl Repair {
    pub(super) fn log(&self, home: &str, id: &ObjectId, is_conflict: bool) {
        let (reason, by) = (&self.write.reason, self.by.as_deref().unwrap_or("unknown"));
        if is_conflict {
            tracing::warn!(
                namespace = home,
                object = %id,
                reason,
                by,
                repairs = CONFLICT_REPAIRS,
                "object of a lease restored repeatedly within ten minutes, the next repair is delayed; \
                 stop the client that changes the object"
            );
        } else {
            tracing::info!(namespace = home, object = %id, reason, by, "object of a lease restored, because the object differed from the deployed state");
        }
    }
}

struct SingleObject(LiveObject);

impl WatchedObjects for SingleObject {
    fn find(&self, _: &ObjectId) -> Option<LiveObject> {
        Some(self.0.clone())
    }

    fn ours(&self) -> Vec<(ObjectId, String)> {
        Vec::new()
    }
}

/// Drops objects that are being deleted.
pub(super) fn still_there(mut found: Vec<(ObjectId, ObjectMeta)>) -> Vec<(ObjectId, ObjectMeta)> {
    found.retain(|(_, meta)| meta.deletion_timestamp.is_none());
    found
}

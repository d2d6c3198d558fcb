//! A lease as it is to be, and the repair of one of its objects.

use super::super::unrecorded::Rules;
use crate::apply::MANAGER;
use crate::apply::item::{Id, Item};
use crate::apply::plan::{Live, Watched, Write};
use crate::cluster::deploy::with_type;
use crate::drift::{FIGHT, foreign, found, is_among};
use crate::labels;
use crate::state::LeaseView;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::Value;
use std::collections::BTreeSet;

/// A lease as it is to be, applied to its end.
pub(super) struct Applied {
    pub(super) view: LeaseView,
    pub(super) items: Vec<Item>,
    pub(super) mark: String,
    /// The namespace with its mark.
    pub(super) namespace: Value,
    /// Whether the items of isolation are those of a record.
    pub(super) is_recorded: bool,
    /// What follows of the lease without its record, where that is missing.
    pub(super) rules: Option<Rules>,
    /// Items without the hash of what was applied, which may still differ from that.
    pub(super) unverified: BTreeSet<Id>,
}

impl Applied {
    /// The mark of a namespace is still that of what is to be.
    pub(super) fn is_marked(&self, live: &ObjectMeta) -> bool {
        let mark = live.annotations.as_ref().and_then(|a| a.get(labels::APPLIED));
        live.deletion_timestamp.is_none() && mark == Some(&self.mark)
    }

    /// The objects that open the lease and were not rendered.
    pub(super) fn foreign(&self) -> Vec<(Id, ObjectMeta)> {
        let openings = self.view.openings();
        still_there(match self.rules.as_ref().filter(|_| !self.is_recorded) {
            Some(rules) => foreign(|id, meta| rules.is_rendered(id, meta), openings),
            None => foreign(is_among(&self.items), openings),
        })
    }

    /// What puts right the object that the API server has, and no newer one.
    pub(super) fn repair_of(&self, id: &Id, live: &DynamicObject) -> Option<Repair> {
        let meta = &live.metadata;
        let live = Live {
            uid: meta.uid.clone().unwrap_or_default(),
            is_deleting: meta.deletion_timestamp.is_some(),
            body: with_type(live),
        };
        let rules = self.rules.as_ref();
        let item = match rules.filter(|_| !(self.is_recorded && id.kind.is_isolation())) {
            Some(rules) => rules.item(id, Some(&live))?.item,
            None => self.items.iter().find(|item| item.id == *id)?.clone(),
        };
        let write = found(&[item], &One(live.clone())).pop()?.write;
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

/// A write that restores one object.
pub(super) struct Repair {
    pub(super) write: Write,
    /// The object that is restored; `None` where it is missing.
    pub(super) live: Option<Live>,
    /// The last other writer, if the managed fields name one.
    pub(super) by: Option<String>,
}

impl Repair {
    pub(super) fn tell(&self, home: &str, id: &Id, is_fight: bool) {
        let (reason, by) = (&self.write.reason, self.by.as_deref().unwrap_or("somebody"));
        if is_fight {
            tracing::warn!(
                namespace = home,
                object = %id,
                reason,
                by,
                "put right {FIGHT} times in ten minutes and changed again: from here on it is tried ever more rarely"
            );
        } else {
            tracing::info!(namespace = home, object = %id, reason, by, "put right");
        }
    }
}

/// One object, as the API server returned it.
struct One(Live);

impl Watched for One {
    fn find(&self, _: &Id) -> Option<Live> {
        Some(self.0.clone())
    }

    fn ours(&self) -> Vec<(Id, String)> {
        Vec::new()
    }
}

/// Drops the objects that are being deleted already.
pub(super) fn still_there(mut found: Vec<(Id, ObjectMeta)>) -> Vec<(Id, ObjectMeta)> {
    found.retain(|(_, meta)| meta.deletion_timestamp.is_none());
    found
}

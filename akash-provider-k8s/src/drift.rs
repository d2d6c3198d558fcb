//! What others changed or deleted of a lease's objects, and how often it is put right: pure.
//!
//! ```text
//! rendered + seen ─ found ─► what differs for sure ─ Drift ─► what is put right ─ Calm ─► now, or when
//! ```

mod calm;

pub(crate) use calm::{Calm, FIGHT, Limit};

use crate::apply::item::{Id, Item, Kind};
use crate::apply::plan::{Watched, Write, compare, restoring};
use crate::labels::{self, KEEP};
use crate::settings::Drift;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Role bindings that OpenShift makes in every namespace.
const OF_OPENSHIFT: [&str; 3] = [
    "system:deployers",
    "system:image-builders",
    "system:image-pullers",
];

/// True for one of the items.
pub(crate) fn is_among(items: &[Item]) -> impl Fn(&Id, &ObjectMeta) -> bool {
    |id, _| items.iter().any(|item| item.id == *id)
}

/// Why an object is deleted that was not rendered.
pub(crate) const NOT_RENDERED: &str = "it is not part of the lease";

/// An object that is not as it was applied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// What puts it right.
    pub(crate) write: Write,
    /// There is none of its name.
    pub(crate) is_missing: bool,
    /// The object names the hash of another rendering: others edited that too, or a newer deploy wrote the object.
    pub(crate) has_other_hash: bool,
}

/// The objects in the caches that are missing, or differ from what we wrote; isolation first. The lease must be applied
/// to its end: before that, what differs is a deploy under way.
///
/// Skips workloads and Services with the hash of another rendering, and those that another provider wrote: a deploy may
/// have written them that is newer than the caches. For isolation the caller finds out.
pub(crate) fn found(items: &[Item], seen: &dyn Watched) -> Vec<Found> {
    // No watch holds Secrets.
    let items = items.iter().filter(|item| item.id.kind != Kind::Secret);
    let judged = items.filter_map(|item| {
        let live = seen.find(&item.id);
        // Objects under deletion, and stateful sets with other volume claims, give no write.
        let mut write = compare(item, live.as_ref())?;
        let is_missing = live.is_none();
        let hash = live
            .as_ref()
            .and_then(|live| live.annotation(labels::APPLIED_HASH));
        // Without a hash others created the object again: every write of ours carries one.
        let has_other_hash = hash.is_some_and(|hash| hash != item.hash || write.take_over);
        let is_edited = hash.is_some() && !has_other_hash;
        if let Some(live) = live.as_ref().filter(|_| !is_edited) {
            write.patch = Some(restoring(item.id.kind, &write.body, live));
            write.take_over = false;
        }
        let is_sure = is_missing || is_edited || item.id.kind.is_isolation();
        is_sure.then_some(Found {
            write,
            is_missing,
            has_other_hash,
        })
    });
    let mut all: Vec<Found> = judged.collect();
    all.sort_by_key(|found| !found.write.id.kind.is_isolation());
    all
}

/// The objects that open a lease although they were not rendered, those under deletion too: a finalizer may hold them.
/// Objects with the label [`KEEP`] stay.
pub(crate) fn foreign<'a>(
    is_rendered: impl Fn(&Id, &ObjectMeta) -> bool,
    there: impl IntoIterator<Item = (Id, &'a ObjectMeta)>,
) -> Vec<(Id, ObjectMeta)> {
    let is_labelled = |meta: &ObjectMeta| {
        let labels = meta.labels.as_ref();
        labels.is_some_and(|labels| labels.get(KEEP).map(String::as_str) == Some("true"))
    };
    let found = there.into_iter().filter(|(id, meta)| {
        let is_of_kubernetes = id.kind == Kind::RoleBinding && OF_OPENSHIFT.contains(&id.name.as_str());
        id.kind.opens() && !is_rendered(id, meta) && !is_of_kubernetes && !is_labelled(meta)
    });
    found.map(|(id, meta)| (id, meta.clone())).collect()
}

impl Limit {
    /// Returns the limit of the back-off for a kind.
    pub(crate) fn of(kind: Kind) -> Self {
        if kind.is_isolation() {
            Self::Isolation
        } else {
            Self::Other
        }
    }
}

impl Drift {
    /// True for what is put right by itself: isolation in any case.
    pub(crate) fn heals(self, kind: Kind) -> bool {
        self == Self::Heal || kind.is_isolation()
    }
}

#[cfg(test)]
mod tests;

//! What others changed or deleted of a lease's objects, and how often it is put right: pure.
//!
//! ```text
//! rendered + seen ─ found ─► what differs for sure ─ Drift ─► what is put right ─ Calm ─► now, or when
//! ```

mod calm;

pub(crate) use calm::{Calm, FIGHT};

use crate::apply::item::{Id, Item, Kind};
use crate::apply::plan::{Watched, Write, compare, restoring};
use crate::labels;
use crate::settings::Drift;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Role bindings that OpenShift makes in every namespace.
const OF_OPENSHIFT: [&str; 3] = [
    "system:deployers",
    "system:image-builders",
    "system:image-pullers",
];

/// Why an object is deleted that was not rendered.
pub(crate) const NOT_RENDERED: &str = "it is not part of the lease";

/// An object that is not as it was applied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// What puts it right.
    pub(crate) write: Write,
    /// There is none of its name.
    pub(crate) is_missing: bool,
}

/// The objects in the caches that are missing, or differ from what we wrote; isolation first. The lease must be applied
/// to its end: before that, what differs is a deploy under way.
///
/// An object that carries the hash of another rendering, or that another provider wrote, is none of them: a deploy may
/// have written it that is newer than what the caches say is wanted.
pub(crate) fn found(items: &[Item], seen: &dyn Watched) -> Vec<Found> {
    // No watch holds Secrets.
    let items = items.iter().filter(|item| item.id.kind != Kind::Secret);
    let judged = items.filter_map(|item| {
        let live = seen.find(&item.id);
        // Objects under deletion, and stateful sets with other volume claims, give no write.
        let mut write = compare(item, live.as_ref())?;
        let is_missing = live.is_none();
        let Some(live) = live else {
            return Some(Found { write, is_missing });
        };
        let is_sure = match live.annotation(labels::APPLIED_HASH) {
            Some(hash) => hash == item.hash && !write.take_over,
            // Created again by others. Every write of ours carries the hash.
            None => {
                write.patch = Some(restoring(item.id.kind, &write.body, &live));
                write.take_over = false;
                item.id.kind.is_isolation()
            }
        };
        is_sure.then_some(Found { write, is_missing })
    });
    let mut all: Vec<Found> = judged.collect();
    all.sort_by_key(|found| !found.write.id.kind.is_isolation());
    all
}

/// The objects that open a lease although they were not rendered. Objects with the label [`labels::KEEP`] stay.
/// Without the whole rendering (`is_whole`), objects with the network's label stay too: they may be rendered ones.
pub(crate) fn foreign<'a>(
    items: &[Item],
    is_whole: bool,
    there: impl IntoIterator<Item = (Id, &'a ObjectMeta)>,
) -> Vec<(Id, ObjectMeta)> {
    let is = |meta: &ObjectMeta, label: &str| {
        let labels = meta.labels.as_ref();
        labels.is_some_and(|labels| labels.get(label).map(String::as_str) == Some("true"))
    };
    let found = there.into_iter().filter(|(id, meta)| {
        let is_rendered = items.iter().any(|item| item.id == *id) || (!is_whole && is(meta, labels::MANAGED));
        let is_of_kubernetes = id.kind == Kind::RoleBinding && OF_OPENSHIFT.contains(&id.name.as_str());
        id.kind.opens()
            && !is_rendered
            && !is_of_kubernetes
            && !is(meta, labels::KEEP)
            && meta.deletion_timestamp.is_none()
    });
    found.map(|(id, meta)| (id, meta.clone())).collect()
}

impl Drift {
    /// True for what is put right by itself: isolation in any case.
    pub(crate) fn heals(self, kind: Kind) -> bool {
        self == Self::Heal || kind.is_isolation()
    }
}

#[cfg(test)]
mod tests;

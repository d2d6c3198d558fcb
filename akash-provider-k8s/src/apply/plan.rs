//! Plan of the writes and deletes that bring a namespace to its rendered objects, as a pure function.
//!
//! ```text
//! watched:   missing                    → apply
//!            different hash             → apply (adopted or repaired: take over the managed fields first)
//!            same hash, a difference    → patch, which also removes additions of others
//!            same hash, no difference   → nothing
//! unwatched: missing, different hash in the ledger, or different login → apply, else nothing
//! left over: labels of the provider, not rendered → delete
//! ```

use super::item::{Data, Item, ItemKind, ObjectId};
use super::{APPLIED_VERSION, KEPT, REPAIRED, TEMPLATE_HASH, exact};
use crate::labels;
use akash_provider_kube_kernel::subset;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Hashes of the unwatched objects, by kind and name. An empty hash marks an unfinished write.
pub(crate) type ObjectHashes = BTreeMap<ObjectId, String>;

/// Object of an unwatched kind, as last read from the API server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ExistingObject {
    /// The object has a deletion timestamp; finalizers can delay the deletion.
    pub is_deleting: bool,
    /// Hash of each data entry, if the object is a Secret.
    pub data: Data,
}

impl ExistingObject {
    /// Returns true if the object contains all of `data`. Additional entries are ignored.
    fn holds(&self, data: &Data) -> bool {
        data.iter().all(|(key, hash)| self.data.get(key) == Some(hash))
    }
}

/// Queried objects of kinds that the provider does not watch.
pub(crate) type ExistingObjects = BTreeMap<ObjectId, ExistingObject>;

/// Object in the watch caches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LiveObject {
    /// UID of the object.
    pub uid: String,
    /// The object has a deletion timestamp; finalizers can delay the deletion.
    pub is_deleting: bool,
    /// Complete object, with the defaults of the API server.
    pub body: Value,
}

impl LiveObject {
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.body.pointer("/metadata/annotations");
        annotations.and_then(|a| a.get(key)?.as_str())
    }

    /// Returns true if another provider program wrote the object after this provider last applied it.
    fn is_theirs_again(&self) -> bool {
        let labels = self.body.pointer("/metadata/labels");
        let label = labels.and_then(|l| l.get(labels::MANIFEST_VERSION)?.as_str());
        let applied = self.annotation(APPLIED_VERSION);
        applied.is_some() && applied != label
    }

    fn is_retained(&self) -> bool {
        self.annotation(KEPT).is_some()
    }
}

/// Watched objects of one namespace.
pub(crate) trait WatchedObjects {
    /// Returns an object; `None` if the caches do not contain it.
    fn find(&self, id: &ObjectId) -> Option<LiveObject>;
    /// Returns the id and UID of each object with the label `akash.network=true`. Omits objects that are
    /// being deleted.
    fn ours(&self) -> Vec<(ObjectId, String)>;
}

/// Object to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObjectWrite {
    /// Kind and name of the object.
    pub id: ObjectId,
    /// Applied object, with annotations.
    pub body: Value,
    /// Whether to take over the managed fields of another field manager before the write.
    pub take_over: bool,
    /// Merge patch that restores an edited object. A server-side apply is not sufficient, because the fields
    /// of other field managers would remain.
    pub patch: Option<Value>,
    /// Reason of the write, for logs and findings.
    pub reason: String,
}

/// Object to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delete {
    /// Kind and name of the object.
    pub id: ObjectId,
    /// UID of the object. If `None`, the delete request contains only the name.
    pub uid: Option<String>,
}

/// All changes in one namespace.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Plan {
    /// Objects to write, in the order of the items.
    pub writes: Vec<ObjectWrite>,
    /// Objects to delete after all writes.
    pub deletes: Vec<Delete>,
    /// Desired objects that are being deleted. The apply must wait for the deletion.
    pub blocked: Vec<ObjectId>,
    /// Objects to delete first, because they cannot be changed in place. Their volumes remain.
    pub replaced: Vec<Delete>,
}

impl Plan {
    /// Returns true if nothing changes and nothing blocks the apply.
    pub(crate) const fn is_empty(&self) -> bool {
        self.writes.is_empty()
            && self.deletes.is_empty()
            && self.blocked.is_empty()
            && self.replaced.is_empty()
    }
}

/// Desired objects of a namespace, and data to compare these objects with the existing objects.
#[derive(Debug)]
pub(crate) struct DesiredState<'a> {
    /// Desired objects of the lease.
    pub items: &'a [Item],
    /// Ledger of the namespace.
    pub ledger: &'a ObjectHashes,
    /// Existing objects of unwatched kinds. An object that is not in this map counts as missing.
    pub there: &'a ExistingObjects,
    /// Login Secrets with unknown passwords. If such a Secret exists, it is not changed.
    pub without_password: &'a BTreeSet<ObjectId>,
    /// Names of services with a workload that another provider program created. The workload remains
    /// unchanged.
    pub adopted: &'a BTreeSet<String>,
    /// Whether to search for leftover objects.
    pub prune: bool,
}

/// Compares the desired objects with the existing objects. Makes no calls.
pub(crate) fn plan(wanted: &DesiredState<'_>, watched: &dyn WatchedObjects) -> Plan {
    let mut plan = Plan::default();
    for item in wanted.items {
        if item.id.kind.is_watched() {
            let live = watched.find(&item.id);
            plan_watched(&mut plan, item, live.as_ref(), wanted.adopted);
        } else {
            plan_unwatched(&mut plan, item, wanted);
        }
    }
    let ids: BTreeSet<&ObjectId> = wanted.items.iter().map(|i| &i.id).collect();
    let gone = wanted.ledger.keys().filter(|id| !ids.contains(id));
    plan.deletes.extend(gone.map(|id| Delete {
        id: id.clone(),
        uid: None,
    }));
    // A plan with writes always searches for leftover objects.
    if wanted.prune || !plan.is_empty() {
        let left = watched.ours().into_iter().filter(|(id, _)| !ids.contains(id));
        plan.deletes
            .extend(left.map(|(id, uid)| Delete { id, uid: Some(uid) }));
    }
    plan
}

impl Plan {
    fn push(&mut self, item: &Item, body: Value, take_over: bool, reason: &str) {
        self.writes.push(ObjectWrite {
            id: item.id.clone(),
            body,
            take_over,
            patch: None,
            reason: reason.to_owned(),
        });
    }
}

/// Returns the write that makes the live object equal to the item; `None` if no write is necessary or
/// possible.
pub(crate) fn compare(item: &Item, live: Option<&LiveObject>) -> Option<ObjectWrite> {
    let mut plan = Plan::default();
    plan_watched(&mut plan, item, live, &BTreeSet::new());
    plan.writes.pop()
}

/// Plans the write of one watched object, if the object in the cluster differs.
pub(crate) fn edit(item: &Item, watched: &dyn WatchedObjects) -> Option<ObjectWrite> {
    compare(item, watched.find(&item.id).as_ref())
}

/// Plans an object of an unwatched kind. A ledger entry does not prove that the object exists.
fn plan_unwatched(plan: &mut Plan, item: &Item, wanted: &DesiredState<'_>) {
    let found = wanted.there.get(&item.id);
    let reason = match found {
        Some(found) if found.is_deleting => return plan.blocked.push(item.id.clone()),
        // A rewrite would lose the existing password.
        Some(_) if wanted.without_password.contains(&item.id) => return,
        _ if wanted.ledger.get(&item.id) != Some(&item.hash) => "new or changed",
        None => "missing",
        Some(found) if found.holds(&item.data) => return,
        Some(_) => "different login",
    };
    let body = item.annotated(item.body.clone(), false);
    plan.push(item, body, false, reason);
}

fn plan_watched(plan: &mut Plan, item: &Item, live: Option<&LiveObject>, adopted: &BTreeSet<String>) {
    let Some(live) = live else {
        let body = item.annotated(item.body.clone(), false);
        return plan.push(item, body, false, "missing");
    };
    if live.is_deleting {
        return plan.blocked.push(item.id.clone());
    }
    let applied = live.annotation(labels::APPLIED_HASH);
    if applied.is_none() && item.id.kind.is_workload() && adopted.contains(&item.id.name) {
        return plan.push(item, item.mark(), false, "adopted unchanged");
    }
    if item.id.kind == ItemKind::StatefulSet && volumes_differ(&item.body, &live.body) {
        return plan.replaced.push(Delete {
            id: item.id.clone(),
            uid: Some(live.uid.clone()),
        });
    }
    let is_theirs = live.is_theirs_again();
    let take_over = applied.is_none() || live.is_retained() || is_theirs;
    // An object written by another provider still has our hash, with a different template.
    let same_template = !is_theirs
        && item.template_hash.is_some()
        && live.annotation(TEMPLATE_HASH) == item.template_hash.as_deref();
    let keeps = same_template && live.is_retained();
    let mut body = item.body.clone();
    if same_template {
        keep_template(&mut body, &live.body, keeps);
    }
    let is_same = !is_theirs && applied == Some(item.hash.as_str());
    let reason = if is_theirs {
        "written by another provider".to_owned()
    } else if is_same {
        let kind = item.id.kind;
        let difference = if live.is_retained() {
            subset::missing(&body, &live.body, kind.lists())
        } else {
            exact::difference(kind, &body, &live.body)
        };
        match difference {
            None => return,
            Some(path) => format!("changed by another client: {path}"),
        }
    } else {
        "manifest changed".to_owned()
    };
    let body = item.annotated(body, keeps);
    let patch = (is_same && !take_over).then(|| restoring(item.id.kind, &body, live));
    let take_over = take_over || (patch.is_none() && live.annotation(REPAIRED).is_some());
    plan.push(item, body, take_over, &reason);
    if let Some(write) = plan.writes.last_mut() {
        write.patch = patch;
    }
}

/// Returns the patch that restores an object and sets the annotation [`REPAIRED`].
pub(crate) fn restoring(kind: ItemKind, body: &Value, live: &LiveObject) -> Value {
    let mut body = body.clone();
    body["metadata"]["annotations"][REPAIRED] = Value::from("true");
    let version = |body: &Value| {
        body.pointer("/metadata/labels")?
            .get(labels::MANIFEST_VERSION)
            .cloned()
    };
    let (wanted, there) = (version(&body), version(&live.body));
    // A different version would look like a write of another provider.
    if let Some(version) = there.as_ref().or(wanted.as_ref()) {
        body["metadata"]["annotations"][APPLIED_VERSION] = version.clone();
    }
    let mut patch = exact::replacement(kind, &body, &live.body);
    if there.is_none()
        && let Some(version) = wanted
    {
        patch["metadata"]["labels"][labels::MANIFEST_VERSION] = version;
    }
    patch
}

/// Copies the live pod template to `body`, so that no pod is replaced. If `whole` is false, copies only the
/// version label of the template.
fn keep_template(body: &mut Value, live: &Value, whole: bool) {
    const TEMPLATE: &str = "/spec/template";
    let (Some(template), Some(live)) = (body.pointer_mut(TEMPLATE), live.pointer(TEMPLATE)) else {
        return;
    };
    if whole {
        template.clone_from(live);
        return;
    }
    let version = live
        .pointer("/metadata/labels")
        .and_then(|l| l.get(labels::MANIFEST_VERSION));
    let labels = template
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut);
    if let (Some(version), Some(labels)) = (version, labels) {
        labels.insert(labels::MANIFEST_VERSION.to_owned(), version.clone());
    }
}

/// Returns true if a volume claim template of the StatefulSet has a different name or spec. These fields are
/// immutable.
fn volumes_differ(wanted: &Value, live: &Value) -> bool {
    let claims = |body: &Value| -> Value {
        let claims = body
            .pointer("/spec/volumeClaimTemplates")
            .and_then(Value::as_array);
        let claim = |claim: &Value| json!({"name": claim["metadata"]["name"], "spec": claim["spec"]});
        claims.into_iter().flatten().map(claim).collect()
    };
    subset::missing(&claims(wanted), &claims(live), subset::Lists::Closed).is_some()
}

/// Returns the ledger to store during an apply: all objects that may exist, with an empty hash for pending
/// writes.
pub(crate) fn ledger_during(before: &ObjectHashes, plan: &Plan) -> ObjectHashes {
    let mut ledger = before.clone();
    for write in plan.writes.iter().filter(|w| !w.id.kind.is_watched()) {
        ledger.insert(write.id.clone(), String::new());
    }
    ledger
}

/// Returns the ledger after the apply.
pub(crate) fn ledger_after(items: &[Item]) -> ObjectHashes {
    let unwatched = items.iter().filter(|i| !i.id.kind.is_watched());
    unwatched.map(|i| (i.id.clone(), i.hash.clone())).collect()
}

#[cfg(test)]
mod tests;

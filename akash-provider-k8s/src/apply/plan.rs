//! What has to be written so that the namespace holds what was rendered: pure.
//!
//! ```text
//! watched:   no live object            → apply
//!            another hash             → apply (adopted or repaired: take over first)
//!            same hash, a difference  → patch, which also removes what others added
//!            same hash, no difference → nothing
//! unwatched: not there, another hash in the namespace's ledger, or another login → apply, else nothing
//! left over: labelled as ours, not rendered     → delete
//! ```

use super::item::{Data, Id, Item, Kind};
use super::{APPLIED_VERSION, KEPT, REPAIRED, TEMPLATE_HASH, exact, subset};
use crate::labels;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Hashes of the objects that no watch holds, by kind and name; an empty hash where a write was not finished.
pub type Ledger = BTreeMap<Id, String>;

/// An object that no watch holds, as the API server had it when it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// It has a deletion time and may stay for a while.
    pub is_deleting: bool,
    /// Hashes of its data, where it is a Secret.
    pub data: Data,
}

impl Found {
    /// True when all these data are in it; what others added to it counts for nothing.
    fn holds(&self, data: &Data) -> bool {
        data.iter().all(|(key, hash)| self.data.get(key) == Some(hash))
    }
}

/// What is there of the kinds that no watch holds, as far as it was asked for.
pub type There = BTreeMap<Id, Found>;

/// An object as the watches hold it.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    /// Its identity: another object of its name has another one.
    pub uid: String,
    /// It has a deletion time and may stay for a while.
    pub is_deleting: bool,
    /// The whole object, the API server's defaults included.
    pub body: Value,
}

impl Live {
    /// An annotation of it.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.body.pointer("/metadata/annotations");
        annotations.and_then(|a| a.get(key)?.as_str())
    }

    /// Another provider wrote to it since we did.
    fn is_theirs_again(&self) -> bool {
        let labels = self.body.pointer("/metadata/labels");
        let label = labels.and_then(|l| l.get(labels::MANIFEST_VERSION)?.as_str());
        let applied = self.annotation(APPLIED_VERSION);
        applied.is_some() && applied != label
    }

    fn is_kept(&self) -> bool {
        self.annotation(KEPT).is_some()
    }
}

/// The watched objects of one namespace.
pub trait Watched {
    /// One of them; `None` where the caches have none.
    fn find(&self, id: &Id) -> Option<Live>;
    /// The names and identities of those with our labels that are not going.
    fn ours(&self) -> Vec<(Id, String)>;
}

/// One object to write.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// Kind and name of the object.
    pub id: Id,
    /// What is applied, annotations included.
    pub body: Value,
    /// Another field manager wrote it: its managed fields move to ours first.
    pub take_over: bool,
    /// Merge patch that restores an edited object, in place of an apply: an apply leaves the fields of others.
    pub patch: Option<Value>,
    /// Why it is written, for logs and findings.
    pub reason: String,
}

/// One object to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// Kind and name of the object.
    pub id: Id,
    /// Only this very object; `None` where only the name is known.
    pub uid: Option<String>,
}

/// Everything to do in one namespace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// What is applied, in the order of the items.
    pub writes: Vec<Write>,
    /// What is deleted, after all writes.
    pub deletes: Vec<Delete>,
    /// Objects that are to be and are just going: nothing can be done before they are gone.
    pub blocked: Vec<Id>,
    /// Objects that cannot be changed into what they are to be: they go first. Volumes outlive it.
    pub replaced: Vec<Delete>,
}

impl Plan {
    /// Nothing is to be done, and nothing stands in the way.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.writes.is_empty()
            && self.deletes.is_empty()
            && self.blocked.is_empty()
            && self.replaced.is_empty()
    }
}

/// What is to be, and what is remembered of it.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The objects that are to be there.
    pub items: &'a [Item],
    /// What the namespace remembers of unwatched objects.
    pub ledger: &'a Ledger,
    /// What is there of them. An object of which the ledger says nothing need not be looked for.
    pub there: &'a There,
    /// Logins whose password nobody knows: what is there of them stays.
    pub without_password: &'a BTreeSet<Id>,
    /// Services of an adopted lease whose workload stays as the other provider made it.
    pub kept: &'a BTreeSet<String>,
    /// Look for objects that are left over.
    pub prune: bool,
}

/// Compares what is wanted with what is there. Asks nobody.
#[must_use]
pub fn plan(wanted: &Wanted<'_>, watched: &dyn Watched) -> Plan {
    let mut plan = Plan::default();
    for item in wanted.items {
        if item.id.kind.is_watched() {
            let live = watched.find(&item.id);
            plan_watched(&mut plan, item, live.as_ref(), wanted.kept);
        } else {
            plan_unwatched(&mut plan, item, wanted);
        }
    }
    let ids: BTreeSet<&Id> = wanted.items.iter().map(|i| &i.id).collect();
    let gone = wanted.ledger.keys().filter(|id| !ids.contains(id));
    plan.deletes.extend(gone.map(|id| Delete {
        id: id.clone(),
        uid: None,
    }));
    // A plan that writes looks for what is left over too, one that writes nothing only where it is asked to.
    if wanted.prune || !plan.is_empty() {
        let left = watched.ours().into_iter().filter(|(id, _)| !ids.contains(id));
        plan.deletes
            .extend(left.map(|(id, uid)| Delete { id, uid: Some(uid) }));
    }
    plan
}

impl Plan {
    fn push(&mut self, item: &Item, body: Value, take_over: bool, reason: &str) {
        self.writes.push(Write {
            id: item.id.clone(),
            body,
            take_over,
            patch: None,
            reason: reason.to_owned(),
        });
    }
}

/// Compares one object with its item, whether or not a deploy compares objects of its kind with the watches. Returns
/// the write that restores it; `None` if the two are equal or the object is being deleted.
pub(crate) fn compare(item: &Item, live: Option<&Live>) -> Option<Write> {
    let mut plan = Plan::default();
    plan_watched(&mut plan, item, live, &BTreeSet::new());
    plan.writes.pop()
}

/// The ledger says what was written, and never that it is still there.
fn plan_unwatched(plan: &mut Plan, item: &Item, wanted: &Wanted<'_>) {
    let found = wanted.there.get(&item.id);
    let reason = match found {
        Some(found) if found.is_deleting => return plan.blocked.push(item.id.clone()),
        // Written anew it would lose the password that is there.
        Some(_) if wanted.without_password.contains(&item.id) => return,
        _ if wanted.ledger.get(&item.id) != Some(&item.hash) => "it is new or changed",
        None => "it is not there",
        Some(found) if found.holds(&item.data) => return,
        Some(_) => "its login is another",
    };
    let body = item.annotated(item.body.clone(), false);
    plan.push(item, body, false, reason);
}

fn plan_watched(plan: &mut Plan, item: &Item, live: Option<&Live>, kept: &BTreeSet<String>) {
    let Some(live) = live else {
        let body = item.annotated(item.body.clone(), false);
        return plan.push(item, body, false, "it is not there");
    };
    if live.is_deleting {
        return plan.blocked.push(item.id.clone());
    }
    let applied = live.annotation(labels::APPLIED_HASH);
    if applied.is_none() && item.id.kind.is_workload() && kept.contains(&item.id.name) {
        return plan.push(item, item.mark(), false, "it stays as it was adopted");
    }
    if item.id.kind == Kind::StatefulSet && volumes_differ(&item.body, &live.body) {
        return plan.replaced.push(Delete {
            id: item.id.clone(),
            uid: Some(live.uid.clone()),
        });
    }
    let is_theirs = live.is_theirs_again();
    let take_over = applied.is_none() || live.is_kept() || is_theirs;
    // What another provider wrote has our hash still, beside a template of its own.
    let same_template = !is_theirs
        && item.template_hash.is_some()
        && live.annotation(TEMPLATE_HASH) == item.template_hash.as_deref();
    let keeps = same_template && live.is_kept();
    let mut body = item.body.clone();
    if same_template {
        keep_template(&mut body, &live.body, keeps);
    }
    let is_same = !is_theirs && applied == Some(item.hash.as_str());
    let reason = if is_theirs {
        "another provider wrote to it".to_owned()
    } else if is_same {
        let kind = item.id.kind;
        let difference = if live.is_kept() {
            subset::missing(&body, &live.body, kind.lists())
        } else {
            exact::difference(kind, &body, &live.body)
        };
        match difference {
            None => return,
            Some(path) => format!("somebody changed {path}"),
        }
    } else {
        "it changed".to_owned()
    };
    let body = item.annotated(body, keeps);
    let patch = (is_same && !take_over).then(|| restoring(item.id.kind, &body, live));
    let take_over = take_over || (patch.is_none() && live.annotation(REPAIRED).is_some());
    plan.push(item, body, take_over, &reason);
    if let Some(write) = plan.writes.last_mut() {
        write.patch = patch;
    }
}

/// The patch that restores an object, and the mark of the repair: a patch takes fields under another operation than
/// an apply does, and the next apply has to take them over.
pub(crate) fn restoring(kind: Kind, body: &Value, live: &Live) -> Value {
    let mut body = body.clone();
    body["metadata"]["annotations"][REPAIRED] = Value::from("true");
    let version = |body: &Value| {
        body.pointer("/metadata/labels")?
            .get(labels::MANIFEST_VERSION)
            .cloned()
    };
    let (wanted, there) = (version(&body), version(&live.body));
    // Another version than that of the label would be a write of another provider.
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

/// A template that is the same keeps its version label (or, as adopted, its every byte), so that no pod is
/// replaced.
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

/// Claims of a stateful set cannot be changed in place: names and what is asked for.
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

/// The ledger while the plan is carried out: nothing that may exist is forgotten, nothing counts as written.
#[must_use]
pub fn ledger_during(before: &Ledger, plan: &Plan) -> Ledger {
    let mut ledger = before.clone();
    for write in plan.writes.iter().filter(|w| !w.id.kind.is_watched()) {
        ledger.insert(write.id.clone(), String::new());
    }
    ledger
}

/// The ledger after the plan was carried out.
#[must_use]
pub fn ledger_after(items: &[Item]) -> Ledger {
    let unwatched = items.iter().filter(|i| !i.id.kind.is_watched());
    unwatched.map(|i| (i.id.clone(), i.hash.clone())).collect()
}

#[cfg(test)]
mod tests;

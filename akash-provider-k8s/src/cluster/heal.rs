//! What others change of a lease that we applied is put right when the watches show it.
//!
//! ```text
//! touched ─► dirty leases, one at a time ─► foreign, found (caches) ─► Drift, Calm ─► is it so? (live) ─► patch
//! ```
//!
//! A lease is left alone unless it was deployed at this process's word, nobody is writing it, and the mark of its
//! namespace shows that exactly this was applied to its end. All else is for the next deploy. Isolation comes first. The
//! isolation of a lease without a readable record is restored by the last record that this process read. Without one,
//! the policy that does not depend on services is restored.

use super::deploy::{annotation, with_type};
use super::differences::unplanned;
use super::lanes::Entry;
use super::{Inner, KubeCluster, LeadershipGate};
use crate::apply::item::{Id, Item, Kind};
use crate::apply::plan::{Live, Watched, Write};
use crate::apply::{Calls, MANAGER, Written, marked, subset};
use crate::crd::{Manifest, convert};
use crate::drift::{Calm, FIGHT, Found, foreign, found};
use crate::labels;
use crate::state::{EVERYWHERE, LeaseView};
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::error::{Error, ErrorKind};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep, sleep_until};

const HEAL: &str = "heal";
/// Changes are gathered for so long, so that a lease is looked at once for many of them.
const GATHER: Duration = Duration::from_millis(20);
/// Wait for a lease that is being written, or while the cluster is not being watched.
const AGAIN: Duration = Duration::from_secs(1);
/// Between two restores of the labels of one namespace: others that set them again are not fought more often.
const LABELS_AGAIN: Duration = Duration::from_secs(10);

/// What is remembered between looks.
#[derive(Debug, Default)]
struct Memory {
    calm: Calm,
    /// Leases that are to be looked at again without a change.
    later: BTreeMap<String, Instant>,
    /// What is told and left alone.
    told: BTreeMap<String, BTreeSet<Id>>,
    /// The last record of each lease by which it was applied; shared with the cache until the record changes.
    records: BTreeMap<String, Arc<Manifest>>,
    /// When the labels of a namespace may be restored again.
    labels: BTreeMap<String, Instant>,
}

/// A lease as it is to be, applied to its end.
struct Applied {
    view: LeaseView,
    items: Vec<Item>,
    mark: String,
    /// The namespace with its mark; `None` without a record.
    namespace: Option<Value>,
    /// The items are all that was rendered of the kinds that open a lease.
    is_whole: bool,
}

impl KubeCluster {
    /// Puts right what others change or delete of policies, workloads and Services of leases, while its provider leads.
    /// Never ends.
    pub async fn follow_drift(&self, leading: &LeadershipGate) {
        loop {
            leading.begins().await;
            // It ends only when it is deposed. Whoever leads then deploys every lease once.
            let _: Option<()> = leading.during(self.inner().heal()).await;
            self.inner().lanes.forget_all();
        }
    }
}

impl Inner {
    async fn heal(&self) {
        let mut touched = self.state.touched();
        let mut memory = Memory::default();
        let mut dirty: BTreeSet<String> = self.state.leases().into_keys().collect();
        loop {
            for home in std::mem::take(&mut dirty) {
                match self.heal_lease(&home, &mut memory).await {
                    Some(at) => drop(memory.later.insert(home, at)),
                    None => drop(memory.later.remove(&home)),
                }
                // Many leases at once: others have their turns between them.
                tokio::task::yield_now().await;
            }
            memory.calm.forget(Instant::now());
            let next = memory.later.values().min().copied();
            let all = || self.state.leases().into_keys();
            tokio::select! {
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    let now = Instant::now();
                    dirty.extend(memory.later.iter().filter(|(_, at)| **at <= now).map(|(home, _)| home.clone()));
                }
                home = touched.recv() => match home {
                    Ok(home) if *home != *EVERYWHERE => drop(dirty.insert(home.as_ref().to_owned())),
                    // What was missed may be about any lease.
                    Ok(_) | Err(RecvError::Lagged(_)) => dirty.extend(all()),
                    // The other end is in our hands, so it does not go away.
                    Err(RecvError::Closed) => std::future::pending().await,
                },
            }
            sleep(GATHER).await;
            loop {
                match touched.try_recv() {
                    Ok(home) if *home != *EVERYWHERE => drop(dirty.insert(home.as_ref().to_owned())),
                    Ok(_) | Err(TryRecvError::Lagged(_)) => dirty.extend(all()),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
        }
    }

    /// Looks at one lease. When it is to be looked at again without a change, if it is.
    async fn heal_lease(&self, home: &str, memory: &mut Memory) -> Option<Instant> {
        let Some(mut view) = self.state.ours_in(home) else {
            memory.forget(home);
            return None;
        };
        // Nothing deploys a lease without a record.
        let has_record = self.record_of(&view, home).is_some();
        let entry = match self.lanes.try_enter(home) {
            Entry::NotDeployed if !has_record => self.lanes.try_enter_any(home),
            entry => entry,
        };
        let _lane = match entry {
            Entry::NotDeployed => {
                memory.told.remove(home);
                return None;
            }
            Entry::Busy => return Some(Instant::now() + AGAIN),
            Entry::Held(lane) => lane,
        };
        if !self.state.known() {
            return Some(Instant::now() + AGAIN);
        }
        if view.namespace.is_none() && has_record {
            match self.unlabelled(home, memory).await {
                Ok(found) => view.namespace = Some(found),
                Err(next) => return next,
            }
        }
        let applied = self.applied(home, view, memory)?;
        let mut next = self.heal_labels(home, &applied, memory).await;
        for (id, meta) in foreign(&applied.items, applied.is_whole, applied.view.openings()) {
            let at = self.remove_foreign(home, &id, &meta, &mut memory.calm).await;
            next = earliest(next, at);
        }
        // Before its first list a watch cannot show that an object is missing.
        let has_listed = |kind: Kind| kind.watch().is_some_and(|watch| self.state.has_listed(watch));
        let is_known = |found: &Found| !found.is_missing || has_listed(found.write.id.kind);
        let (heals, leaves): (Vec<Found>, Vec<Found>) = found(&applied.items, &applied.view)
            .into_iter()
            .filter(is_known)
            .partition(|found| self.settings.drift.heals(found.write.id.kind));
        memory.tell(home, leaves);
        for found in heals {
            let (now, id) = (Instant::now(), found.write.id.clone());
            let at = match memory.calm.waits_until(home, &id, now) {
                Some(at) => at,
                None => match self.repair(home, &applied, found).await {
                    Ok(None) => continue,
                    Ok(Some(repair)) => {
                        let is_fight = memory.calm.repaired(home, &id, now);
                        repair.tell(home, &id, is_fight);
                        continue;
                    }
                    Err(error) => {
                        memory.calm.failed(home, &id, now);
                        tracing::warn!(namespace = home, object = %id, %error, "what others changed is not put right yet");
                        memory.calm.waits_until(home, &id, now)?
                    }
                },
            };
            next = earliest(next, Some(at));
        }
        next
    }

    /// What a lease is to be, where everything of it was applied by us; without a record, its isolation.
    fn applied(&self, home: &str, view: LeaseView, memory: &mut Memory) -> Option<Applied> {
        let namespace = view.namespace.clone()?;
        let manifest = view.manifest.clone();
        let is_going = |meta: &ObjectMeta| meta.deletion_timestamp.is_some();
        let ends = manifest
            .as_ref()
            .is_some_and(|manifest| !self.is_ours(manifest) || is_going(&manifest.metadata));
        if ends || is_going(&namespace.metadata) {
            return None;
        }
        if let Some(manifest) = manifest
            && let Some(deployment) = self.record_of(&view, home)
        {
            self.check_holder(&deployment.lease, &namespace.metadata, "namespace", HEAL)
                .ok()?;
            let applied = self.applied_items(&deployment, &manifest, Some(&namespace))?;
            memory.records.insert(home.to_owned(), manifest);
            return Some(Applied {
                view,
                namespace: Some(marked(&applied.body, &applied.items)),
                items: applied.items,
                mark: applied.mark,
                is_whole: true,
            });
        }
        let last = memory.records.get(home);
        let last = last.and_then(|manifest| {
            let recorded = convert::from_manifest(manifest).ok()?;
            self.applied_items(&recorded.deployment, manifest, Some(&namespace))
        });
        let lease = labels::lease_of(namespace.metadata.labels.as_ref()?)?;
        let mark = annotation(&namespace, labels::APPLIED)?.clone();
        let is_whole = last.is_some();
        let mut items = last.map_or_else(|| self.restrictions(&lease, &namespace), |applied| applied.items);
        items.retain(|item| item.id.kind.is_isolation());
        Some(Applied {
            view,
            items,
            mark,
            namespace: None,
            is_whole,
        })
    }

    /// Reads the namespace of a lease that no watch shows, because it lost its label. Returns the time of the next try
    /// as the error, if there is no such namespace.
    async fn unlabelled(&self, home: &str, memory: &mut Memory) -> Result<Arc<Namespace>, Option<Instant>> {
        let now = Instant::now();
        if let Some(at) = memory.labels_wait_until(home, now) {
            return Err(Some(at));
        }
        let resource = ApiResource::erase::<Namespace>(&());
        let next = match self.calls(HEAL).get(&resource, "", home).await {
            Ok(Some(live)) => match live.try_parse() {
                Ok(namespace) => return Ok(Arc::new(namespace)),
                Err(_) => None,
            },
            Ok(None) => None,
            Err(error) => {
                tracing::warn!(namespace = home, %error, "cannot read namespace");
                Some(now + LABELS_AGAIN)
            }
        };
        memory.labels.insert(home.to_owned(), now + LABELS_AGAIN);
        Err(next)
    }

    /// What is recorded of a lease, where the record can be read and has no other writer.
    fn record_of(&self, view: &LeaseView, home: &str) -> Option<WorkloadSpec> {
        let recorded = convert::from_manifest(view.manifest.as_ref()?).ok()?;
        let is_named = recorded.deployment.lease.namespace() == home;
        (recorded.remarks.is_empty() && is_named).then_some(recorded.deployment)
    }

    /// Restores the labels of a namespace. Returns the time of the next try.
    async fn heal_labels(&self, home: &str, applied: &Applied, memory: &mut Memory) -> Option<Instant> {
        let (wanted, live) = (applied.namespace.as_ref()?, applied.view.namespace.as_deref()?);
        let path = subset::missing(wanted, &with_type(live), subset::Lists::Closed)?;
        let now = Instant::now();
        if let Some(at) = memory.labels_wait_until(home, now) {
            return Some(at);
        }
        memory.labels.insert(home.to_owned(), now + LABELS_AGAIN);
        let mut body = wanted.clone();
        body["metadata"]["uid"] = Value::from(live.metadata.uid.clone());
        match self.calls(HEAL).apply_namespace(home, &body).await {
            Ok(()) => {
                tracing::info!(namespace = home, path, "namespace restored");
                None
            }
            Err(error) => {
                tracing::warn!(namespace = home, path, %error, "cannot restore namespace");
                Some(now + LABELS_AGAIN)
            }
        }
    }

    /// Deletes an object that opens a lease and was not rendered. Returns the time of the next try.
    async fn remove_foreign(
        &self,
        home: &str,
        id: &Id,
        meta: &ObjectMeta,
        calm: &mut Calm,
    ) -> Option<Instant> {
        let now = Instant::now();
        if let Some(at) = calm.waits_until(home, id, now) {
            return Some(at);
        }
        match self.calls(HEAL).delete_version(id.kind, home, meta).await {
            Ok(()) => {
                calm.repaired(home, id, now);
                let label = labels::KEEP;
                tracing::warn!(namespace = home, object = %id, label, "object deleted, not part of the lease");
                None
            }
            Err(error) => {
                calm.failed(home, id, now);
                tracing::warn!(namespace = home, object = %id, %error, "cannot delete object that opens the lease");
                calm.waits_until(home, id, now)
            }
        }
    }

    /// Restores isolation that no deploy compares.
    pub(super) async fn guard(
        &self,
        home: &str,
        items: &[Item],
        operation: &'static str,
    ) -> Result<(), Error> {
        let (view, calls) = (self.state.lease_in(home), self.calls(operation));
        for (id, meta) in foreign(items, true, view.openings()) {
            tracing::warn!(namespace = home, object = %id, "object deleted, not part of the lease");
            calls.delete_version(id.kind, home, &meta).await?;
        }
        for found in unplanned(items, &view) {
            if let Some(live) = view.find(&found.write.id) {
                write(&calls, home, &found.write, Some(&live)).await?;
            }
        }
        Ok(())
    }

    /// Asks the API server whether it is so, and puts it right. `None` where it is not, or not any more.
    async fn repair(&self, home: &str, applied: &Applied, found: Found) -> Result<Option<Repair>, Error> {
        // Closed never: the semaphore lives as long as we do.
        let _turn = self.leases.acquire().await.ok();
        let calls = self.calls(HEAL);
        let id = found.write.id.clone();
        let repair = if found.is_missing {
            // Deletes of a deploy come before its mark: where the mark is as it was, none of them deleted it.
            let namespace = calls
                .metadata(&ApiResource::erase::<Namespace>(&()), "", home)
                .await?;
            if !namespace.is_some_and(|live| applied.is_marked(&live)) {
                return Ok(None);
            }
            Repair {
                write: found.write,
                live: None,
                by: None,
            }
        } else if id.kind.is_watched() {
            let Some(live) = calls.get(&id.kind.resource(), home, &id.name).await? else {
                return Ok(None);
            };
            let Some(repair) = applied.repair_of(&id, &live) else {
                return Ok(None);
            };
            repair
        } else {
            // Only their watches read these. The patch sets wanted values alone, so an older view does no harm.
            Repair {
                live: applied.view.find(&id),
                write: found.write,
                by: None,
            }
        };
        let meta = match write(&calls, home, &repair.write, repair.live.as_ref()).await {
            Ok(meta) => meta,
            // Somebody wrote meanwhile; the watches show what.
            Err(error) if error.kind() == ErrorKind::Conflict => return Ok(None),
            Err(error) => return Err(error),
        };
        self.tell(&[Written { id, meta }]);
        Ok(Some(repair))
    }
}

/// The earlier of two moments, where there is any.
fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// Restores one object: by a patch, or by an apply where it is missing. A binding to another role is made again, since
/// its role cannot be changed.
pub(super) async fn write(
    calls: &Calls,
    home: &str,
    write: &Write,
    live: Option<&Live>,
) -> Result<ObjectMeta, Error> {
    let (id, body) = (&write.id, &write.body);
    let is_other_role =
        live.filter(|live| id.kind == Kind::RoleBinding && body["roleRef"] != live.body["roleRef"]);
    if let Some(live) = is_other_role {
        let text = |field: &str| live.body["metadata"][field].as_str().map(str::to_owned);
        let meta = ObjectMeta {
            name: Some(id.name.clone()),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        calls.delete_version(id.kind, home, &meta).await?;
        return calls.apply(id.kind, home, &id.name, body).await;
    }
    match &write.patch {
        Some(patch) => calls.restore(&id.kind.resource(), home, &id.name, patch).await,
        None => calls.apply(id.kind, home, &id.name, body).await,
    }
}

/// What puts an object right, of which the API server says that it is not.
struct Repair {
    write: Write,
    /// The object that is restored; `None` where it is missing.
    live: Option<Live>,
    /// Who wrote to it last besides us, as far as the API server says.
    by: Option<String>,
}

impl Repair {
    fn tell(&self, home: &str, id: &Id, is_fight: bool) {
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

impl Applied {
    /// The mark of a namespace is still that of what is to be.
    fn is_marked(&self, live: &ObjectMeta) -> bool {
        let mark = live.annotations.as_ref().and_then(|a| a.get(labels::APPLIED));
        live.deletion_timestamp.is_none() && mark == Some(&self.mark)
    }

    /// What puts right the object that the API server has, and no newer one.
    fn repair_of(&self, id: &Id, live: &DynamicObject) -> Option<Repair> {
        let item = self.items.iter().find(|item| item.id == *id)?;
        let meta = &live.metadata;
        let live = Live {
            uid: meta.uid.clone().unwrap_or_default(),
            is_deleting: meta.deletion_timestamp.is_some(),
            body: with_type(live),
        };
        let write = found(std::slice::from_ref(item), &One(live.clone())).pop()?.write;
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

/// The one object that was asked for.
struct One(Live);

impl Watched for One {
    fn find(&self, _: &Id) -> Option<Live> {
        Some(self.0.clone())
    }

    fn ours(&self) -> Vec<(Id, String)> {
        Vec::new()
    }
}

impl Memory {
    /// Drops the stored state of a removed lease.
    fn forget(&mut self, home: &str) {
        self.told.remove(home);
        self.records.remove(home);
        self.labels.remove(home);
    }

    /// Returns when the labels of a namespace may be read or restored again, or `None` for now.
    fn labels_wait_until(&self, home: &str, now: Instant) -> Option<Instant> {
        self.labels.get(home).copied().filter(|at| *at > now)
    }

    /// What is left as others made it is told once, until it is right again.
    fn tell(&mut self, home: &str, left: Vec<Found>) {
        let before = self.told.remove(home).unwrap_or_default();
        let mut now = BTreeSet::new();
        for Found { write, .. } in left {
            if !before.contains(&write.id) {
                let (object, reason) = (&write.id, &write.reason);
                tracing::warn!(namespace = home, %object, reason, "it is not as it was applied, and left so until the next deploy");
            }
            now.insert(write.id);
        }
        if !now.is_empty() {
            self.told.insert(home.to_owned(), now);
        }
    }
}

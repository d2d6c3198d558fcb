//! Repairs changes of other clients to applied leases.
//!
//! ```text
//! queue of changed leases ─► differences in the caches ─► drift mode, back-off ─► confirm (live) ─► patch
//! ```
//!
//! A lease is repaired only if three conditions hold. Otherwise the next deploy handles the lease.
//!
//! 1. This process deployed the lease, or the lease has no readable Manifest record.
//! 2. No other task writes the lease.
//! 3. The hash on the namespace shows that the desired objects were applied completely.
//!
//! Isolation objects are repaired first. For a lease without a readable record, the last record that this
//! process read restores the isolation. The rules of `unrecorded` restore the other objects, and also the
//! isolation if this process read no record.

mod applied;
mod state;

use self::applied::{AppliedLease, Repair, still_there};
use self::state::RepairState;
use super::differences::{meta_of, unplanned};
use super::locks::LockResult;
use super::namespace::{annotation, with_type};
use super::{ClusterContext, KubeCluster, LeadershipGate, is_as_new};
use crate::apply::item::{Item, ItemKind, ObjectId};
use crate::apply::plan::{LiveObject, ObjectWrite, WatchedObjects};
use crate::apply::{WrittenObject, marked};
use crate::drift::{DriftedObject, Limit, RepairBackoff, drifted, foreign, is_among};
use crate::labels;
use crate::state::{EVERYWHERE, LeaseView};
use crate::statistics::{DriftOutcome, Operation};
use akash_provider_core::audit::ActKind;
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::audit::deletion;
use akash_provider_kube_kernel::calls::KubeCalls;
use akash_provider_kube_kernel::subset;
use akash_provider_kube_kernel::work_queue::WorkQueue;
use akash_provider_kube_model::crd::{Manifest, convert};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep, sleep_until};

const HEAL: &str = "heal";
/// Delay that combines several changes of a lease into one comparison.
const GATHER: Duration = Duration::from_millis(20);
/// Delay before the next attempt if the lease is locked or the watches are not synchronized.
const AGAIN: Duration = Duration::from_secs(1);

/// Reason why an object cannot be restored completely.
const UNVERIFIED: &str =
    "the Manifest record is missing, and only this record contains some fields of the object";

impl KubeCluster {
    /// Repairs changed and deleted policies, workloads and Services of leases, while the provider leads. Never returns.
    pub async fn follow_drift(&self, leading: &LeadershipGate) {
        loop {
            leading.opened().await;
            // Ends when the leadership is lost. The next leader deploys every lease once.
            let _: Option<()> = leading.during(self.inner().heal()).await;
            self.inner().locks.clear();
        }
    }
}

impl ClusterContext {
    async fn heal(&self) {
        let mut touched = self.state.touched();
        let mut repairs = RepairState::default();
        let mut queue = WorkQueue::default();
        self.queue_all(&mut queue);
        loop {
            while let Some(home) = queue.next(Instant::now()) {
                // With the lease that is compared now.
                self.counters.set_queued(queue.ready() + 1);
                let again = self.heal_lease(&home, &mut repairs).await;
                queue.finish(&home);
                if let Some(at) = again {
                    queue.remind(home, at);
                }
                // Yields to other tasks between many leases.
                tokio::task::yield_now().await;
            }
            self.counters.set_queued(0);
            self.counters.set_waiting(queue.reminders());
            repairs.backoff.remove_old(Instant::now());
            repairs.labels.remove_old(Instant::now());
            let next = queue.due();
            tokio::select! {
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
                home = touched.recv() => match home {
                    Ok(home) => self.queue_touched(&mut queue, &home),
                    Err(RecvError::Lagged(_)) => self.queue_all(&mut queue),
                    // This process owns the sender, so it is never closed.
                    Err(RecvError::Closed) => std::future::pending().await,
                },
            }
            sleep(GATHER).await;
            loop {
                match touched.try_recv() {
                    Ok(home) => self.queue_touched(&mut queue, &home),
                    Err(TryRecvError::Lagged(_)) => self.queue_all(&mut queue),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
        }
    }

    fn queue_touched(&self, queue: &mut WorkQueue<String>, home: &str) {
        if home == EVERYWHERE {
            self.queue_all(queue);
        } else {
            queue.push(home.to_owned());
        }
    }

    /// Queues all leases. Called at the start, and if any lease may have changed.
    fn queue_all(&self, queue: &mut WorkQueue<String>) {
        self.state.leases().into_keys().for_each(|home| queue.push(home));
    }

    /// Compares and repairs one lease. Returns the time of the next comparison, or `None` if the lease is not
    /// compared again before its next change.
    async fn heal_lease(&self, home: &str, repairs: &mut RepairState) -> Option<Instant> {
        // Read before the view: a list that is completed afterwards may be missing in the view.
        let listed = self.state.listed();
        let (lease, mut view) = match self.state.ours_in(home) {
            Some((lease, view)) => {
                repairs.leases.insert(home.to_owned(), lease.clone());
                (lease, view)
            }
            None => match self.disowned(home, repairs).await {
                Ok(found) => found,
                Err(next) => return next,
            },
        };
        // A lease without a record has no deploy.
        let has_record = self.record_of(&view).is_some();
        let entry = match self.locks.try_lock(home) {
            LockResult::NotDeployed if !has_record => self.locks.try_lock_any(home),
            entry => entry,
        };
        let _lane = match entry {
            LockResult::NotDeployed => {
                repairs.logged.remove(home);
                return None;
            }
            LockResult::Busy => return Some(Instant::now() + AGAIN),
            LockResult::Held(lock) => lock,
        };
        if !self.state.is_known() {
            return Some(Instant::now() + AGAIN);
        }
        if view.namespace.is_none() && has_record {
            match self.unlabelled(home, repairs).await {
                Ok(found) => view.namespace = Some(found),
                Err(next) => return next,
            }
        }
        let applied = self.applied(&lease, home, view, repairs)?;
        let mut next = self.heal_labels(home, &applied, repairs).await;
        for (id, meta) in applied.foreign() {
            let at = self.remove_foreign(home, &id, &meta, &mut repairs.backoff).await;
            next = earliest(next, at);
        }
        // Before its first list, a watch does not prove that an object is missing.
        let has_listed = |kind: ItemKind| kind.watch().is_some_and(|watch| listed.contains(&watch));
        let is_known = |found: &DriftedObject| !found.is_missing || has_listed(found.write.id.kind);
        let (heals, leaves): (Vec<DriftedObject>, Vec<DriftedObject>) =
            drifted(&applied.items, &applied.view)
                .into_iter()
                .filter(is_known)
                .partition(|found| found.write.id.kind.is_healed(self.settings.drift));
        let leaves = leaves
            .into_iter()
            .map(|found| (found.write.id, found.write.reason));
        let unverified = applied.unverified.iter().cloned();
        repairs.log(
            home,
            leaves.chain(unverified.map(|id| (id, UNVERIFIED.to_owned()))),
            &self.counters,
        );
        for found in heals {
            next = earliest(next, self.try_repair(home, &applied, found, repairs).await);
        }
        next
    }

    /// Repairs an object if its back-off has elapsed. Returns the time of the next attempt.
    async fn try_repair(
        &self,
        home: &str,
        applied: &AppliedLease,
        found: DriftedObject,
        repairs: &mut RepairState,
    ) -> Option<Instant> {
        let (now, id) = (Instant::now(), found.write.id.clone());
        let (key, limit) = ((home.to_owned(), id.clone()), Limit::for_kind(id.kind));
        if let Some(at) = repairs.backoff.waits_until(&key, now) {
            return Some(at);
        }
        let repair = self.repair(home, applied, found);
        match self.counters.run(Operation::Repair, repair).await {
            Ok(None) => None,
            Ok(Some((repair, meta))) => {
                let is_conflict = repairs.backoff.repaired(&key, limit, now);
                repair.log(home, &id, is_conflict);
                self.counters.count_drift(id.kind, DriftOutcome::Repaired);
                // Otherwise the next comparison could find the old state and write the object again.
                self.until_seen(|| {
                    let view = self.state.lease_in(home);
                    let version = meta.resource_version.as_deref();
                    meta_of(&view, &id).is_some_and(|seen| is_as_new(seen, version))
                })
                .await;
                None
            }
            Err(error) => {
                repairs.backoff.failed(&key, limit, now);
                self.counters.count_drift(id.kind, DriftOutcome::Failed);
                tracing::warn!(namespace = home, object = %id, %error, "cannot restore a changed or deleted object of a lease, retrying");
                repairs.backoff.waits_until(&key, now)
            }
        }
    }

    /// Returns the desired objects of a completely applied lease.
    fn applied(
        &self,
        lease: &LeaseId,
        home: &str,
        view: LeaseView,
        repairs: &mut RepairState,
    ) -> Option<AppliedLease> {
        let namespace = view.namespace.clone()?;
        let manifest = view.manifest.clone();
        let is_left = |meta: &ObjectMeta| meta.deletion_timestamp.is_some() || self.is_of_other_chain(meta);
        if is_left(&namespace.metadata) || manifest.as_ref().is_some_and(|o| is_left(&o.metadata)) {
            return None;
        }
        if let Some(manifest) = manifest
            && let Some(deployment) = self.record_of(&view)
        {
            let applied = self.applied_items(&deployment, &manifest, Some(&namespace))?;
            repairs.records.insert(home.to_owned(), manifest);
            return Some(AppliedLease {
                view,
                namespace: marked(&applied.body, &applied.items),
                items: applied.items,
                mark: applied.mark,
                is_recorded: true,
                rules: None,
                unverified: BTreeSet::new(),
            });
        }
        self.unrecorded(lease, view, &namespace, repairs.records.get(home))
    }

    /// Derives the desired objects of a lease that has no Manifest record. `last` is the last record that
    /// this process read.
    fn unrecorded(
        &self,
        lease: &LeaseId,
        view: LeaseView,
        namespace: &Namespace,
        last: Option<&Arc<Manifest>>,
    ) -> Option<AppliedLease> {
        let mark = annotation(namespace, labels::APPLIED)?.clone();
        let rules = self.rules(lease, namespace, &view);
        let last = last.and_then(|manifest| {
            let recorded = convert::from_manifest(manifest).ok()?;
            self.applied_items(&recorded.deployment, manifest, Some(namespace))
        });
        let mut derived = rules.derive(&view);
        if last.is_some() {
            derived.retain(|derived| !derived.item.id.kind.is_isolation());
        }
        let unverified = derived.iter().filter(|derived| !derived.is_verified);
        let unverified = unverified.map(|derived| derived.item.id.clone()).collect();
        let is_recorded = last.is_some();
        let mut items = last.map(|applied| applied.items).unwrap_or_default();
        items.retain(|item| item.id.kind.is_isolation());
        items.extend(derived.into_iter().map(|derived| derived.item));
        Some(AppliedLease {
            view,
            items,
            mark,
            namespace: rules.namespace.clone(),
            is_recorded,
            rules: Some(rules),
            unverified,
        })
    }

    /// Returns the lease of `home`, a namespace without its lease labels and its Manifest record. An error
    /// contains the time at which the namespace is read again, or `None` if there is nothing to repair.
    async fn disowned(
        &self,
        home: &str,
        repairs: &mut RepairState,
    ) -> Result<(LeaseId, LeaseView), Option<Instant>> {
        let mut view = self.state.lease_in(home);
        // A removed lease leaves no objects.
        let Some(lease) = repairs.leases.get(home).cloned().filter(|_| !view.is_empty()) else {
            repairs.remove(home);
            return Err(None);
        };
        match self.unlabelled(home, repairs).await {
            Ok(namespace) => {
                view.namespace = Some(namespace);
                Ok((lease, view))
            }
            Err(next) => {
                if next.is_none() {
                    repairs.remove(home);
                }
                Err(next)
            }
        }
    }

    /// Reads a lease namespace that lost its label. An error contains the time of the next attempt, or `None`
    /// if the namespace does not exist.
    async fn unlabelled(
        &self,
        home: &str,
        repairs: &mut RepairState,
    ) -> Result<Arc<Namespace>, Option<Instant>> {
        let now = Instant::now();
        let key = home.to_owned();
        if let Some(at) = repairs.labels.waits_until(&key, now) {
            return Err(Some(at));
        }
        let resource = ApiResource::erase::<Namespace>(&());
        let read = self.calls(HEAL).get(&resource, "", home).await;
        if let Ok(Some(live)) = &read
            && let Ok(namespace) = live.clone().try_parse()
        {
            return Ok(Arc::new(namespace));
        }
        repairs.labels.failed(&key, Limit::Isolation, now);
        let Err(error) = read else { return Err(None) };
        tracing::warn!(namespace = home, %error, "cannot read the labels of the namespace of a lease, retrying");
        Err(repairs.labels.waits_until(&key, now))
    }

    /// Returns the recorded deployment of a lease, if the record is valid and unedited.
    fn record_of(&self, view: &LeaseView) -> Option<WorkloadSpec> {
        let recorded = convert::from_manifest(view.manifest.as_ref()?).ok()?;
        recorded.remarks.is_empty().then_some(recorded.deployment)
    }

    /// Restores the labels of a namespace. Returns the time of the next attempt.
    async fn heal_labels(
        &self,
        home: &str,
        applied: &AppliedLease,
        repairs: &mut RepairState,
    ) -> Option<Instant> {
        let (wanted, live) = (&applied.namespace, applied.view.namespace.as_deref()?);
        let path = subset::missing(wanted, &with_type(live), subset::Lists::Closed)?;
        let now = Instant::now();
        let key = home.to_owned();
        if let Some(at) = repairs.labels.waits_until(&key, now) {
            return Some(at);
        }
        let mut body = wanted.clone();
        body["metadata"]["uid"] = Value::from(live.metadata.uid.clone());
        match self.calls(HEAL).apply_namespace(home, &body).await {
            Ok(()) => {
                let is_conflict = repairs.labels.repaired(&key, Limit::Isolation, now);
                self.counters.count_namespace(DriftOutcome::Repaired);
                tracing::info!(
                    namespace = home,
                    path,
                    is_conflict,
                    "labels of the namespace of a lease restored"
                );
                self.until_seen(|| {
                    let view = self.state.lease_in(home);
                    let live = view.namespace.as_deref().map(with_type);
                    live.is_some_and(|live| subset::missing(wanted, &live, subset::Lists::Closed).is_none())
                })
                .await;
                None
            }
            Err(error) => {
                repairs.labels.failed(&key, Limit::Isolation, now);
                self.counters.count_namespace(DriftOutcome::Failed);
                tracing::warn!(namespace = home, path, %error, "cannot restore the labels of the namespace of a lease, retrying");
                repairs.labels.waits_until(&key, now)
            }
        }
    }

    /// Deletes a foreign object that weakens the isolation of a lease. Returns the time of the next attempt.
    async fn remove_foreign(
        &self,
        home: &str,
        id: &ObjectId,
        meta: &ObjectMeta,
        backoff: &mut RepairBackoff<(String, ObjectId)>,
    ) -> Option<Instant> {
        let now = Instant::now();
        let (key, limit) = ((home.to_owned(), id.clone()), Limit::for_kind(id.kind));
        if let Some(at) = backoff.waits_until(&key, now) {
            return Some(at);
        }
        match self.delete_foreign(&self.calls(HEAL), home, id, meta).await {
            Ok(()) => {
                backoff.repaired(&key, limit, now);
                self.counters.count_drift(id.kind, DriftOutcome::Deleted);
                None
            }
            Err(error) => {
                backoff.failed(&key, limit, now);
                self.counters.count_drift(id.kind, DriftOutcome::Failed);
                tracing::warn!(namespace = home, object = %id, %error, "cannot delete an object that another program created, retrying; the object can weaken the isolation of the lease");
                backoff.waits_until(&key, now)
            }
        }
    }

    /// Deletes one object that weakens the isolation of a lease.
    pub(crate) async fn delete_foreign(
        &self,
        calls: &KubeCalls,
        home: &str,
        id: &ObjectId,
        meta: &ObjectMeta,
    ) -> Result<(), Error> {
        let resource = id.kind.resource();
        let object = (&*resource.kind, home, &*id.name, meta.uid.as_deref());
        let act = deletion(
            ActKind::ObjectDelete,
            "weakens_isolation",
            self.subject(home),
            object,
        );
        let delete = calls.delete_version(&resource, home, meta);
        self.settings.deletions.record(act, delete).await?;
        // The label prevents such deletions.
        let label = labels::KEEP;
        tracing::warn!(namespace = home, object = %id, label, "deleted an object that another program created, because the object can weaken the isolation of the lease");
        Ok(())
    }

    /// Returns the lease of a namespace, or the namespace if its lease is unknown.
    pub(super) fn subject(&self, home: &str) -> String {
        let lease = self.state.ours_in(home).map(|(lease, _)| lease.to_string());
        lease.unwrap_or_else(|| home.to_owned())
    }

    /// Deletes objects that weaken the isolation of a lease. Also restores edited isolation objects of the
    /// kinds that a deploy does not compare.
    pub(super) async fn guard(
        &self,
        home: &str,
        items: &[Item],
        written: &[WrittenObject],
        operation: &'static str,
    ) -> Result<(), Error> {
        let (view, calls) = (self.state.lease_in(home), self.calls(operation));
        for (id, meta) in still_there(foreign(is_among(items), view.openings())) {
            self.delete_foreign(&calls, home, &id, &meta).await?;
        }
        for found in unplanned(items, &view) {
            let id = &found.write.id;
            // The caches may still hold an object that this deploy replaced.
            let is_outdated = written.iter().any(|write| {
                let meta = meta_of(&view, id).filter(|_| write.id == *id);
                meta.is_some_and(|meta| !is_as_new(meta, write.meta.resource_version.as_deref()))
            });
            if let Some(live) = view.find(id).filter(|_| !is_outdated) {
                write(&calls, home, &found.write, Some(&live)).await?;
            }
        }
        Ok(())
    }

    /// Reads an object from the API server and repairs the object. Returns `None` if no repair is needed.
    async fn repair(
        &self,
        home: &str,
        applied: &AppliedLease,
        found: DriftedObject,
    ) -> Result<Option<(Repair, ObjectMeta)>, Error> {
        // The semaphore is never closed.
        let _turn = self.leases.acquire().await.ok();
        let calls = self.calls(HEAL);
        let id = found.write.id.clone();
        let repair = if found.is_missing || found.has_other_hash {
            // A deploy removes the hash of the namespace before its first write and sets it after its last. With an
            // unchanged hash, no deploy deleted or wrote the object.
            let namespace = calls
                .metadata(&ApiResource::erase::<Namespace>(&()), "", home)
                .await?;
            if !namespace.is_some_and(|live| applied.is_marked(&live)) {
                return Ok(None);
            }
            Repair {
                live: applied.view.find(&id),
                write: found.write,
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
            // Only watches read these kinds. The patch sets desired values only, so an outdated view is harmless.
            Repair {
                live: applied.view.find(&id),
                write: found.write,
                by: None,
            }
        };
        let meta = match write(&calls, home, &repair.write, repair.live.as_ref()).await {
            Ok(meta) => meta,
            // A concurrent write; the watches will show it.
            Err(error) if error.kind() == ErrorKind::Conflict => return Ok(None),
            Err(error) => return Err(error),
        };
        self.report_written(&[WrittenObject {
            id,
            meta: meta.clone(),
        }]);
        Ok(Some((repair, meta)))
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// Restores or creates one object. A RoleBinding with a wrong role is created again, because Kubernetes does
/// not permit a change of the role.
pub(super) async fn write(
    calls: &KubeCalls,
    home: &str,
    write: &ObjectWrite,
    live: Option<&LiveObject>,
) -> Result<ObjectMeta, Error> {
    let (id, body) = (&write.id, &write.body);
    let is_other_role =
        live.filter(|live| id.kind == ItemKind::RoleBinding && body["roleRef"] != live.body["roleRef"]);
    if let Some(live) = is_other_role {
        let text = |field: &str| live.body["metadata"][field].as_str().map(str::to_owned);
        let meta = ObjectMeta {
            name: Some(id.name.clone()),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        calls.delete_version(&id.kind.resource(), home, &meta).await?;
        return calls.apply(&id.kind.resource(), home, &id.name, body).await;
    }
    match &write.patch {
        Some(patch) => calls.restore(&id.kind.resource(), home, &id.name, patch).await,
        None => calls.apply(&id.kind.resource(), home, &id.name, body).await,
    }
}

//! What others change of a lease that we applied is put right when the watches show it.
//!
//! ```text
//! touched ─► dirty leases, one at a time ─► foreign, found (caches) ─► Drift, Calm ─► is it so? (live) ─► patch
//! ```
//!
//! A lease is left alone unless it was deployed at this process's word, nobody is writing it, and the mark of its
//! namespace shows that exactly this was applied to its end. All else is for the next deploy. Isolation comes first. The
//! isolation of a lease without a readable record is restored by the last record that this process read, and all else
//! by what follows without one (`unrecorded`).

mod applied;
mod memory;

use self::applied::{Applied, Repair, still_there};
use self::memory::Memory;
use super::deploy::{annotation, with_type};
use super::differences::{meta_of, unplanned};
use super::lanes::Entry;
use super::{Inner, KubeCluster, LeadershipGate, is_as_new};
use crate::apply::item::{Id, Item, Kind};
use crate::apply::plan::{Live, Watched, Write};
use crate::apply::{Calls, Written, marked, subset};
use crate::crd::{Manifest, convert};
use crate::drift::{Calm, Found, Limit, foreign, found, is_among};
use crate::labels;
use crate::state::{EVERYWHERE, LeaseView};
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::error::{Error, ErrorKind};
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
/// Changes are gathered for so long, so that a lease is looked at once for many of them.
const GATHER: Duration = Duration::from_millis(20);
/// Wait for a lease that is being written, or while the cluster is not being watched.
const AGAIN: Duration = Duration::from_secs(1);

/// Why an object is named that no rule restores as a whole.
const UNVERIFIED: &str = "the record is missing, and some of its fields are only in that";

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
            memory.labels.forget(Instant::now());
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
                memory.logged.remove(home);
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
        for (id, meta) in applied.foreign() {
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
        let leaves = leaves
            .into_iter()
            .map(|found| (found.write.id, found.write.reason));
        let unverified = applied.unverified.iter().cloned();
        memory.log(
            home,
            leaves.chain(unverified.map(|id| (id, UNVERIFIED.to_owned()))),
        );
        for found in heals {
            if !memory.is_outdated(home, &found.write.id, &applied.view) {
                next = earliest(next, self.try_repair(home, &applied, found, memory).await);
            }
        }
        next
    }

    /// Repairs an object unless its back-off forbids it. Returns the time of the next try.
    async fn try_repair(
        &self,
        home: &str,
        applied: &Applied,
        found: Found,
        memory: &mut Memory,
    ) -> Option<Instant> {
        let (now, id) = (Instant::now(), found.write.id.clone());
        let (key, limit) = ((home.to_owned(), id.clone()), Limit::of(id.kind));
        if let Some(at) = memory.calm.waits_until(&key, now) {
            return Some(at);
        }
        match self.repair(home, applied, found).await {
            Ok(None) => None,
            Ok(Some((repair, meta))) => {
                let is_fight = memory.calm.repaired(&key, limit, now);
                repair.tell(home, &id, is_fight);
                let versions = memory.repaired.entry(home.to_owned()).or_default();
                versions.insert(id, meta.resource_version);
                None
            }
            Err(error) => {
                memory.calm.failed(&key, limit, now);
                tracing::warn!(namespace = home, object = %id, %error, "what others changed is not put right yet");
                memory.calm.waits_until(&key, now)
            }
        }
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
                namespace: marked(&applied.body, &applied.items),
                items: applied.items,
                mark: applied.mark,
                is_recorded: true,
                rules: None,
                unverified: BTreeSet::new(),
            });
        }
        self.unrecorded(view, &namespace, memory.records.get(home))
    }

    /// What is certain of a lease without its record; `last` is the last one.
    fn unrecorded(
        &self,
        view: LeaseView,
        namespace: &Namespace,
        last: Option<&Arc<Manifest>>,
    ) -> Option<Applied> {
        let lease = labels::lease_of(namespace.metadata.labels.as_ref()?)?;
        let mark = annotation(namespace, labels::APPLIED)?.clone();
        let rules = self.rules(&lease, namespace, &view);
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
        Some(Applied {
            view,
            items,
            mark,
            namespace: rules.namespace.clone(),
            is_recorded,
            rules: Some(rules),
            unverified,
        })
    }

    /// Reads the namespace of a lease that no watch shows, because it lost its label. Returns the time of the next try
    /// as the error, if there is no such namespace.
    async fn unlabelled(&self, home: &str, memory: &mut Memory) -> Result<Arc<Namespace>, Option<Instant>> {
        let now = Instant::now();
        let key = home.to_owned();
        if let Some(at) = memory.labels.waits_until(&key, now) {
            return Err(Some(at));
        }
        let resource = ApiResource::erase::<Namespace>(&());
        let read = self.calls(HEAL).get(&resource, "", home).await;
        if let Ok(Some(live)) = &read
            && let Ok(namespace) = live.clone().try_parse()
        {
            return Ok(Arc::new(namespace));
        }
        memory.labels.failed(&key, Limit::Isolation, now);
        let Err(error) = read else { return Err(None) };
        tracing::warn!(namespace = home, %error, "cannot read namespace");
        Err(memory.labels.waits_until(&key, now))
    }

    /// What is recorded of a lease, where the record can be read and has no other writer.
    fn record_of(&self, view: &LeaseView, home: &str) -> Option<WorkloadSpec> {
        let recorded = convert::from_manifest(view.manifest.as_ref()?).ok()?;
        let is_named = recorded.deployment.lease.namespace() == home;
        (recorded.remarks.is_empty() && is_named).then_some(recorded.deployment)
    }

    /// Restores the labels of a namespace. Returns the time of the next try.
    async fn heal_labels(&self, home: &str, applied: &Applied, memory: &mut Memory) -> Option<Instant> {
        let (wanted, live) = (&applied.namespace, applied.view.namespace.as_deref()?);
        let path = subset::missing(wanted, &with_type(live), subset::Lists::Closed)?;
        let now = Instant::now();
        let key = home.to_owned();
        if let Some(at) = memory.labels.waits_until(&key, now) {
            return Some(at);
        }
        let mut body = wanted.clone();
        body["metadata"]["uid"] = Value::from(live.metadata.uid.clone());
        match self.calls(HEAL).apply_namespace(home, &body).await {
            Ok(()) => {
                let is_fight = memory.labels.repaired(&key, Limit::Isolation, now);
                tracing::info!(namespace = home, path, is_fight, "namespace restored");
                self.until_seen(|| {
                    let view = self.state.lease_in(home);
                    let live = view.namespace.as_deref().map(with_type);
                    live.is_some_and(|live| subset::missing(wanted, &live, subset::Lists::Closed).is_none())
                })
                .await;
                None
            }
            Err(error) => {
                memory.labels.failed(&key, Limit::Isolation, now);
                tracing::warn!(namespace = home, path, %error, "cannot restore namespace");
                memory.labels.waits_until(&key, now)
            }
        }
    }

    /// Deletes an object that opens a lease and was not rendered. Returns the time of the next try.
    async fn remove_foreign(
        &self,
        home: &str,
        id: &Id,
        meta: &ObjectMeta,
        calm: &mut Calm<(String, Id)>,
    ) -> Option<Instant> {
        let now = Instant::now();
        let (key, limit) = ((home.to_owned(), id.clone()), Limit::of(id.kind));
        if let Some(at) = calm.waits_until(&key, now) {
            return Some(at);
        }
        match self.calls(HEAL).delete_version(id.kind, home, meta).await {
            Ok(()) => {
                calm.repaired(&key, limit, now);
                let label = labels::KEEP;
                tracing::warn!(namespace = home, object = %id, label, "object deleted, not part of the lease");
                None
            }
            Err(error) => {
                calm.failed(&key, limit, now);
                tracing::warn!(namespace = home, object = %id, %error, "cannot delete object that opens the lease");
                calm.waits_until(&key, now)
            }
        }
    }

    /// Restores isolation that no deploy compares.
    pub(super) async fn guard(
        &self,
        home: &str,
        items: &[Item],
        written: &[Written],
        operation: &'static str,
    ) -> Result<(), Error> {
        let (view, calls) = (self.state.lease_in(home), self.calls(operation));
        for (id, meta) in still_there(foreign(is_among(items), view.openings())) {
            tracing::warn!(namespace = home, object = %id, "object deleted, not part of the lease");
            calls.delete_version(id.kind, home, &meta).await?;
        }
        for found in unplanned(items, &view) {
            let id = &found.write.id;
            // The caches may still have what this deploy replaced.
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

    /// Asks the API server whether it is so, and puts it right. `None` where it is not, or not any more.
    async fn repair(
        &self,
        home: &str,
        applied: &Applied,
        found: Found,
    ) -> Result<Option<(Repair, ObjectMeta)>, Error> {
        // Closed never: the semaphore lives as long as we do.
        let _turn = self.leases.acquire().await.ok();
        let calls = self.calls(HEAL);
        let id = found.write.id.clone();
        let repair = if found.is_missing || found.has_other_hash {
            // A deploy takes the mark off before its first write, and sets it after its last: where the mark is as it was,
            // no deploy deleted the object or wrote it.
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
        self.tell(&[Written {
            id,
            meta: meta.clone(),
        }]);
        Ok(Some((repair, meta)))
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

//! What others change of a lease that we applied is put right when the watches show it.
//!
//! ```text
//! touched ─► dirty leases, one at a time ─► found (caches) ─► Drift, Calm ─► is it so? (live) ─► apply
//! ```
//!
//! A lease is left alone unless it was deployed at this process's word, nobody is writing it, and the mark of its
//! namespace says that exactly this was applied to its end. All else is for the next deploy.

use super::deploy::with_type;
use super::lanes::Entry;
use super::{Inner, KubeCluster, LeadershipGate};
use crate::apply::item::{Id, Item};
use crate::apply::plan::{Live, Watched};
use crate::apply::{MANAGER, Written};
use crate::crd::convert;
use crate::drift::{Calm, FIGHT, Found, found};
use crate::labels;
use crate::state::{EVERYWHERE, LeaseView};
use akash_provider_core::error::{Error, ErrorKind};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep, sleep_until};

const HEAL: &str = "heal";
/// Changes are gathered for so long, so that a lease is looked at once for many of them.
const GATHER: Duration = Duration::from_millis(20);
/// Wait for a lease that is being written, or while the cluster is not being watched.
const AGAIN: Duration = Duration::from_secs(1);

/// What is remembered between looks.
#[derive(Debug, Default)]
struct Memory {
    calm: Calm,
    /// Leases that are to be looked at again without a change.
    later: BTreeMap<String, Instant>,
    /// What is told and left alone.
    told: BTreeMap<String, BTreeSet<Id>>,
}

/// A lease as it is to be, applied to its end.
struct Applied {
    view: LeaseView,
    items: Vec<Item>,
    mark: String,
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
        let _lane = match self.lanes.try_enter(home) {
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
        let applied = self.applied(home)?;
        let (heals, leaves): (Vec<Found>, Vec<Found>) = found(&applied.items, &applied.view)
            .into_iter()
            .partition(|found| self.settings.drift.heals(found.write.id.kind));
        memory.tell(home, leaves);
        let mut next: Option<Instant> = None;
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
            next = Some(next.map_or(at, |next| next.min(at)));
        }
        next
    }

    /// What a lease is to be, where everything of it was applied by us and nobody wrote to its record.
    fn applied(&self, home: &str) -> Option<Applied> {
        let view = self.state.ours_in(home)?;
        let (manifest, namespace) = (view.manifest.clone()?, view.namespace.clone()?);
        let is_going = |meta: &ObjectMeta| meta.deletion_timestamp.is_some();
        if !self.is_ours(&manifest) || is_going(&manifest.metadata) || is_going(&namespace.metadata) {
            return None;
        }
        let recorded = convert::from_manifest(&manifest).ok()?;
        let is_named = recorded.deployment.lease.namespace() == home;
        if !recorded.remarks.is_empty() || !is_named {
            return None;
        }
        let lease = &recorded.deployment.lease;
        self.check_holder(lease, &namespace.metadata, "namespace", HEAL)
            .ok()?;
        let (items, mark) = self.applied_items(&recorded.deployment, &manifest, Some(&namespace))?;
        Some(Applied { view, items, mark })
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
                reason: found.write.reason,
                by: None,
                take_over: false,
                body: found.write.body,
            }
        } else {
            let Some(live) = calls.get(&id.kind.resource(), home, &id.name).await? else {
                return Ok(None);
            };
            let Some(repair) = applied.repair_of(&id, &live) else {
                return Ok(None);
            };
            repair
        };
        if repair.take_over {
            calls.take_over(id.kind, home, &id.name).await?;
        }
        let meta = match calls.apply(id.kind, home, &id.name, &repair.body).await {
            Ok(meta) => meta,
            // Somebody wrote meanwhile; the watches show what.
            Err(error) if error.kind() == ErrorKind::Conflict => return Ok(None),
            Err(error) => return Err(error),
        };
        self.tell(&[Written { id, meta }]);
        Ok(Some(repair))
    }
}

/// What puts an object right, of which the API server says that it is not.
struct Repair {
    reason: String,
    /// Who wrote to it last besides us, as far as the API server says.
    by: Option<String>,
    /// Its fields are another manager's and become ours first.
    take_over: bool,
    body: Value,
}

impl Repair {
    fn tell(&self, home: &str, id: &Id, is_fight: bool) {
        let (reason, by) = (&self.reason, self.by.as_deref().unwrap_or("somebody"));
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
        let seen = One(Live {
            uid: meta.uid.clone().unwrap_or_default(),
            is_deleting: meta.deletion_timestamp.is_some(),
            body: with_type(live),
        });
        let write = found(std::slice::from_ref(item), &seen).pop()?.write;
        let mut body = write.body;
        body["metadata"]["uid"] = Value::from(meta.uid.clone());
        // Another manager's fields are moved first, which makes a version of its own.
        if !write.take_over {
            body["metadata"]["resourceVersion"] = Value::from(meta.resource_version.clone());
        }
        let others = meta.managed_fields.iter().flatten().filter(|entry| {
            let is_spec = entry.subresource.as_deref().unwrap_or_default().is_empty();
            is_spec && entry.manager.as_deref() != Some(MANAGER)
        });
        Some(Repair {
            reason: write.reason,
            by: others
                .max_by_key(|entry| entry.time.clone())
                .and_then(|entry| entry.manager.clone()),
            take_over: write.take_over,
            body,
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

//! The engine's side of leases: workloads and money, from the first to the last moment.

use super::deployment::Origin;
use super::escrow::{self, Escrow};
use super::input::{Refusal, RefusalKind, Reply, Response};
use super::table::Lane;
use super::workload::{Action, ChainLane, Heard, HeardBy, Input, Workload};
use super::{EffectId, Engine, Target, breaker, deployment};
use crate::cluster::{ClusterChange, Deployment, Health};
use crate::types::{
    Address, BlockTime, CloseReason, DeploymentId, DeploymentRecord, Event, Height, Lease, LeaseId,
    LeaseRecord, Payment, Reclamation,
};
use std::sync::Arc;
use std::time::Duration;

/// After a restart the first look at each deployment's money is spread over this much block time.
const CHECK_SPREAD_S: u64 = 60;

/// What is known of a new lease.
#[derive(Debug)]
pub(super) struct NewLease<'a> {
    pub(super) id: &'a LeaseId,
    pub(super) price: &'a crate::types::DecCoin,
    pub(super) reclamation: Option<Reclamation>,
    pub(super) created: BlockTime,
    pub(super) payment: Option<&'a Payment>,
    pub(super) settled_at: Option<Height>,
    /// How it came, where that is news; one that was there before us is adopted, and the cluster may have its manifest.
    pub(super) news: Option<Origin>,
}

impl Engine {
    /// An event says that our bid won.
    pub(super) fn lease_won(&mut self, id: &LeaseId, price: &crate::types::DecCoin, origin: Origin) {
        let window = self.config.reclamation_window;
        let reclamation = window.map(|window| Reclamation {
            window,
            deadline: None,
            reason: None,
        });
        let created = self.progress.block_time();
        let new = NewLease {
            id,
            price,
            reclamation,
            created,
            payment: None,
            settled_at: None,
            news: Some(origin),
        };
        self.lease_new(&new);
        self.won.push((id.clone(), self.progress.height() + 1));
    }

    /// The block that leases were won in is complete: the time they have for a manifest starts with it.
    pub(super) fn start_manifest_clocks(&mut self) {
        let Some(timeout) = self.config.manifest_timeout else {
            return self.won.clear();
        };
        let deadline = Some(self.progress.block_time().plus(timeout));
        for (lease, height) in std::mem::take(&mut self.won) {
            // One that is in doubt has its time too: its record may show that it lives.
            if self.workload(&lease).is_none() {
                continue;
            }
            if height > self.progress.height() {
                self.won.push((lease, height));
            } else {
                self.tell_deployment(&lease, deadline, Origin::Won);
            }
        }
    }

    /// A record says that a lease is ours; nothing happens when it is known. It is news when its event is still to come,
    /// and adopted when it was there before us.
    pub(super) fn lease_found(
        &mut self,
        record: &LeaseRecord,
        deployment: Option<&DeploymentRecord>,
        at: BlockTime,
        news: Option<Origin>,
    ) {
        let Lease {
            id,
            price,
            reclamation,
            ..
        } = &record.lease;
        let new = NewLease {
            id,
            price,
            reclamation: reclamation.clone(),
            created: at,
            payment: record.payment.as_ref(),
            settled_at: deployment.map(|d| d.escrow.settled_at),
            news,
        };
        self.lease_new(&new);
    }

    fn lease_new(&mut self, new: &NewLease<'_>) {
        let id = new.id;
        if self.workload(id).is_some_and(|w| w.price().is_some()) {
            return;
        }
        if !self.reservations.contains(&id.order) {
            // Nothing is known of what it holds yet; a full scan brings the bid's offer.
            self.reservations.adopt_unread(&id.order);
            self.scan.soon();
        }
        self.reservations.mark_active(&id.order);
        self.changes += 1;
        let before = self.workloads.remove(id);
        let machine = Workload::leased(id, new.price, new.reclamation.clone());
        self.workloads.insert(id, machine);
        // It ran already, as a workload of which no lease was known.
        if let Some(deployment) = before.as_ref().and_then(Workload::deployment) {
            self.drive_workload(id, Input::Adopt(Arc::clone(deployment)));
        }
        let (lease, price) = (id.clone(), new.price.clone());
        self.publish(match new.news {
            None => Event::LeaseAdopted { lease, price },
            Some(_) => Event::LeaseWon { lease, price },
        });
        self.money_of(new);
        self.deployment_slot(id.deployment());
        let origin = new.news.unwrap_or(Origin::Found);
        if origin == Origin::Found && !self.has_manifest(id) {
            // A list under way may be older than the lease.
            self.scan.doubt_cluster();
        }
        self.tell_deployment(id, None, origin);
    }

    /// The record of a lease says when it began. It counts for one that was won here: of one that was found, only
    /// a look at the cluster says whether a manifest is missing.
    pub(super) fn manifest_clock(&mut self, id: &LeaseId, began: BlockTime) {
        let deadline = self.config.manifest_timeout.map(|timeout| began.plus(timeout));
        self.tell_deployment(id, deadline, Origin::Found);
    }

    /// Makes a lease known to its deployment.
    fn tell_deployment(&mut self, id: &LeaseId, deadline: Option<BlockTime>, origin: Origin) {
        let origin = if self.has_manifest(id) {
            Origin::Kept
        } else {
            origin
        };
        let added = deployment::Input::LeaseAdded {
            lease: id.clone(),
            deadline,
            origin,
        };
        self.drive_deployment(id.deployment(), added);
    }

    pub(super) fn has_manifest(&self, id: &LeaseId) -> bool {
        self.workload(id).is_some_and(|w| w.deployment().is_some())
    }

    fn money_of(&mut self, new: &NewLease<'_>) {
        let config = Arc::clone(&self.config);
        let cx = self.cx(&config);
        let due = escrow::payout_due(&cx, new.payment, new.settled_at, new.created);
        let spread = Duration::from_secs(new.id.deployment().dseq % CHECK_SPREAD_S);
        let check_at = if new.news.is_none() {
            self.progress.block_time().plus(spread)
        } else {
            self.progress.block_time()
        };
        let id = new.id.deployment();
        if !self.escrows.contains(id) {
            self.escrows.insert(id, Escrow::new(id, check_at));
        }
        self.drive_escrow(
            id,
            escrow::Input::LeaseAdded {
                lease: new.id.clone(),
                due,
                check_at,
            },
        );
    }

    /// Feeds one input to one workload; nothing happens where there is none.
    pub(super) fn drive_workload(&mut self, id: &LeaseId, input: Input) {
        let config = Arc::clone(&self.config);
        let cx = self.cx(&config);
        let Some(actions) = self.workloads.drive(&cx, id, input) else {
            return;
        };
        self.changes += 1;
        for action in actions {
            match action {
                Action::Cluster(call) => {
                    let effect = self.call(Target::WorkloadCluster(id.clone()), call);
                    self.workloads.sent(id, Lane::Main, effect);
                }
                Action::Chain(call) => {
                    let effect = self.call(Target::WorkloadChain(id.clone()), call);
                    self.workloads.sent(id, Lane::Chain, effect);
                }
                Action::AskBreaker => self.ask_breaker(id),
                Action::CancelBreaker => self.breaker.cancel(id),
                Action::Publish(event) => self.publish(event),
                Action::Found(record) => {
                    let at = self.progress.block_time();
                    self.lease_found(&record, None, at, None);
                }
                Action::Forget(reason) => self.lease_forget(id, reason),
                Action::Unexpected => self.outbox.count_unexpected(),
            }
        }
    }

    /// A completion of one of a workload's two lanes; late ones are dropped.
    pub(super) fn workload_completed(&mut self, id: &LeaseId, effect: EffectId, lane: Lane, input: Input) {
        if self.workloads.answered(id, lane, effect) {
            self.drive_workload(id, input);
        }
    }

    fn ask_breaker(&mut self, id: &LeaseId) {
        let leases = self.workloads.len();
        let is_over = self
            .workload(id)
            .is_some_and(|w| matches!(w.chain_lane(), ChainLane::Confirmed { .. }));
        let wanted = breaker::Wanted {
            lease: id,
            is_over,
            destroys_nothing: self.destroys_nothing(id),
        };
        match self
            .breaker
            .ask(&self.config, self.progress.mono(), leases, &wanted)
        {
            breaker::Pass::Granted => self.drive_workload(id, Input::Granted),
            breaker::Pass::Held => {}
            breaker::Pass::Tripped(wanted) => self.publish(Event::BreakerTripped { wanted }),
            breaker::Pass::TrippedFor(wanted) => {
                let owner = id.owner().clone();
                self.publish(Event::BreakerTrippedFor { owner, wanted });
            }
        }
    }

    /// It ends for want of a manifest, and there never was anything of it here.
    fn destroys_nothing(&self, id: &LeaseId) -> bool {
        let for_want = |w: &Workload| {
            let reason = w.ending().map(|e| e.reason);
            reason == Some(CloseReason::ManifestTimeout) && w.deployment().is_none()
        };
        let machine = self.deployments.get(id.deployment());
        let cx = self.cx(&self.config);
        self.workload(id).is_some_and(for_want) && machine.is_some_and(|m| m.is_bare(&cx, id))
    }

    /// The first minutes after the start are over: whoever asked meanwhile asks again.
    pub(super) fn drive_breaker(&mut self) {
        for id in self.breaker.take_due(self.progress.mono()) {
            self.changes += 1;
            self.ask_breaker(&id);
        }
    }

    /// Releases the breaker by command; what waited goes on.
    pub(super) fn release_breaker(&mut self) {
        let waiting = self.breaker.release();
        self.publish(Event::BreakerReleased);
        for id in waiting {
            self.drive_workload(&id, Input::Granted);
        }
    }

    /// The same for one owner; refused when it was not shut for him alone.
    pub(super) fn release_breaker_for(&mut self, owner: &Address) -> Response {
        let Some(waiting) = self.breaker.release_owner(self.progress.mono(), owner) else {
            let message = format!("the circuit breaker is not shut for {owner} alone");
            let kind = RefusalKind::Rejected;
            return Err(Refusal { kind, message });
        };
        let owner = owner.clone();
        self.publish(Event::BreakerReleasedFor { owner });
        for id in waiting {
            self.drive_workload(&id, Input::Granted);
        }
        Ok(Reply::Done)
    }

    fn lease_forget(&mut self, id: &LeaseId, reason: Option<CloseReason>) {
        self.changes += 1;
        self.workloads.remove(id);
        self.breaker.cancel(id);
        self.withheld.forget(id);
        self.reservations.unreserve(&id.order);
        self.market.capacity_freed();
        let freed = self.hostnames.release(id);
        self.hostnames_freed(&freed);
        let lease = id.clone();
        self.drive_deployment(id.deployment(), deployment::Input::LeaseRemoved(lease.clone()));
        self.drive_escrow(id.deployment(), escrow::Input::LeaseRemoved(lease.clone()));
        self.publish(Event::LeaseClosed { lease, reason });
    }

    /// The chain's own event, or a scan, says that a lease of ours is over.
    pub(super) fn lease_over(&mut self, id: &LeaseId, by: HeardBy, reason: Option<CloseReason>) {
        let heard = Heard {
            height: self.progress.height(),
            since: self.progress.mono(),
            by,
            reason,
        };
        self.drive_workload(id, Input::Heard(heard));
    }

    /// Feeds one input to one deployment's money; nothing happens where there is none.
    pub(super) fn drive_escrow(&mut self, id: &DeploymentId, input: escrow::Input) {
        let config = Arc::clone(&self.config);
        let cx = self.cx(&config);
        let Some(actions) = self.escrows.drive(&cx, id, input) else {
            return;
        };
        for action in actions {
            match action {
                escrow::Action::Call(call) => {
                    let effect = self.call(Target::Escrow(id.clone()), call);
                    self.escrows.sent(id, Lane::Main, effect);
                }
                escrow::Action::Publish(event) => self.publish(event),
                escrow::Action::Unexpected => self.outbox.count_unexpected(),
            }
        }
    }

    /// A completion of a call about money; late ones are dropped.
    pub(super) fn escrow_completed(&mut self, id: &DeploymentId, effect: EffectId, input: escrow::Input) {
        if self.escrows.answered(id, Lane::Main, effect) {
            self.drive_escrow(id, input);
        }
    }

    /// The cluster said something about health.
    pub(super) fn cluster_changed(&mut self, change: ClusterChange) {
        match change {
            ClusterChange::Health { lease, health } => self.drive_workload(&lease, Input::Health(health)),
            ClusterChange::Snapshot { health } => {
                self.scan.cluster_answers(self.progress.mono());
                let lost = |(id, workload): (&LeaseId, &Workload)| {
                    workload.is_live() && workload.generation() > 0 && !health.contains_key(id)
                };
                if self.progress.cluster_known() && self.workloads.iter().any(lost) {
                    self.scan.look_soon(self.progress.mono());
                }
                for id in self.workloads.ids() {
                    // Known not to run is known to be unhealthy; the machine counts it once it was deployed.
                    let health = health.get(&id).copied().unwrap_or(Health::Bad);
                    self.drive_workload(&id, Input::Health(health));
                }
            }
            ClusterChange::Lost => {
                for id in self.workloads.ids() {
                    self.drive_workload(&id, Input::Health(Health::Unknown));
                }
            }
        }
    }

    /// The cluster has this from before, or from another leader (`fresh`: then it counts, whatever was to run).
    /// What it may be for is known from the chain.
    pub(super) fn workload_found(&mut self, deployment: &Arc<Deployment>, fresh: bool) {
        let id = &deployment.lease;
        let unknown = !self.workloads.contains(id);
        if unknown {
            self.workloads.insert(id, Workload::orphan(id));
        } else {
            self.reservations.set_params(&id.order, &deployment.params);
        }
        let adopted = self.with_held_names(deployment);
        let input = if fresh {
            Input::Relearn(adopted)
        } else {
            Input::Adopt(adopted)
        };
        self.drive_workload(id, input);
        if unknown {
            return self.lease_over(id, HeardBy::Scan, None);
        }
        self.tell_deployment(id, None, Origin::Kept);
    }
}

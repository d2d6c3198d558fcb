//! The engine's side of workloads, from the first to the last moment, and of the circuit breaker.

use super::workload::{Action, Heard, HeardBy, Input, Workload};
use super::{breaker, deployment, escrow};
use crate::cluster::{ClusterChange, Health, Outage, WorkloadSpec};
use crate::engine::input::{Refusal, RefusalKind, Reply, Response};
use crate::engine::table::Lane;
use crate::engine::{EffectId, Engine, Target};
use crate::kept::Kept;
use crate::types::{Address, CloseReason, Event, LeaseId};
use deployment::Origin;
use std::sync::Arc;

impl Engine {
    /// Feeds one input to one workload; nothing happens where there is none.
    pub(in crate::engine) fn drive_workload(&mut self, id: &LeaseId, input: Input) {
        let config = Arc::clone(&self.config);
        let cx = self.cx(&config);
        let Some(actions) = self.leases.workloads.drive(&cx, id, input) else {
            return;
        };
        self.changes += 1;
        for action in actions {
            match action {
                Action::Cluster(call) => {
                    let effect = self.call(Target::WorkloadCluster(id.clone()), call);
                    self.leases.workloads.sent(id, Lane::Main, effect);
                }
                Action::Chain(call) => {
                    let effect = self.call(Target::WorkloadChain(id.clone()), call);
                    self.leases.workloads.sent(id, Lane::Chain, effect);
                }
                Action::AskBreaker => self.ask_breaker(id),
                Action::CancelBreaker => self.leases.breaker.cancel(id),
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
    pub(in crate::engine) fn workload_completed(
        &mut self,
        id: &LeaseId,
        effect: EffectId,
        lane: Lane,
        input: Input,
    ) {
        if lane == Lane::Main {
            self.scan.wrote(id);
        }
        if self.leases.workloads.answered(id, lane, effect) {
            self.drive_workload(id, input);
        }
    }

    fn ask_breaker(&mut self, id: &LeaseId) {
        let leases = self.leases.workloads.len();
        let is_over = self.has_ended(id);
        let wanted = breaker::Wanted {
            lease: id,
            is_over,
            destroys_nothing: self.destroys_nothing(id),
        };
        let now = self.progress.now();
        let awaited = self.leases.breaker.awaits_release(id);
        let pass = self.leases.breaker.ask(&self.config, now, leases, &wanted);
        match pass {
            breaker::Pass::Granted => self.drive_workload(id, Input::Granted),
            breaker::Pass::Held => {}
            breaker::Pass::Tripped(wanted) => self.publish(Event::BreakerTripped { wanted }),
            breaker::Pass::TrippedFor(wanted) => {
                let owner = id.owner().clone();
                self.publish(Event::BreakerTrippedFor { owner, wanted });
            }
        }
        let breaker = &self.leases.breaker;
        if !awaited
            && breaker.awaits_release(id)
            && let Some(message) = breaker.waits_because(now.mono, id)
        {
            let lease = id.clone();
            self.publish(Event::EndHeld { lease, message });
        }
    }

    /// It ends for want of a manifest, and there never was anything of it here.
    fn destroys_nothing(&self, id: &LeaseId) -> bool {
        let for_want = |w: &Workload| {
            let reason = w.ending().map(|e| e.reason);
            reason == Some(CloseReason::ManifestTimeout) && w.deployment().is_none()
        };
        let machine = self.leases.deployments.get(id.deployment());
        let cx = self.cx(&self.config);
        self.workload(id).is_some_and(for_want) && machine.is_some_and(|m| m.is_bare(&cx, id))
    }

    /// The first minutes after the start are over: whoever asked meanwhile asks again.
    pub(in crate::engine) fn drive_breaker(&mut self) {
        for id in self.leases.breaker.take_due(self.progress.mono()) {
            self.changes += 1;
            self.ask_breaker(&id);
        }
    }

    /// Releases the breaker by command; what waited goes on.
    pub(in crate::engine) fn release_breaker(&mut self) {
        let waiting = self.leases.breaker.release();
        self.publish(Event::BreakerReleased);
        for id in waiting {
            self.drive_workload(&id, Input::Granted);
        }
    }

    /// The breaker is as was kept; what changes by that is told, so that everybody who keeps it hears it.
    pub(in crate::engine) fn remind(&mut self, kept: &Kept) {
        let breaker = &mut self.leases.breaker;
        let (was_tripped, mut were_held) = (breaker.is_tripped(), breaker.held_owners().clone());
        breaker.remind(kept.breaker_tripped, kept.breaker_held_owners.clone());
        let (is_tripped, are_held) = (breaker.is_tripped(), breaker.held_owners().clone());
        if was_tripped && !is_tripped {
            self.publish(Event::BreakerReleased);
            were_held.clear();
        }
        for owner in were_held.difference(&are_held) {
            self.publish(Event::BreakerReleasedFor { owner: owner.clone() });
        }
        for owner in are_held.difference(&were_held) {
            self.publish(Event::BreakerTrippedFor {
                owner: owner.clone(),
                wanted: 0,
            });
        }
        if is_tripped && !was_tripped {
            self.publish(Event::BreakerTripped { wanted: 0 });
        }
    }

    /// The same for one owner; refused when it was not shut for him alone.
    pub(in crate::engine) fn release_breaker_for(&mut self, owner: &Address) -> Response {
        let Some(waiting) = self.leases.breaker.release_owner(self.progress.mono(), owner) else {
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
        // First, so that nothing of what follows finds it.
        self.leases.workloads.remove(id);
        self.leases.breaker.cancel(id);
        self.leases.withheld.forget(id);
        // Not before this moment: what was torn down is gone, or is left to the leader to tear down.
        self.reservations.unreserve(&id.order);
        self.market.capacity_freed();
        let freed = self.leases.hostnames.release(id);
        self.hostnames_freed(&freed);
        let lease = id.clone();
        self.drive_deployment(id.deployment(), deployment::Input::LeaseRemoved(lease.clone()));
        self.drive_escrow(id.deployment(), escrow::Input::LeaseRemoved(lease.clone()));
        self.publish(Event::LeaseClosed { lease, reason });
    }

    /// The chain's own event, or a scan, says that a lease of ours is over.
    pub(in crate::engine) fn lease_over(&mut self, id: &LeaseId, by: HeardBy, reason: Option<CloseReason>) {
        let heard = Heard {
            height: self.progress.height(),
            since: self.progress.mono(),
            by,
            reason,
        };
        self.drive_workload(id, Input::Heard(heard));
    }

    /// The cluster said something about health.
    pub(in crate::engine) fn cluster_changed(&mut self, change: ClusterChange) {
        match change {
            ClusterChange::Health { lease, health } => self.drive_workload(&lease, Input::Health(health)),
            ClusterChange::Snapshot { health } => {
                self.scan.cluster_answers(self.progress.mono());
                let lost = |(id, workload): (&LeaseId, &Workload)| {
                    workload.is_live() && workload.generation() > 0 && !health.contains_key(id)
                };
                // It was deployed and is not there: the cluster may have lost it, with its record or without.
                if self.progress.cluster_known() && self.leases.workloads.iter().any(lost) {
                    self.scan.look_soon(self.progress.mono());
                }
                for id in self.leases.workloads.ids() {
                    // No container of the tenant fails where nothing is there: the scan deploys it again.
                    let missing = Health::Out(Outage::Missing);
                    let health = health.get(&id).copied().unwrap_or(missing);
                    self.drive_workload(&id, Input::Health(health));
                }
                if std::mem::take(&mut self.leases.is_cluster_lost) {
                    self.retry_soon();
                }
            }
            ClusterChange::Lost => {
                self.leases.is_cluster_lost = true;
                for id in self.leases.workloads.ids() {
                    self.drive_workload(&id, Input::Health(Health::Unknown));
                }
            }
            ClusterChange::RecordsLost => {
                if self.progress.cluster_known() {
                    self.scan.look_soon(self.progress.mono());
                }
                self.retry_soon();
            }
        }
    }

    fn retry_soon(&mut self) {
        for id in self.leases.workloads.ids() {
            self.drive_workload(&id, Input::RetrySoon);
        }
    }

    /// The cluster has this from before, or from another leader (`fresh`: then it counts, whatever was to run).
    /// What it may be for is known from the chain.
    pub(in crate::engine) fn workload_found(&mut self, deployment: &Arc<WorkloadSpec>, fresh: bool) {
        let id = &deployment.lease;
        let unknown = !self.leases.workloads.contains(id);
        if unknown {
            self.leases.workloads.insert(id, Workload::orphan(id));
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

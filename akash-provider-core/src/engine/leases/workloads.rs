//! Connects the workload state machines and the circuit breaker to the engine.

use super::workload::{CloseReport, ReportSource, Workload, WorkloadAction, WorkloadInput};
use super::{breaker, deployment, escrow};
use crate::cluster::{ClusterChange, Health, Outage, WorkloadSpec};
use crate::engine::input::{Refusal, RefusalKind, Reply, Response};
use crate::engine::table::Lane;
use crate::engine::{CallTarget, EffectId, Engine};
use crate::restart_state::RestartState;
use crate::types::{Address, CloseReason, Event, LeaseId};
use deployment::Origin;
use std::sync::Arc;

impl Engine {
    pub(in crate::engine) fn drive_workload(&mut self, id: &LeaseId, input: WorkloadInput) {
        let config = Arc::clone(&self.config);
        let cx = self.cx(&config);
        let Some(actions) = self.leases.workloads.drive(&cx, id, input) else {
            return;
        };
        self.changes += 1;
        for action in actions {
            match action {
                WorkloadAction::Cluster(call) => {
                    let effect = self.call(CallTarget::WorkloadCluster(id.clone()), call);
                    self.leases.workloads.set_pending(id, Lane::Main, effect);
                }
                WorkloadAction::Chain(call) => {
                    let effect = self.call(CallTarget::WorkloadChain(id.clone()), call);
                    self.leases.workloads.set_pending(id, Lane::Chain, effect);
                }
                WorkloadAction::RequestPermission => self.request_permission(id),
                WorkloadAction::CancelRequest => self.leases.breaker.cancel(id),
                WorkloadAction::Publish(event) => self.publish(event),
                WorkloadAction::LeaseFound(record) => {
                    let at = self.progress.block_time();
                    self.add_recorded_lease(&record, None, at, None);
                }
                WorkloadAction::Remove(reason) => self.remove_lease(id, reason),
                WorkloadAction::Unexpected => self.outbox.count_unexpected(),
            }
        }
    }

    /// Processes the completion of a workload's call. Late completions are dropped.
    pub(in crate::engine) fn workload_completed(
        &mut self,
        id: &LeaseId,
        effect: EffectId,
        lane: Lane,
        input: WorkloadInput,
    ) {
        if lane == Lane::Main {
            self.scan.record_change(id);
        }
        if self.leases.workloads.clear_pending(id, lane, effect) {
            self.drive_workload(id, input);
        }
    }

    fn request_permission(&mut self, id: &LeaseId) {
        let leases = self.leases.workloads.len();
        let is_over = self.has_ended(id);
        let request = breaker::CloseRequest {
            lease: id,
            is_over,
            destroys_nothing: self.destroys_nothing(id),
        };
        let now = self.progress.now();
        let awaited = self.leases.breaker.awaits_release(id);
        let decision = self.leases.breaker.request(&self.config, now, leases, &request);
        match decision {
            breaker::BreakerDecision::Granted => self.drive_workload(id, WorkloadInput::Granted),
            breaker::BreakerDecision::Held => {}
            breaker::BreakerDecision::Tripped(wanted) => self.publish(Event::BreakerTripped { wanted }),
            breaker::BreakerDecision::TrippedFor(wanted) => {
                let owner = id.owner().clone();
                self.publish(Event::BreakerTrippedFor { owner, wanted });
            }
        }
        let breaker = &self.leases.breaker;
        if !awaited
            && breaker.awaits_release(id)
            && let Some(message) = breaker.hold_reason_for(now.mono, id)
        {
            let lease = id.clone();
            self.publish(Event::EndHeld { lease, message });
        }
    }

    /// Returns true if the lease never had a manifest or a workload, so its close destroys nothing.
    fn destroys_nothing(&self, id: &LeaseId) -> bool {
        let lacks_manifest = |w: &Workload| {
            let reason = w.ending().map(|e| e.reason);
            reason == Some(CloseReason::ManifestTimeout) && w.deployment().is_none()
        };
        let machine = self.leases.deployments.get(id.deployment());
        let cx = self.cx(&self.config);
        self.workload(id).is_some_and(lacks_manifest) && machine.is_some_and(|m| m.is_bare(&cx, id))
    }

    /// Repeats the requests that the breaker held during its warm-up period.
    pub(in crate::engine) fn drive_breaker(&mut self) {
        for id in self.leases.breaker.take_due(self.progress.mono()) {
            self.changes += 1;
            self.request_permission(&id);
        }
    }

    pub(in crate::engine) fn release_breaker(&mut self) {
        let waiting = self.leases.breaker.release();
        self.publish(Event::BreakerReleased);
        for id in waiting {
            self.drive_workload(&id, WorkloadInput::Granted);
        }
    }

    /// Restores the stored state of the breaker. Publishes the changes as events.
    pub(in crate::engine) fn restore(&mut self, state: &RestartState) {
        let breaker = &mut self.leases.breaker;
        let (was_tripped, mut were_held) = (breaker.is_tripped(), breaker.held_owners().clone());
        breaker.restore(state.breaker_tripped, state.breaker_held_owners.clone());
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

    /// Releases the breaker for one owner. Returns a refusal if `held_owners` of the breaker does not contain
    /// the owner.
    pub(in crate::engine) fn release_breaker_for(&mut self, owner: &Address) -> Response {
        let Some(waiting) = self.leases.breaker.release_owner(self.progress.mono(), owner) else {
            let message = format!("the circuit breaker has not tripped for {owner} alone");
            let kind = RefusalKind::Rejected;
            return Err(Refusal::new(kind, message));
        };
        let owner = owner.clone();
        self.publish(Event::BreakerReleasedFor { owner });
        for id in waiting {
            self.drive_workload(&id, WorkloadInput::Granted);
        }
        Ok(Reply::Done)
    }

    fn remove_lease(&mut self, id: &LeaseId, reason: Option<CloseReason>) {
        self.changes += 1;
        // Removed first, so that the following steps do not find the lease.
        self.leases.workloads.remove(id);
        self.leases.breaker.cancel(id);
        self.leases.hostname_queue.remove_lease(id);
        // Released only now: the workload was torn down, or its teardown is the leader's task.
        self.reservations.unreserve(&id.order);
        self.market.capacity_freed();
        let freed = self.leases.hostnames.release(id);
        self.hostnames_freed(&freed);
        let lease = id.clone();
        self.drive_deployment(
            id.deployment(),
            deployment::DeploymentInput::LeaseRemoved(lease.clone()),
        );
        self.drive_escrow(id.deployment(), escrow::EscrowInput::LeaseRemoved(lease.clone()));
        self.publish(Event::LeaseClosed { lease, reason });
    }

    pub(in crate::engine) fn report_lease_closed(
        &mut self,
        id: &LeaseId,
        by: ReportSource,
        reason: Option<CloseReason>,
    ) {
        let report = CloseReport {
            height: self.progress.height(),
            since: self.progress.mono(),
            by,
            reason,
        };
        self.drive_workload(id, WorkloadInput::CloseReported(report));
    }

    pub(in crate::engine) fn cluster_changed(&mut self, change: ClusterChange) {
        match change {
            ClusterChange::Health { lease, health } => {
                self.drive_workload(&lease, WorkloadInput::Health(health))
            }
            ClusterChange::Snapshot { health } => {
                self.scan.cluster_reachable(self.progress.mono());
                let lost = |(id, workload): (&LeaseId, &Workload)| {
                    workload.is_live() && workload.generation() > 0 && !health.contains_key(id)
                };
                // A deployed workload is missing: the cluster may have lost it, with or without its record.
                if self.progress.cluster_known() && self.leases.workloads.iter().any(lost) {
                    self.scan.list_soon(self.progress.mono());
                }
                for id in self.leases.workloads.ids() {
                    // A missing workload is an outage, not a failure of the tenant's container. The scan deploys it
                    // again.
                    let missing = Health::Out(Outage::Missing);
                    let health = health.get(&id).copied().unwrap_or(missing);
                    self.drive_workload(&id, WorkloadInput::Health(health));
                }
                if std::mem::take(&mut self.leases.is_cluster_lost) {
                    self.retry_soon();
                }
            }
            ClusterChange::Lost => {
                self.leases.is_cluster_lost = true;
                for id in self.leases.workloads.ids() {
                    self.drive_workload(&id, WorkloadInput::Health(Health::Unknown));
                }
            }
            ClusterChange::RecordsLost => {
                if self.progress.cluster_known() {
                    self.scan.list_soon(self.progress.mono());
                }
                self.retry_soon();
            }
        }
    }

    fn retry_soon(&mut self) {
        for id in self.leases.workloads.ids() {
            self.drive_workload(&id, WorkloadInput::RetrySoon);
        }
    }

    /// Adopts a workload that was found in the cluster. If `fresh` is true, the specification in the cluster
    /// replaces the specification in the engine.
    pub(in crate::engine) fn adopt_workload(&mut self, deployment: &Arc<WorkloadSpec>, fresh: bool) {
        let id = &deployment.lease;
        let unknown = !self.leases.workloads.contains(id);
        if unknown {
            self.leases.workloads.insert(id, Workload::without_lease(id));
        } else {
            self.reservations.set_params(&id.order, &deployment.params);
        }
        let adopted = self.without_lost_hostnames(deployment);
        let input = if fresh {
            WorkloadInput::Readopt(adopted)
        } else {
            WorkloadInput::Adopt(adopted)
        };
        self.drive_workload(id, input);
        if unknown {
            return self.report_lease_closed(id, ReportSource::Scan, None);
        }
        self.notify_deployment(id, None, Origin::Recorded);
    }
}

//! Status of leases, deployments and the circuit breaker.

use super::breaker::Breaker;
use super::workload::{ChainLane, Workload};
use crate::engine::Engine;
use crate::engine::status::{BreakerStatus, DeploymentStatus, HeldClose, LeaseInfo};
use crate::types::{LeaseId, Now};
use std::sync::Arc;

impl Engine {
    pub(in crate::engine) fn lease_infos(&self, now: Now) -> Vec<LeaseInfo> {
        let mut infos = Vec::new();
        let limit = self.config.unhealthy_limit;
        let limit = limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        for id in self.leases.workloads.ids() {
            let Some(workload) = self.workload(&id) else {
                continue;
            };
            let Some(price) = workload.price() else { continue };
            infos.push(LeaseInfo {
                price: price.clone(),
                phase: workload.phase(),
                health: workload.health(),
                known_unhealthy_ms: u64::try_from(workload.unhealthy_time(now.mono).as_millis())
                    .unwrap_or(u64::MAX),
                unhealthy_limit_ms: limit,
                generation: Some(workload.generation()).filter(|deployed| *deployed > 0),
                last_error: workload.last_error().map(str::to_owned),
                ending: workload.ending().map(|e| e.reason),
                waiting_for: self.waiting_for(&id, workload, now),
                record_problem: self.record_problem(&id).map(|problem| problem.to_string()),
                payout_error: self.payout_error(&id).map(str::to_owned),
                lease: id,
            });
        }
        infos
    }

    /// Returns the event, time or permission that the close or teardown of this lease waits for.
    fn waiting_for(&self, id: &LeaseId, workload: &Workload, now: Now) -> Option<String> {
        if let Some(why) = self.leases.breaker.hold_reason_for(now.mono, id) {
            return Some(why);
        }
        match workload.chain_lane() {
            ChainLane::Planned {
                deadline: Some(_), ..
            } => Some("the reclamation deadline".to_owned()),
            ChainLane::Planned { wake: Some(_), .. } => Some("leadership".to_owned()),
            ChainLane::Fetching { retry_at: Some(_) } => Some("evidence from the chain".to_owned()),
            ChainLane::Unsure(_) => Some("the outcome of a transaction".to_owned()),
            ChainLane::AwaitEvent(_) => Some("the chain event".to_owned()),
            ChainLane::Idle
            | ChainLane::Planned { .. }
            | ChainLane::Sending
            | ChainLane::SendRetry(_)
            | ChainLane::Fetching { retry_at: None }
            | ChainLane::Confirmed { .. } => None,
        }
    }

    pub(in crate::engine) fn has_ended(&self, id: &LeaseId) -> bool {
        let lane = self.workload(id).map(Workload::chain_lane);
        matches!(lane, Some(ChainLane::Confirmed { .. }))
    }

    fn record_problem(&self, id: &LeaseId) -> Option<&Arc<str>> {
        self.leases.deployments.get(id.deployment())?.unusable(id)
    }

    fn payout_error(&self, id: &LeaseId) -> Option<&str> {
        self.leases.escrows.get(id.deployment())?.failed(id)
    }

    pub(in crate::engine) fn deployment_statuses(&self) -> Vec<DeploymentStatus> {
        let mut all = Vec::new();
        for id in self.leases.deployments.ids() {
            let Some(machine) = self.leases.deployments.get(&id) else {
                continue;
            };
            all.push(DeploymentStatus {
                manifest: machine
                    .accepted_hash()
                    .map(|hash| data_encoding::HEXLOWER.encode(hash)),
                manifest_deadline: machine.manifest_deadline(),
                waiting_requests: machine.waiting(),
                deployment: id,
            });
        }
        all
    }

    pub(in crate::engine) fn breaker_status(&self, now: Now) -> BreakerStatus {
        let held_closes = self.leases.breaker.held_closes(now.mono).into_iter();
        let held_closes = held_closes.map(|(lease, since, because)| HeldClose {
            is_over: self.has_ended(&lease),
            lease,
            since,
            because,
        });
        let allowed = Breaker::allowed(&self.config, self.leases.workloads.len());
        BreakerStatus {
            tripped: self.leases.breaker.is_tripped(),
            held_owners: self.leases.breaker.held_owners().iter().cloned().collect(),
            recent: self.leases.breaker.recent_count(allowed),
            allowed,
            waiting: self.leases.breaker.waiting().into_iter().cloned().collect(),
            held: held_closes.collect(),
            records_missing: self.leases.breaker.records_missing().map(str::to_owned),
            shut_because: self.leases.breaker.hold_reason(now.mono),
        }
    }
}

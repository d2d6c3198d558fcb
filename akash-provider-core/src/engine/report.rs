//! The engine's status: read from the machines, kept nowhere.

use super::breaker::Breaker;
use super::input::Input;
use super::role::Lifecycle;
use super::status::{BreakerStatus, DeclineStatus, DeploymentStatus, LeaseInfo, OrderStatus, Pulse, Status};
use super::workload::{ChainLane, Workload};
use super::{Engine, Target};
use crate::types::{ChainEvent, LeaseId, Now};
use std::sync::Arc;

impl Engine {
    /// Counts what changes a status, so that none has to be made to find out that it would be the same. What may have
    /// changed it counts too; what [`Pulse`] has, and the time of what is unhealthy, does not.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// What an input changes by itself. Of the chain most is about others, and a look at the money shows nowhere: what
    /// follows from those is counted where a machine takes it.
    pub(super) fn count_input(&mut self, input: &Input) {
        let is_quiet = match input {
            Input::Chain(event) => !matches!(event, ChainEvent::Resync(_)),
            Input::Completed(id, _) => matches!(self.outbox.target(*id), Some(Target::Escrow(_))),
            Input::Cluster(_)
            | Input::Inventory(_)
            | Input::Request(..)
            | Input::Leadership(_)
            | Input::HoldBids(_)
            | Input::Shutdown => false,
        };
        self.changes += u64::from(!is_quiet);
    }

    /// What changes with every block and every call.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        Pulse {
            height: self.progress.height(),
            block_time: self.progress.block_time(),
            calls_in_flight: self.outbox.calls_in_flight(),
            unexpected_inputs: self.outbox.unexpected(),
        }
    }

    /// A plain snapshot of everything.
    #[must_use]
    pub fn status(&self, now: Now) -> Status {
        Status {
            lifecycle: match self.role.lifecycle() {
                Lifecycle::Init => "init",
                Lifecycle::Running => "running",
                Lifecycle::Shutdown => "shutdown",
            }
            .to_owned(),
            leader: !self.role.is_standby(),
            bids_held: self.role.bids_held().map(str::to_owned),
            height: self.progress.height(),
            block_time: self.progress.block_time(),
            chain_known: self.progress.chain_known(),
            registered: !self.progress.chain_known() || self.market.is_registered(),
            deposit_missing: self.deposit_missing(),
            inventory_known: self.reservations.is_known(),
            cluster_known: self.progress.cluster_known(),
            orders: self.order_statuses(),
            declines: self
                .market
                .decline_counts()
                .map(|(code, n)| (code.to_owned(), n))
                .collect(),
            recent_declines: self.decline_statuses(),
            leases: self.lease_infos(now),
            deployments: self.deployment_statuses(),
            inventory: self.reservations.status(),
            hostnames: self.hostnames.all().into_iter().collect(),
            breaker: self.breaker_status(now),
            last_scan_findings: self.scan.findings.clone(),
            calls_in_flight: self.outbox.calls_in_flight(),
            unexpected_inputs: self.outbox.unexpected(),
        }
    }

    fn order_statuses(&self) -> Vec<OrderStatus> {
        let status = |(id, machine): (&crate::types::OrderId, &super::order::Order)| OrderStatus {
            order: id.clone(),
            phase: machine.phase_name().to_owned(),
            price: machine.price().cloned(),
        };
        self.market.orders().into_iter().map(status).collect()
    }

    fn decline_statuses(&self) -> Vec<DeclineStatus> {
        let status = |(order, decline): &(crate::types::OrderId, crate::bidding::Decline)| DeclineStatus {
            order: order.clone(),
            reason: decline.code().to_owned(),
            message: decline.to_string(),
        };
        self.market.recent_declines().map(status).collect()
    }

    fn lease_infos(&self, now: Now) -> Vec<LeaseInfo> {
        let mut infos = Vec::new();
        for id in self.workloads.ids() {
            let Some(workload) = self.workload(&id) else {
                continue;
            };
            let Some(price) = workload.price() else { continue };
            infos.push(LeaseInfo {
                price: price.clone(),
                phase: workload.phase_name().to_owned(),
                health: workload.health(),
                known_unhealthy_ms: u64::try_from(workload.known_bad(now.mono).as_millis())
                    .unwrap_or(u64::MAX),
                generation: workload.generation(),
                last_error: workload.last_error().map(str::to_owned),
                ending: workload.ending().map(|e| e.reason),
                waiting_for: self.waiting_for(&id, workload, now),
                record_problem: self.record_problem(&id).map(|problem| problem.to_string()),
                lease: id,
            });
        }
        infos
    }

    /// Why ending a lease or tearing it down does not go on by itself.
    fn waiting_for(&self, id: &LeaseId, workload: &Workload, now: Now) -> Option<String> {
        if let Some(why) = self.breaker.waits_because(now.mono, id) {
            return Some(why);
        }
        match workload.chain_lane() {
            ChainLane::Planned {
                deadline: Some(_), ..
            } => Some("the reclamation deadline".to_owned()),
            ChainLane::Planned { wake: Some(_), .. } => Some("leadership".to_owned()),
            ChainLane::Looking { retry_at: Some(_) } => Some("evidence from the chain".to_owned()),
            ChainLane::Unsure(_) => Some("the outcome of a transaction".to_owned()),
            ChainLane::AwaitEvent(_) => Some("the chain's event".to_owned()),
            ChainLane::Idle
            | ChainLane::Planned { .. }
            | ChainLane::Sending
            | ChainLane::SendRetry(_)
            | ChainLane::Looking { retry_at: None }
            | ChainLane::Confirmed { .. } => None,
        }
    }

    fn record_problem(&self, id: &LeaseId) -> Option<&Arc<str>> {
        self.deployments.get(id.deployment())?.unusable(id)
    }

    fn deployment_statuses(&self) -> Vec<DeploymentStatus> {
        let mut all = Vec::new();
        for id in self.deployments.ids() {
            let Some(machine) = self.deployments.get(&id) else {
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

    fn breaker_status(&self, now: Now) -> BreakerStatus {
        let allowed = Breaker::allowed(&self.config, self.workloads.len());
        BreakerStatus {
            tripped: self.breaker.is_tripped(),
            held_owners: self.breaker.held_owners().iter().cloned().collect(),
            recent: self.breaker.recent_count(allowed),
            allowed,
            waiting: self.breaker.waiting().into_iter().cloned().collect(),
            records_missing: self.breaker.records_missing().map(str::to_owned),
            shut_because: self.breaker.shut_because(now.mono),
        }
    }
}

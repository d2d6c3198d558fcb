//! Status of the engine, computed from the machines and ledgers on request.

use super::input::Input;
use super::status::{DeclineStatus, OrderStatus, Pulse, Status};
use super::{CallTarget, EffectId, Engine};
use crate::types::{ChainEvent, Now, OrderId};

impl Engine {
    /// Returns a counter that increases with every change of the status. If the counter is unchanged, callers
    /// can reuse their last [`Status`]. The fields of [`Pulse`] and the measured unhealthy time do not affect
    /// the counter.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Increases the change counter for an input that always changes the status. Any other input increases
    /// the counter later, when the input changes the status.
    pub(super) fn count_input(&mut self, input: &Input) {
        let is_quiet = match input {
            Input::Chain(event) => !matches!(event, ChainEvent::Resync(_)),
            Input::Completed(id, _) => {
                matches!(
                    self.outbox.target(*id),
                    Some(CallTarget::Escrow(_) | CallTarget::Wallet)
                )
            }
            Input::Cluster(_)
            | Input::Inventory(_)
            | Input::Request(..)
            | Input::Leadership(_)
            | Input::HoldBids(_)
            | Input::Kept(_)
            | Input::PricesChanged
            | Input::Shutdown => false,
        };
        self.changes += u64::from(!is_quiet);
    }

    /// Returns the order of a call in flight. Returns `None` if the call is completed or belongs to no order.
    #[must_use]
    pub fn order_of_call(&self, call: EffectId) -> Option<&OrderId> {
        match self.outbox.target(call) {
            Some(CallTarget::Order(order)) => Some(order),
            _ => None,
        }
    }

    /// Returns the part of the status that changes with every block and every call.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        Pulse {
            height: self.progress.height(),
            block_time: self.progress.block_time(),
            average_block_ms: self.average_block_ms(),
            calls_in_flight: self.outbox.calls_in_flight(),
            unexpected_inputs: self.outbox.unexpected(),
        }
    }

    /// Returns the status of the engine at the time `now`.
    #[must_use]
    pub fn status(&self, now: Now) -> Status {
        Status {
            lifecycle: self.role.lifecycle(),
            leader: !self.role.is_standby(),
            bids_held: self.role.bids_held().map(str::to_owned),
            height: self.progress.height(),
            block_time: self.progress.block_time(),
            average_block_ms: self.average_block_ms(),
            chain_known: self.progress.chain_known(),
            // Before the first `Resync`, a missing provider record is not evidence.
            registered: !self.progress.chain_known() || self.market.is_registered(),
            deposit_missing: self.deposit_missing(),
            inventory_known: self.reservations.is_known(),
            cluster_known: self.progress.cluster_known(),
            orders: self.order_statuses(),
            declines: self.market.decline_counts().clone(),
            recent_declines: self.decline_statuses(),
            leases: self.lease_infos(now),
            deployments: self.deployment_statuses(),
            inventory: self.reservations.status(),
            hostnames: self.leases.hostnames(),
            breaker: self.breaker_status(now),
            last_scan_findings: self.scan.findings().to_vec(),
            calls_in_flight: self.outbox.calls_in_flight(),
            unexpected_inputs: self.outbox.unexpected(),
        }
    }

    fn average_block_ms(&self) -> u64 {
        let average = self.progress.block_length(self.config.average_block_time);
        u64::try_from(average.as_millis()).unwrap_or(u64::MAX)
    }

    fn order_statuses(&self) -> Vec<OrderStatus> {
        let status = |(id, machine): (&crate::types::OrderId, &super::order::Order)| OrderStatus {
            order: id.clone(),
            phase: machine.status_phase(),
            price: machine.price().cloned(),
        };
        self.market.orders().into_iter().map(status).collect()
    }

    fn decline_statuses(&self) -> Vec<DeclineStatus> {
        let status = |(order, decline): &(crate::types::OrderId, crate::bidding::Decline)| DeclineStatus {
            order: order.clone(),
            reason: decline.code(),
            message: decline.to_string(),
        };
        self.market.recent_declines().map(status).collect()
    }
}

//! The engine's status: read from the machines, kept nowhere.

use super::input::Input;
use super::status::{DeclineStatus, OrderStatus, Pulse, Status};
use super::{Engine, Target};
use crate::types::{ChainEvent, Now};

impl Engine {
    /// Counts what changes a status, so that none has to be made to find out that it would be the same. What may have
    /// changed it counts too; what [`Pulse`] has, and the time of what is unhealthy, does not.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// What an input changes by itself. Of the chain most is about others, and a look at the money shows nowhere: what
    /// follows from those is counted where it is taken.
    pub(super) fn count_input(&mut self, input: &Input) {
        let is_quiet = match input {
            Input::Chain(event) => !matches!(event, ChainEvent::Resync(_)),
            Input::Completed(id, _) => {
                matches!(self.outbox.target(*id), Some(Target::Escrow(_) | Target::Wallet))
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
            lifecycle: self.role.lifecycle(),
            leader: !self.role.is_standby(),
            bids_held: self.role.bids_held().map(str::to_owned),
            height: self.progress.height(),
            block_time: self.progress.block_time(),
            chain_known: self.progress.chain_known(),
            // Until the chain is known, nothing says that there is no record.
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

    fn order_statuses(&self) -> Vec<OrderStatus> {
        let status = |(id, machine): (&crate::types::OrderId, &super::order::Order)| OrderStatus {
            order: id.clone(),
            phase: machine.shown_phase(),
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

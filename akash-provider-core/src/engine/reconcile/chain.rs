//! Applies a snapshot of the chain: at the start, after a gap in the event stream, and in every full scan.
//!
//! The reconciliation compares complete states and is idempotent. If a record is missing in a snapshot,
//! nothing is destroyed: the missing record is only queried.

use crate::engine::Engine;
use crate::engine::counts::ScanReason;
use crate::engine::order::{self, Order};
use crate::engine::workload::{ChainLane, ReportSource, Workload, WorkloadInput};
use crate::types::{self, Bid, BidState, DeploymentId, DeploymentRecord, Height, LeaseId, OrderId, Snapshot};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Engine {
    /// Processes the snapshot that starts the event stream or follows a gap.
    pub(in crate::engine) fn resync(&mut self, snapshot: &Arc<Snapshot>) {
        if snapshot.chain_id != self.config.chain_id {
            let finding = format!(
                "snapshot of chain `{}` ignored: the provider is configured for chain `{}`",
                snapshot.chain_id, self.config.chain_id
            );
            return self.report_findings(vec![finding]);
        }
        if self.progress.is_contradicted_by(snapshot.height, snapshot.time) {
            self.lower_heights(snapshot.height);
        } else if self.progress.chain_known() && self.is_past(snapshot.height) {
            // The node is behind the processed height, so its snapshot is outdated.
            self.scan.schedule_now(ScanReason::Resync);
            return self.progress.start_replay();
        }
        if self.progress.chain_known() {
            self.market.invalidate_audits();
        }
        let fresh = self.progress.resync(snapshot.height, snapshot.time);
        self.role.run();
        if fresh {
            // The manifest timeouts of leases in the snapshot start at their recorded time.
            let is_recorded = |id: &LeaseId| snapshot.leases.iter().any(|r| r.lease.id == *id);
            self.drop_manifest_clocks(&is_recorded);
            self.start_manifest_clocks();
            self.apply_snapshot(snapshot);
        } else {
            // A full scan already applied a newer snapshot. Absence in this snapshot means nothing.
            self.start_manifest_clocks();
            self.scan.schedule_now(ScanReason::Resync);
        }
        self.scan.after_resync();
    }

    /// Limits every stored height to `to`, because the block time at `to` shows that higher heights are
    /// wrong.
    fn lower_heights(&mut self, to: Height) {
        self.market.lower_heights(to);
        self.leases.lower_heights(to);
    }

    /// Returns true if a query result of this height is older than the processed state.
    pub(in crate::engine) fn is_past(&self, height: Height) -> bool {
        self.cx(&self.config).is_past(height)
    }

    /// Updates leases, bids and orders from a snapshot that is not older than the processed state.
    pub(in crate::engine) fn apply_snapshot(&mut self, snapshot: &Snapshot) {
        self.progress.snapshot_applied(snapshot.height, snapshot.time);
        self.market
            .apply_snapshot(snapshot.provider.as_ref(), &snapshot.params);
        self.block_own_host();
        // Deposits may have been returned or spent while no events were received.
        self.read_wallet();
        let bids: BTreeMap<&OrderId, &Bid> = snapshot
            .bids
            .iter()
            .filter(|b| b.id.provider == self.config.provider)
            .map(|b| (&b.id.order, b))
            .collect();
        // Leases precede orders, so that a won order is not handled as a closed one.
        self.apply_leases(snapshot, &bids);
        self.apply_orders(snapshot, &bids);
        self.judge_waiting();
    }

    fn apply_leases(&mut self, snapshot: &Snapshot, bids: &BTreeMap<&OrderId, &Bid>) {
        let deployments: FxHashMap<&DeploymentId, &DeploymentRecord> = snapshot
            .deployments
            .iter()
            .map(|d| (&d.deployment.id, d))
            .collect();
        let mut live = BTreeSet::new();
        for record in &snapshot.leases {
            let id = &record.lease.id;
            if id.provider != self.config.provider || !record.lease.state.is_live() {
                continue;
            }
            live.insert(id.clone());
            let deployment = deployments.get(id.deployment()).copied();
            let group = deployment.and_then(|d| d.groups.iter().find(|g| g.id == id.order.group));
            let empty = self
                .reservations
                .units(&id.order)
                .is_none_or(|units| units.is_empty());
            if empty {
                // The reservation without known units is replaced by the offer of the bid, or else by the group.
                self.reservations.unreserve(&id.order);
                let offer = bids.get(&id.order).map_or(&[][..], |b| &b.resources_offer);
                self.reservations.adopt(&id.order, offer, group.map(|g| &*g.spec));
            } else {
                let offer = bids.get(&id.order).map_or(&[][..], |b| &b.resources_offer);
                self.reservations.apply_offer(&id.order, offer);
            }
            self.drive_order(&id.order, order::OrderInput::Won);
            self.add_recorded_lease(
                record,
                deployment,
                snapshot.block_time(record.lease.created_at),
                None,
            );
            // Repeated, because an already known lease may have a new reservation.
            self.reservations.mark_active(&id.order);
            self.set_manifest_deadline(id, snapshot.block_time(record.lease.created_at));
            self.drive_workload(id, WorkloadInput::Live(record.lease.reclamation.clone()));
        }
        // Absence from one snapshot is not evidence of a close. The lease is queried, and again while the evidence is
        // weak.
        let is_weak = |id: &LeaseId| {
            let lane = self.workload(id).map(Workload::chain_lane);
            lane == Some(&ChainLane::Confirmed { granted: false })
        };
        let weak: Vec<LeaseId> = self.leases.workload_ids().into_iter().filter(is_weak).collect();
        for id in self.live_leases().into_iter().chain(weak) {
            if !live.contains(&id) {
                self.report_lease_closed(&id, ReportSource::Scan, None);
            }
        }
    }

    fn apply_orders(&mut self, snapshot: &Snapshot, bids: &BTreeMap<&OrderId, &Bid>) {
        let open: BTreeSet<&OrderId> = snapshot.orders.iter().map(|o| &o.id).collect();
        for id in self.market.order_ids() {
            if !open.contains(&id) {
                self.drive_order(&id, order::OrderInput::OrderClosed);
            }
        }
        self.market.retain_open(&open);
        for order in &snapshot.orders {
            let in_hand = self.market.order(&order.id).is_some();
            match (bids.get(&order.id), in_hand) {
                (Some(bid), _) => self.apply_bid(snapshot, order, bid),
                (None, true) => self.drive_order(&order.id, order::OrderInput::BidMissing),
                (None, false) if self.market.is_finished(&order.id) => {}
                (None, false) => self.order_listed(&Arc::new(order.clone())),
            }
        }
        // An open bid on a closed order keeps its deposit locked.
        for bid in bids
            .values()
            .filter(|b| b.state == BidState::Open && !open.contains(&b.id.order))
        {
            if self.market.order(&bid.id.order).is_none() {
                let mut actions = Vec::new();
                let machine = Order::from_stray_bid(bid, &mut actions);
                self.insert_order(&bid.id.order, machine, actions);
            }
        }
    }

    fn apply_bid(&mut self, snapshot: &Snapshot, order: &types::Order, bid: &Bid) {
        let id = &bid.id.order;
        if bid.state == BidState::Open {
            self.reservations.apply_offer(id, &bid.resources_offer);
            // A machine without a reservation is replaced by one with the offer of the bid.
            self.drive_order(id, order::OrderInput::BidObserved);
        }
        match (bid.state, self.market.order(id).is_some()) {
            (BidState::Open, true) => {}
            (BidState::Open, false) => {
                let created = snapshot.block_time(bid.created_at);
                let deadline = self.config.bid_timeout.map(|timeout| created.plus(timeout));
                self.reservations
                    .adopt(id, &bid.resources_offer, Some(&order.spec));
                let mut actions = Vec::new();
                let machine = Order::from_open_bid(bid, deadline, &mut actions);
                self.insert_order(id, machine, actions);
            }
            (BidState::Lost | BidState::Closed, true) => self.drive_order(id, order::OrderInput::BidClosed),
            (BidState::Lost | BidState::Closed, false) => self.market.mark_bid_used(id),
            // The snapshot contains the lease as well.
            (BidState::Active, _) => {}
        }
    }
}

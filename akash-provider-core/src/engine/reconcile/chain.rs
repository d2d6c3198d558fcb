//! From a snapshot of the chain to machines: at the start, after a gap, in every full scan.
//!
//! It is level-triggered and idempotent: it brings the machines in line with what the chain shows, whatever
//! happened in between. It destroys nothing: what is missing from a snapshot is only looked at.

use crate::engine::Engine;
use crate::engine::order::{self, Order};
use crate::engine::workload::{ChainLane, HeardBy, Input, Workload};
use crate::types::{self, Bid, BidState, DeploymentId, DeploymentRecord, Height, LeaseId, OrderId, Snapshot};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Engine {
    /// The chain's past is incomplete: this is its present.
    pub(in crate::engine) fn resync(&mut self, snapshot: &Arc<Snapshot>) {
        if snapshot.chain_id != self.config.chain_id {
            let finding = format!(
                "a snapshot of chain `{}` was ignored: this provider belongs to `{}`",
                snapshot.chain_id, self.config.chain_id
            );
            return self.report_findings(vec![finding]);
        }
        if self.progress.is_contradicted_by(snapshot.height, snapshot.time) {
            self.lower_heights(snapshot.height);
        } else if self.progress.chain_known() && self.is_past(snapshot.height) {
            // A node that lags behind what was processed shows the past, not the present.
            self.scan.soon();
            return self.progress.replays();
        }
        if self.progress.chain_known() {
            self.market.forget_audits();
        }
        let fresh = self.progress.resync(snapshot.height, snapshot.time);
        self.role.run();
        if fresh {
            // Leases in it have their clocks from their records.
            let shown = |id: &LeaseId| snapshot.leases.iter().any(|r| r.lease.id == *id);
            self.forget_clocks(&shown);
            self.start_manifest_clocks();
            self.apply_snapshot(snapshot);
        } else {
            // A full scan has shown more already; what is not in this one is not over.
            self.start_manifest_clocks();
            self.scan.soon();
        }
        self.scan.after_resync();
    }

    /// Lowers the heights that orders, leases and their clocks wait for: they are of a false chain.
    fn lower_heights(&mut self, to: Height) {
        self.market.lower_heights(to);
        self.leases.lower_heights(to);
    }

    /// A reading of this height shows less than what was processed: facts of the block after
    /// the height that was followed to its end may have been told already.
    pub(in crate::engine) fn is_past(&self, height: Height) -> bool {
        self.cx(&self.config).is_past(height)
    }

    /// Brings leases, bids and orders in line with a snapshot that is not older than what was processed.
    pub(in crate::engine) fn apply_snapshot(&mut self, snapshot: &Snapshot) {
        self.progress.snapshot_applied(snapshot.height, snapshot.time);
        self.market.read(snapshot.provider.as_ref(), &snapshot.params);
        self.block_own_host();
        // Deposits may have come back, or gone, while nothing was told.
        self.read_wallet();
        let bids: BTreeMap<&OrderId, &Bid> = snapshot
            .bids
            .iter()
            .filter(|b| b.id.provider == self.config.provider)
            .map(|b| (&b.id.order, b))
            .collect();
        // Leases before orders: an order that we have won must not look like one that is over.
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
                // What was held without knowing makes way for what the bid, or else the group, says.
                self.reservations.unreserve(&id.order);
                let offer = bids.get(&id.order).map_or(&[][..], |b| &b.resources_offer);
                self.reservations.adopt(&id.order, offer, group.map(|g| &*g.spec));
            } else {
                let offer = bids.get(&id.order).map_or(&[][..], |b| &b.resources_offer);
                self.reservations.keep_promise(&id.order, offer);
            }
            self.drive_order(&id.order, order::Input::Won);
            self.lease_found(
                record,
                deployment,
                snapshot.block_time(record.lease.created_at),
                None,
            );
            // Once more, for a lease that was known and has another reservation since.
            self.reservations.mark_active(&id.order);
            self.manifest_clock(id, snapshot.block_time(record.lease.created_at));
            self.drive_workload(id, Input::Live(record.lease.reclamation.clone()));
        }
        // Missing from one list is no end; it is reason for a look, and for one more while the evidence is weak.
        let is_weak = |id: &LeaseId| {
            let lane = self.workload(id).map(Workload::chain_lane);
            lane == Some(&ChainLane::Confirmed { granted: false })
        };
        let weak: Vec<LeaseId> = self.leases.workload_ids().into_iter().filter(is_weak).collect();
        for id in self.live_leases().into_iter().chain(weak) {
            if !live.contains(&id) {
                self.lease_over(&id, HeardBy::Scan, None);
            }
        }
    }

    fn apply_orders(&mut self, snapshot: &Snapshot, bids: &BTreeMap<&OrderId, &Bid>) {
        let open: BTreeSet<&OrderId> = snapshot.orders.iter().map(|o| &o.id).collect();
        for id in self.market.order_ids() {
            if !open.contains(&id) {
                self.drive_order(&id, order::Input::OrderClosed);
            }
        }
        self.market.keep_ended(&open);
        for order in &snapshot.orders {
            let in_hand = self.market.order(&order.id).is_some();
            match (bids.get(&order.id), in_hand) {
                (Some(bid), _) => self.apply_bid(snapshot, order, bid),
                (None, true) => self.drive_order(&order.id, order::Input::Doubt),
                (None, false) if self.market.is_ended(&order.id) => {}
                (None, false) => self.order_known(&Arc::new(order.clone())),
            }
        }
        // A bid that is open after its order keeps its deposit locked.
        for bid in bids
            .values()
            .filter(|b| b.state == BidState::Open && !open.contains(&b.id.order))
        {
            if self.market.order(&bid.id.order).is_none() {
                let mut actions = Vec::new();
                let machine = Order::stray(bid, &mut actions);
                self.order_new(&bid.id.order, machine, actions);
            }
        }
    }

    /// Our bid on an order that is open.
    fn apply_bid(&mut self, snapshot: &Snapshot, order: &types::Order, bid: &Bid) {
        let id = &bid.id.order;
        if bid.state == BidState::Open {
            self.reservations.keep_promise(id, &bid.resources_offer);
            // A machine that has reserved nothing makes way for one that holds what the bid promises.
            self.drive_order(id, order::Input::BidSeen);
        }
        match (bid.state, self.market.order(id).is_some()) {
            (BidState::Open, true) => {}
            (BidState::Open, false) => {
                let created = snapshot.block_time(bid.created_at);
                let deadline = self.config.bid_timeout.map(|timeout| created.plus(timeout));
                self.reservations
                    .adopt(id, &bid.resources_offer, Some(&order.spec));
                let mut actions = Vec::new();
                let machine = Order::adopted(bid, deadline, &mut actions);
                self.order_new(id, machine, actions);
            }
            (BidState::Lost | BidState::Closed, true) => self.drive_order(id, order::Input::BidClosed),
            (BidState::Lost | BidState::Closed, false) => self.market.spend(id),
            // The lease is in the snapshot too.
            (BidState::Active, _) => {}
        }
    }
}

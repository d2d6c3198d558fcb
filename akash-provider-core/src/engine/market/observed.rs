//! What the chain tells of orders, bids and of us, and what readings of them bring.

use super::order::{Input, Order};
use crate::bidding;
use crate::engine::deployment::Origin;
use crate::engine::{Call, EffectId, Engine, Target};
use crate::error::Failure;
use crate::types::{Address, AuditedAttributes, Bid, BidId, GroupId, Observed, OrderId, ProviderRecord};

impl Engine {
    /// An order begins: from here on its bids are told, too.
    pub(in crate::engine) fn order_created(&mut self, id: &OrderId) {
        // From here on its bids are told, so nobody has to be asked for their number.
        self.market.orders.bids.begin(id);
        self.order_heard(id);
    }

    /// An order is over.
    pub(in crate::engine) fn order_closed(&mut self, id: &OrderId) {
        self.market.orders.bids.end(id);
        self.drive_order(id, Input::OrderClosed);
        self.market.orders.forget_ended(id);
    }

    /// A group is closed or paused, and its order with it.
    pub(in crate::engine) fn group_stopped(&mut self, id: &GroupId) {
        if let Some(order) = self.market.of_group.get(id).cloned() {
            self.drive_order(&order, Input::OrderClosed);
        }
    }

    /// Somebody has bid, perhaps we.
    pub(in crate::engine) fn bid_created(&mut self, id: &BidId) {
        self.market.orders.bids.add(id);
        if id.provider != self.config.provider {
            return;
        }
        self.drive_order(&id.order, Input::BidSeen);
        // Asked after the machine has heard of it, which may have been its end.
        if self.market.orders.get(&id.order).is_none() {
            self.bid_of_another(id);
        }
    }

    /// A bid of ours that was sent before a restart, or by another instance. Until it was read, it is not known what it
    /// holds.
    fn bid_of_another(&mut self, id: &BidId) {
        // Whatever has become of that bid: the order gets no other from us.
        self.market.orders.spend(&id.order);
        self.scan.soon();
        let is_known = self.reservations.contains(&id.order) || self.progress.is_replayed();
        if is_known || self.role.is_stopping() {
            return;
        }
        self.reservations.adopt_unread(&id.order);
        let mut actions = Vec::new();
        // `Block` comes after the facts of its block, so this one is of the block after the newest.
        let machine = Order::observed(id, self.progress.height() + 1, &mut actions);
        self.order_new(&id.order, machine, actions);
    }

    /// Our bid on this order became a lease: it is no longer ours to take back. Says how it came: nobody has served a
    /// lease before that was won by a bid of this process.
    pub(in crate::engine) fn order_won(&mut self, id: &OrderId) -> Origin {
        // Asked before it hears that it won, which is the end of the machine.
        let machine = self.market.orders.get(id);
        let sure = machine.is_none_or(Order::knows_its_bid);
        let is_own = machine.is_some_and(Order::is_own_bid);
        self.drive_order(id, Input::Won);
        self.market.orders.forget_ended(id);
        if !sure {
            self.reservations.recheck_offer(id);
            self.scan.soon();
        }
        if is_own { Origin::Won } else { Origin::Found }
    }

    /// Another provider has a lease for this order.
    pub(in crate::engine) fn order_lost(&mut self, id: &OrderId) {
        self.drive_order(id, Input::Lost);
        self.market.orders.forget_ended(id);
    }

    /// The record of a provider has changed.
    pub(in crate::engine) fn provider_updated(&mut self, owner: &Address) {
        if *owner == self.config.provider && self.market.facts.provider_stale() {
            self.call(Target::Provider, Call::FetchProvider);
        }
    }

    /// What an auditor signed of a provider has changed.
    pub(in crate::engine) fn audit_changed(&mut self, auditor: &Address, owner: &Address) {
        if *owner == self.config.provider {
            self.market.facts.audit_stale(auditor.as_str());
            self.market.orders.forget_declines();
        }
    }

    /// Our record was read.
    pub(in crate::engine) fn provider_read(&mut self, result: Result<Option<ProviderRecord>, Failure>) {
        if self.market.facts.provider_read(result) {
            self.call(Target::Provider, Call::FetchProvider);
        }
        // The record may name another host, and no tenant may take that one.
        self.block_own_host();
        // What was declined by the old record may be right by this one.
        self.market.orders.forget_declines();
    }

    /// What an auditor signed was read.
    pub(in crate::engine) fn audit_read(
        &mut self,
        auditor: String,
        result: Result<Option<AuditedAttributes>, Failure>,
    ) {
        if self
            .market
            .facts
            .audit_read(self.progress.mono(), &auditor, result)
        {
            self.call(Target::Audit(auditor.clone()), Call::FetchAudit(auditor));
        } else {
            self.judge_waiting_for(&auditor);
        }
    }

    /// The bids on an order were counted.
    pub(in crate::engine) fn bids_counted(
        &mut self,
        order: &OrderId,
        effect: EffectId,
        result: Result<u32, Failure>,
    ) {
        let params = self.market.facts.params();
        let check = |bids| params.map_or(Ok(()), |params| bidding::check_bid_count(bids, params));
        let counted = Input::Counted(result.map(check));
        self.order_completed(order, effect, counted);
    }

    /// Our bid on an order was read.
    pub(in crate::engine) fn bid_read(
        &mut self,
        order: &OrderId,
        effect: EffectId,
        result: Result<Observed<Bid>, Failure>,
    ) {
        // The lease that came meanwhile has the reservation.
        let seen = result.as_ref().ok().and_then(|seen| seen.value.as_ref());
        if let (None, Some(bid)) = (self.market.orders.get(order), seen) {
            self.reservations.keep_promise(order, &bid.resources_offer);
        }
        self.order_completed(order, effect, Input::Found(result));
    }
}

//! Handling of chain events and query results about orders, bids and this provider.

use super::order::{Order, OrderInput};
use crate::bidding;
use crate::engine::counts::ScanReason;
use crate::engine::deployment::Origin;
use crate::engine::{Call, CallTarget, EffectId, Engine};
use crate::error::Failure;
use crate::types::{Address, AuditedAttributes, Bid, BidId, GroupId, Observed, OrderId, ProviderRecord};

impl Engine {
    pub(in crate::engine) fn order_created(&mut self, id: &OrderId) {
        // All bids on the order are observed from here on, so no query is needed to count them.
        self.market.orders.bids.start(id);
        self.order_seen(id);
    }

    pub(in crate::engine) fn order_closed(&mut self, id: &OrderId) {
        self.market.orders.bids.remove(id);
        self.drive_order(id, OrderInput::OrderClosed);
        self.market.orders.remove_finished(id);
    }

    /// Processes the close or the pause of a group. Either event closes the group's order.
    pub(in crate::engine) fn group_stopped(&mut self, id: &GroupId) {
        if let Some(order) = self.market.of_group.get(id).cloned() {
            self.drive_order(&order, OrderInput::OrderClosed);
        }
    }

    /// Processes the creation of a bid by any provider.
    pub(in crate::engine) fn bid_created(&mut self, id: &BidId) {
        self.market.orders.bids.add(id);
        if id.provider != self.config.provider {
            return;
        }
        self.drive_order(&id.order, OrderInput::BidObserved);
        // Checked after the machine processed the event, which may have finished it.
        if self.market.orders.get(&id.order).is_none() {
            self.adopt_unknown_bid(id);
        }
    }

    /// Processes a bid that another process of this provider sent. The resources of the bid are unknown until
    /// the bid is read.
    fn adopt_unknown_bid(&mut self, id: &BidId) {
        // The order never gets a second bid from this provider.
        self.market.orders.mark_bid_used(&id.order);
        self.scan.schedule_now(ScanReason::UnknownOffer);
        let is_known = self.reservations.contains(&id.order) || self.progress.is_replayed();
        if is_known || self.role.is_stopping() {
            return;
        }
        self.reservations.adopt_unread(&id.order);
        let mut actions = Vec::new();
        // Events of a block precede its `Block` event, so the bid belongs to the next height.
        let machine = Order::from_bid_event(id, self.progress.height() + 1, &mut actions);
        self.insert_order(&id.order, machine, actions);
    }

    /// Processes a lease won by this provider, and returns the origin of the lease.
    pub(in crate::engine) fn order_won(&mut self, id: &OrderId) -> Origin {
        // Read before the event, which finishes the machine.
        let machine = self.market.orders.get(id);
        let sure = machine.is_none_or(Order::is_bid_known);
        let is_own = machine.is_some_and(Order::is_own_bid);
        self.drive_order(id, OrderInput::Won);
        self.market.orders.remove_finished(id);
        if !sure {
            self.reservations.recheck_offer(id);
            self.scan.schedule_now(ScanReason::UnknownOffer);
        }
        if is_own { Origin::Won } else { Origin::Found }
    }

    /// Processes a lease won by another provider.
    pub(in crate::engine) fn order_lost(&mut self, id: &OrderId) {
        self.drive_order(id, OrderInput::Lost);
        self.market.orders.remove_finished(id);
    }

    /// Fetches the provider record again, because the record changed.
    pub(in crate::engine) fn provider_updated(&mut self, owner: &Address) {
        if *owner == self.config.provider && self.market.provider_data.mark_provider_outdated() {
            self.call(CallTarget::Provider, Call::FetchProvider);
        }
    }

    /// Marks an audit as outdated, because the auditor changed the audit.
    pub(in crate::engine) fn audit_changed(&mut self, auditor: &Address, owner: &Address) {
        if *owner == self.config.provider {
            self.market.provider_data.mark_audit_outdated(auditor.as_str());
            self.market.orders.retry_declined();
        }
    }

    /// Processes the result of `FetchProvider`.
    pub(in crate::engine) fn provider_read(&mut self, result: Result<Option<ProviderRecord>, Failure>) {
        if self.market.provider_data.provider_read(result) {
            self.call(CallTarget::Provider, Call::FetchProvider);
        }
        // The new record may have another hostname, which must be blocked for tenants.
        self.block_own_host();
        // An order declined because of the old record may be acceptable now.
        self.market.orders.retry_declined();
    }

    /// Processes the result of `FetchAudit`.
    pub(in crate::engine) fn audit_read(
        &mut self,
        auditor: String,
        result: Result<Option<AuditedAttributes>, Failure>,
    ) {
        if self
            .market
            .provider_data
            .audit_read(self.progress.mono(), &auditor, result)
        {
            self.call(CallTarget::Audit(auditor.clone()), Call::FetchAudit(auditor));
        } else {
            self.judge_waiting_for(&auditor);
        }
    }

    /// Processes the result of `CountBids`.
    pub(in crate::engine) fn bids_counted(
        &mut self,
        order: &OrderId,
        effect: EffectId,
        result: Result<u32, Failure>,
    ) {
        let params = self.market.provider_data.params();
        let check = |bids| params.map_or(Ok(()), |params| bidding::check_bid_count(bids, params));
        let counted = OrderInput::Counted(result.map(check));
        self.order_completed(order, effect, counted);
    }

    /// Processes the result of `FetchBid`.
    pub(in crate::engine) fn bid_read(
        &mut self,
        order: &OrderId,
        effect: EffectId,
        result: Result<Observed<Bid>, Failure>,
    ) {
        // Without a machine, the order was won in the meantime, and the lease has the reservation.
        let seen = result.as_ref().ok().and_then(|seen| seen.value.as_ref());
        if let (None, Some(bid)) = (self.market.orders.get(order), seen) {
            self.reservations.apply_offer(order, &bid.resources_offer);
        }
        self.order_completed(order, effect, OrderInput::BidFetched(result));
    }
}

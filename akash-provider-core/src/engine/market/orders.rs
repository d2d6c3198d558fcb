//! Connects the order state machines to the engine, and stores the results of finished orders.

use super::order::{Order, OrderAction, OrderInput, OrderStage, Outcome};
use super::retries::{Retries, Sequence};
use super::{bids, provider_data};
use crate::bidding::{self, Decline};
use crate::engine::cx::Cx;
use crate::engine::table::{Lane, MachineTable};
use crate::engine::{Call, CallTarget, EffectId, Engine, sorted};
use crate::types::{self, BlockTime, DeclineCode, Event, Height, Mono, Msg, Now, OrderId, TxOutcome};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Maximum number of recent declines in the status.
const RECENT_DECLINES: usize = 256;

/// Result of an order that is still open on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum OrderResult {
    /// This provider has used its only bid on the order.
    BidUsed,
    /// The order was declined. A retry is possible only after the provider record or the market parameters
    /// change.
    Declined,
    /// The order was declined for a temporary reason.
    Retryable,
}

/// Orders in progress, and the results of finished orders.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct Orders {
    machines: MachineTable<Order>,
    finished: FxHashMap<OrderId, OrderResult>,
    pub(in crate::engine) retries: Retries,
    /// Last decline of each order, so that an equal decline is not published again.
    last_decline: FxHashMap<OrderId, Decline>,
    waiting_for_capacity: Vec<OrderId>,
    /// Order with a bid that the chain rejected because of newer market parameters. The order waits until the
    /// engine has read these parameters.
    awaits_parameters: Option<OrderId>,
    /// Value of `Retries::sequence` when capacity was reserved for the order.
    reserved: FxHashMap<OrderId, Sequence>,
    pub(in crate::engine) bids: bids::BidCounts,
    pub(in crate::engine) decline_counts: BTreeMap<DeclineCode, u64>,
    pub(in crate::engine) recent_declines: VecDeque<(OrderId, Decline)>,
}

impl Orders {
    /// Returns the ids of all orders in progress, sorted.
    pub(in crate::engine) fn ids(&self) -> Vec<OrderId> {
        self.machines.ids()
    }

    pub(in crate::engine) fn get(&self, id: &OrderId) -> Option<&Order> {
        self.machines.get(id)
    }

    /// Returns the state machines, sorted by id.
    pub(in crate::engine) fn machines(&self) -> Vec<(&OrderId, &Order)> {
        let mut all: Vec<_> = self.machines.iter().collect();
        // Sorted, because the table's order depends on hashing.
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    pub(in crate::engine) fn next_mono(&self) -> Option<Mono> {
        self.machines.next_mono()
    }

    pub(in crate::engine) fn is_due(&self, now: Now) -> bool {
        self.machines.is_due(now)
    }

    pub(in crate::engine) fn due_mono(&self, now: Now) -> impl Iterator<Item = &(Mono, OrderId)> {
        self.machines.due_mono(now)
    }

    pub(in crate::engine) fn due_block(&self, now: Now) -> impl Iterator<Item = &(BlockTime, OrderId)> {
        self.machines.due_block(now)
    }

    /// Returns true if the order is finished and will not be retried.
    pub(in crate::engine) fn is_finished(&self, id: &OrderId) -> bool {
        matches!(
            self.finished.get(id),
            Some(OrderResult::BidUsed | OrderResult::Declined)
        )
    }

    /// Returns true if the order was declined for a temporary reason.
    pub(in crate::engine) fn is_retryable(&self, id: &OrderId) -> bool {
        matches!(self.finished.get(id), Some(OrderResult::Retryable))
    }

    pub(in crate::engine) fn mark_bid_used(&mut self, id: &OrderId) {
        self.retries.remove(id);
        self.finished.insert(id.clone(), OrderResult::BidUsed);
    }

    pub(in crate::engine) fn remove_finished(&mut self, id: &OrderId) {
        self.finished.remove(id);
        self.retries.remove(id);
        self.last_decline.remove(id);
    }

    pub(in crate::engine) fn lower_heights(&mut self, to: Height) {
        self.machines
            .each_mut()
            .for_each(|machine| machine.lower_heights(to));
    }

    pub(in crate::engine) fn retain_open(&mut self, open: &BTreeSet<&OrderId>) {
        self.finished.retain(|id, _| open.contains(id));
        self.bids
            .retain(|id| open.contains(id) || self.machines.contains(id));
        self.retries.retain_open(open);
        self.last_decline.retain(|id, _| open.contains(id));
    }

    /// Queues all declined orders for a retry after a change of the provider record.
    pub(in crate::engine) fn retry_declined(&mut self) {
        let declined = self.finished.iter().filter(|(_, e)| **e == OrderResult::Declined);
        for id in sorted(declined.map(|(id, _)| id)) {
            // The queue retries in batches, so that a changed record does not start all orders at once.
            self.finished.insert(id.clone(), OrderResult::Retryable);
            self.retries.await_capacity(&id);
        }
        self.retries.capacity_freed();
    }

    /// Stores the result of a finished order and schedules a retry.
    ///
    /// - `retry_undecided`: if data for the decision was missing, retries the order.
    /// - `prices_follow_capacity`: if the price was too high, retries the order after capacity is released.
    fn store_outcome(
        &mut self,
        now: Mono,
        id: &OrderId,
        end: &Outcome,
        (retry_undecided, prices_follow_capacity): (bool, bool),
    ) {
        let result = match end {
            Outcome::Won | Outcome::Lost | Outcome::OrderClosed | Outcome::Stopped => None,
            Outcome::BidClosed | Outcome::BidTimeout => Some(OrderResult::BidUsed),
            Outcome::Declined(decline) if **decline == Decline::AlreadyBid => Some(OrderResult::BidUsed),
            // A bid that was never included on the chain does not count as a bid.
            Outcome::Declined(decline) if decline.may_pass() => Some(OrderResult::Retryable),
            Outcome::Declined(_) => Some(OrderResult::Declined),
        };
        let Some(result) = result else {
            return self.remove_finished(id);
        };
        self.finished.insert(id.clone(), result);
        let awaits_parameters = self.awaits_parameters.take_if(|order| order == id).is_some();
        let decline = match end {
            Outcome::Declined(decline) => Some(&**decline),
            Outcome::Won
            | Outcome::Lost
            | Outcome::OrderClosed
            | Outcome::Stopped
            | Outcome::BidClosed
            | Outcome::BidTimeout => None,
        };
        match (result, decline) {
            // The same bid would be rejected again. The next full scan reads the parameters and retries the order.
            (OrderResult::Retryable, _) if awaits_parameters => {}
            (OrderResult::Retryable, Some(Decline::Price { .. })) => {
                self.retries.price_failed(now, id);
                self.retries.await_prices(id);
            }
            (OrderResult::Retryable, Some(Decline::PriceTooHigh { .. } | Decline::PriceDenom { .. })) => {
                self.retries.remove(id);
                if prices_follow_capacity {
                    self.retries.await_capacity(id);
                }
                self.retries.await_prices(id);
            }
            (OrderResult::Retryable, Some(Decline::Unknown { .. })) if retry_undecided => {
                self.retries.decision_failed(now, id)
            }
            (OrderResult::Retryable, _) => self.retries.await_capacity(id),
            (OrderResult::BidUsed | OrderResult::Declined, _) => self.retries.remove(id),
        }
    }

    /// Counts a decline that differs from the last decline of the order. Returns true if the decline was
    /// counted.
    fn count_decline(&mut self, id: &OrderId, decline: &Decline) -> bool {
        if self.last_decline.insert(id.clone(), decline.clone()).as_ref() == Some(decline) {
            return false;
        }
        *self.decline_counts.entry(decline.code()).or_default() += 1;
        if self.recent_declines.len() >= RECENT_DECLINES {
            self.recent_declines.pop_front();
        }
        self.recent_declines.push_back((id.clone(), decline.clone()));
        true
    }
}

impl Engine {
    /// Starts to process an order, unless the order is in progress or finished.
    pub(in crate::engine) fn order_seen(&mut self, id: &OrderId) {
        let is_processed = self.market.orders.machines.contains(id) || self.market.orders.is_finished(id);
        if is_processed || self.role.is_stopping() {
            return;
        }
        self.read_wallet_for_orders();
        let mut actions = Vec::new();
        let machine = Order::from_event(id, &mut actions);
        self.insert_order(id, machine, actions);
    }

    /// Processes an open order from a snapshot. This provider has no bid on the order.
    pub(in crate::engine) fn order_listed(&mut self, order: &Arc<types::Order>) {
        if self.role.is_stopping() {
            return;
        }
        self.read_wallet_for_orders();
        let mut actions = Vec::new();
        let machine = Order::from_record(order, &mut actions);
        self.insert_order(&order.id, machine, actions);
    }

    pub(in crate::engine) fn insert_order(
        &mut self,
        id: &OrderId,
        machine: Order,
        actions: Vec<OrderAction>,
    ) {
        self.changes += 1;
        self.market.orders.finished.remove(id);
        self.market.orders.retries.start_retry(id);
        self.market.of_group.insert(id.group.clone(), id.clone());
        self.market.orders.machines.insert(id, machine);
        let config = Arc::clone(&self.config);
        self.market.orders.machines.set_deadlines(&self.cx(&config), id);
        self.order_actions(id, actions, false);
    }

    pub(in crate::engine) fn drive_order(&mut self, id: &OrderId, input: OrderInput) {
        let config = Arc::clone(&self.config);
        // Determined here, because the machine has no access to the capacity and to the bids of others.
        let displaced = self.reservations.displaced(id).or_else(|| self.full(id));
        let displaced = displaced
            .or_else(|| bidding::check_deposit(self.market.provider_data.params()?, &self.config).err());
        let cx = Cx {
            displaced: displaced.as_ref(),
            ..self.cx(&config)
        };
        // Read before the step, because the step changes the phase.
        let had_bid = self.market.orders.get(id).is_some_and(Order::may_have_bid);
        let Some(actions) = self.market.orders.machines.drive(&cx, id, input) else {
            return;
        };
        self.changes += 1;
        // The outcome is processed after the machine's last actions.
        let done = self.market.orders.get(id).and_then(Order::outcome).cloned();
        self.order_actions(id, actions, had_bid);
        if let Some(end) = done {
            self.order_done(id, &end, had_bid);
        }
    }

    fn order_done(&mut self, id: &OrderId, end: &Outcome, had_bid: bool) {
        self.market.orders.reserved.remove(id);
        self.market.wallet.sent(id, false);
        self.market.orders.machines.remove(id);
        // A newer order of the group may have replaced the entry.
        if self.market.of_group.get(&id.group) == Some(id) {
            self.market.of_group.remove(&id.group);
        }
        self.market.orders.store_outcome(
            self.progress.mono(),
            id,
            end,
            (
                self.market.provider_data.is_registered(),
                self.config.prices_follow_capacity,
            ),
        );
        if let Outcome::Declined(decline) = end
            && self.market.orders.count_decline(id, decline)
        {
            self.publish(Event::OrderDeclined {
                order: id.clone(),
                reason: decline.code(),
                message: decline.to_string(),
            });
        }
        // A bid that was never sent gets no event.
        if let Some(outcome) = end.bid_outcome().filter(|_| had_bid) {
            let bid = id.clone().bid(self.config.provider.clone());
            self.publish(Event::BidEnded { bid, outcome });
        }
    }

    fn order_actions(&mut self, id: &OrderId, actions: Vec<OrderAction>, had_bid: bool) {
        for action in actions {
            match action {
                OrderAction::Call(mut call) => {
                    if let Call::Broadcast(Msg::CreateBid { deposit, .. }) = &call {
                        // Immediately, so that the next order does not use the same balance.
                        self.market.wallet.send(id, deposit, &self.config.bid_fee);
                    }
                    if let Call::CalculatePrice(request) = &mut call {
                        // Set last, so that the utilization is current.
                        request.utilization = self.reservations.utilization(id).map(Box::new);
                        // An order that was declined before uses current prices.
                        let order = self.market.orders.get(id).and_then(Order::record);
                        let is_first = !self.market.orders.last_decline.contains_key(id);
                        request.height = order.filter(|_| is_first).map(|order| order.created_at);
                    }
                    let effect = self.call(CallTarget::Order(id.clone()), call);
                    self.market.orders.machines.set_pending(id, Lane::Main, effect);
                }
                OrderAction::Judge => self.judge(id),
                OrderAction::Reserve => self.reserve(id),
                OrderAction::Count => self.count_bids(id),
                OrderAction::AdjustReservation(offer) => self.reservations.apply_offer(id, &offer),
                OrderAction::Unreserve => {
                    self.reservations.unreserve(id);
                    // A reservation without a bid blocked only the orders that were declined after it.
                    match self.market.orders.reserved.remove(id) {
                        Some(sequence) if !had_bid => {
                            self.market.orders.retries.capacity_freed_since(sequence)
                        }
                        _ => self.market.orders.retries.capacity_freed(),
                    }
                }
                // A retried order is published again only if its result changes.
                OrderAction::Publish(Event::OrderSeen { .. })
                    if self.market.orders.last_decline.contains_key(id) => {}
                OrderAction::Publish(event) => self.publish(event),
                OrderAction::DepositRejected { deposit, reason } => self.deposit_rejected(deposit, reason),
                OrderAction::AwaitBalance { is_first } => self.balance_awaited(id, is_first),
                OrderAction::AwaitParameters => self.market.orders.awaits_parameters = Some(id.clone()),
                OrderAction::Unexpected => self.outbox.count_unexpected(),
            }
        }
    }

    /// Processes the completion of an order's call. Late completions are dropped.
    pub(in crate::engine) fn order_completed(&mut self, id: &OrderId, effect: EffectId, input: OrderInput) {
        let has_landed = matches!(&input, OrderInput::Tx(Ok(TxOutcome::Committed { .. })));
        if !self.market.orders.machines.clear_pending(id, Lane::Main, effect) {
            // The lease was created before the result of the transaction arrived. An order has at most one bid of this
            // provider, so this bid has won.
            if has_landed && self.market.orders.get(id).is_none() {
                self.reservations.confirm_offer(id);
            }
            return;
        }
        let is_proof =
            matches!(input, OrderInput::Tx(_)) && self.market.wallet.sent(id, has_landed) && has_landed;
        self.drive_order(id, input);
        if is_proof {
            self.wake_unfunded();
        }
    }

    fn judge(&mut self, id: &OrderId) {
        let Some(order) = self.market.orders.get(id).and_then(Order::record).map(Arc::clone) else {
            return;
        };
        // The size is checked before any query, because the tenant determines it.
        if let Err(decline) = bidding::check_size(&order.spec) {
            return self.drive_order(id, OrderInput::Judged(Err(decline)));
        }
        let judged = match self
            .market
            .provider_data
            .required_audits(self.progress.mono(), id, &order.spec)
        {
            provider_data::AuditRequirement::Ready(audited) => {
                let facts = bidding::OrderContext {
                    attributes: self.market.provider_data.attributes(),
                    audited: &audited,
                    params: self.market.provider_data.params(),
                    // The bids are counted after the reservation.
                    bids: None,
                };
                bidding::should_bid(&order, &facts, &self.config)
            }
            provider_data::AuditRequirement::Failed(message) => Err(Decline::Unknown { message }),
            provider_data::AuditRequirement::Query(auditors) => {
                for auditor in auditors {
                    self.call(CallTarget::Audit(auditor.clone()), Call::FetchAudit(auditor));
                }
                return;
            }
        };
        self.drive_order(id, OrderInput::Judged(judged));
    }

    pub(super) fn reserve(&mut self, id: &OrderId) {
        if !self.reservations.is_known() {
            self.market.orders.waiting_for_capacity.push(id.clone());
            return;
        }
        if self.awaits_wallet(id) {
            return;
        }
        let Some(order) = self.market.orders.get(id).and_then(Order::record).map(Arc::clone) else {
            return;
        };
        // Read before the reservation, because only later declines can result from it.
        self.market
            .orders
            .reserved
            .insert(id.clone(), self.market.orders.retries.sequence());
        let reserved = self.reservations.reserve(id, &order.spec);
        self.drive_order(id, OrderInput::Reserved(reserved));
    }

    /// Counts the bids of an order from the received events. If the events are incomplete, queries the chain.
    /// The query is omitted if a rejected bid costs no fee.
    fn count_bids(&mut self, id: &OrderId) {
        let is_counted = self
            .market
            .orders
            .bids
            .count_others(id, &self.config.provider)
            .is_some();
        if is_counted || self.config.refused_bids_are_free {
            let counted = self.full(id).map_or(Ok(()), Err);
            return self.drive_order(id, OrderInput::Counted(Ok(counted)));
        }
        let effect = self.call(CallTarget::Order(id.clone()), Call::CountBids(id.clone()));
        self.market.orders.machines.set_pending(id, Lane::Main, effect);
    }

    /// Returns a decline if the order has the maximum number of bids. Returns `None` if the number is lower
    /// or unknown.
    fn full(&self, id: &OrderId) -> Option<Decline> {
        let bids = self.market.orders.bids.count_others(id, &self.config.provider)?;
        bidding::check_bid_count(bids, self.market.provider_data.params()?).err()
    }

    pub(in crate::engine) fn judge_waiting_for(&mut self, auditor: &str) {
        let waiting = self.market.provider_data.take_waiting_for(auditor);
        self.judge_all(waiting);
    }

    /// Decides about all orders that wait for an audit. Also retries declined orders if a snapshot changed
    /// the provider record or the market parameters.
    pub(in crate::engine) fn judge_waiting(&mut self) {
        if self.market.provider_data.take_changed() {
            self.market.orders.retry_declined();
        }
        let waiting = self.market.provider_data.take_waiting();
        self.judge_all(waiting);
    }

    fn judge_all(&mut self, waiting: BTreeSet<OrderId>) {
        for id in waiting {
            // The order may have ended or been decided while it waited.
            if matches!(
                self.market.orders.get(&id).map(Order::phase),
                Some(OrderStage::Judging)
            ) {
                self.judge(&id);
            }
        }
    }

    /// After an inventory update, reserves capacity for waiting orders and retries declined orders.
    pub(in crate::engine) fn inventory_updated(&mut self) {
        for id in std::mem::take(&mut self.market.orders.waiting_for_capacity) {
            // The order may have ended while it waited.
            if matches!(
                self.market.orders.get(&id).map(Order::phase),
                Some(OrderStage::Reserving)
            ) {
                self.reserve(&id);
            }
        }
        // After the orders in progress, which have waited longer.
        self.market.orders.retries.capacity_freed();
    }

    pub(in crate::engine) fn prices_changed(&mut self) {
        self.market.orders.retries.prices_changed();
    }

    pub(in crate::engine) fn retry_orders(&mut self) {
        if self.role.is_stopping() {
            return;
        }
        for id in self.market.orders.retries.take_due(self.progress.mono()) {
            // The order may have been retried or closed since it was queued.
            let still_declined =
                self.market.orders.is_retryable(&id) && !self.market.orders.machines.contains(&id);
            if still_declined {
                self.order_seen(&id);
            }
        }
    }
}

//! The engine's side of orders: which there are, what their machines want, and which are worth another look.

use super::order::{Action, End, Input, Order, Phase};
use super::retries::{Moment, Retries};
use super::{bids, facts};
use crate::bidding::{self, Decline};
use crate::engine::cx::Cx;
use crate::engine::table::{Lane, Table};
use crate::engine::{Call, EffectId, Engine, Target, sorted};
use crate::types::{self, BidId, BlockTime, DeclineCode, Event, Height, Mono, Msg, Now, OrderId, TxOutcome};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Declines kept for people to read.
const RECENT_DECLINES: usize = 256;

/// How an order that is still open on the chain ended for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Ended {
    /// We have bid: never again.
    Spent,
    /// Declined for a reason that stays until our record changes.
    Declined,
    /// Declined for a reason that may pass.
    MayPass,
}

/// All orders in hand, and what is remembered of the others.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct Orders {
    machines: Table<Order>,
    ended: FxHashMap<OrderId, Ended>,
    pub(in crate::engine) retries: Retries,
    /// The last decline of each, so that the same one is told once.
    last_decline: FxHashMap<OrderId, Decline>,
    waiting_for_capacity: Vec<OrderId>,
    /// The order of a bid that the chain has just refused by parameters that are not known here.
    awaits_parameters: Option<OrderId>,
    /// When orders in hand were reserved.
    reserved: FxHashMap<OrderId, Moment>,
    pub(in crate::engine) bids: bids::Bids,
    pub(in crate::engine) decline_counts: BTreeMap<DeclineCode, u64>,
    pub(in crate::engine) recent_declines: VecDeque<(OrderId, Decline)>,
}

impl Orders {
    /// All ids in hand, sorted.
    pub(in crate::engine) fn ids(&self) -> Vec<OrderId> {
        self.machines.ids()
    }

    /// The machine of an order.
    pub(in crate::engine) fn get(&self, id: &OrderId) -> Option<&Order> {
        self.machines.get(id)
    }

    /// Machines in the order of their ids.
    pub(in crate::engine) fn machines(&self) -> Vec<(&OrderId, &Order)> {
        let mut all: Vec<_> = self.machines.iter().collect();
        // The table hashes its ids; what is done for one order after another must be repeatable.
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    /// Earliest monotonic deadline of one in hand.
    pub(in crate::engine) fn next_mono(&self) -> Option<Mono> {
        self.machines.next_mono()
    }

    /// Whether a deadline of any order has come.
    pub(in crate::engine) fn is_due(&self, now: Now) -> bool {
        self.machines.is_due(now)
    }

    /// Deadlines that have come, in the monotonic clock, in their order.
    pub(in crate::engine) fn due_mono(&self, now: Now) -> impl Iterator<Item = &(Mono, OrderId)> {
        self.machines.due_mono(now)
    }

    /// The same in block time.
    pub(in crate::engine) fn due_block(&self, now: Now) -> impl Iterator<Item = &(BlockTime, OrderId)> {
        self.machines.due_block(now)
    }

    /// True when the order has had its end already and is not worth another look.
    pub(in crate::engine) fn is_ended(&self, id: &OrderId) -> bool {
        matches!(self.ended.get(id), Some(Ended::Spent | Ended::Declined))
    }

    /// True when it is remembered as declined for a passing reason.
    pub(in crate::engine) fn may_pass(&self, id: &OrderId) -> bool {
        matches!(self.ended.get(id), Some(Ended::MayPass))
    }

    /// A bid of ours on it has ended.
    pub(in crate::engine) fn spend(&mut self, id: &OrderId) {
        self.retries.forget(id);
        self.ended.insert(id.clone(), Ended::Spent);
    }

    /// The chain says it is over.
    pub(in crate::engine) fn forget_ended(&mut self, id: &OrderId) {
        self.ended.remove(id);
        self.retries.forget(id);
        self.last_decline.remove(id);
    }

    /// Lowers the heights that orders wait for.
    pub(in crate::engine) fn lower_heights(&mut self, to: Height) {
        self.machines
            .each_mut()
            .for_each(|machine| machine.lower_heights(to));
    }

    /// Keeps memories of these only.
    pub(in crate::engine) fn keep_ended(&mut self, open: &BTreeSet<&OrderId>) {
        self.ended.retain(|id, _| open.contains(id));
        self.bids
            .keep(|id| open.contains(id) || self.machines.contains(id));
        self.retries.keep(open);
        self.last_decline.retain(|id, _| open.contains(id));
    }

    /// Our record changed: what was declined may be accepted.
    pub(in crate::engine) fn forget_declines(&mut self) {
        let declined = self.ended.iter().filter(|(_, e)| **e == Ended::Declined);
        for id in sorted(declined.map(|(id, _)| id)) {
            // Through the queue, which takes a few at a time: one new record must not start all of them at once.
            self.ended.insert(id.clone(), Ended::MayPass);
            self.retries.when_capacity_comes(&id);
        }
        self.retries.capacity_freed();
    }

    /// `may_know`: what could not be found out may be there when it is asked for again.
    /// `prices_follow_capacity`: a price that was too high may be lower once capacity comes back.
    fn remember_end(
        &mut self,
        now: Mono,
        id: &OrderId,
        end: &End,
        (may_know, prices_follow_capacity): (bool, bool),
    ) {
        let memory = match end {
            End::Won | End::Lost | End::OrderClosed | End::Stopped => None,
            End::BidClosed | End::BidTimeout => Some(Ended::Spent),
            End::Declined(decline) if **decline == Decline::AlreadyBid => Some(Ended::Spent),
            // A bid that could not land is none.
            End::Declined(decline) if decline.may_pass() => Some(Ended::MayPass),
            End::Declined(_) => Some(Ended::Declined),
        };
        let Some(memory) = memory else {
            return self.forget_ended(id);
        };
        self.ended.insert(id.clone(), memory);
        let awaits_parameters = self.awaits_parameters.take_if(|order| order == id).is_some();
        let decline = match end {
            End::Declined(decline) => Some(&**decline),
            End::Won | End::Lost | End::OrderClosed | End::Stopped | End::BidClosed | End::BidTimeout => None,
        };
        match (memory, decline) {
            // The same bid would be refused again: the next full scan reads the parameters and looks at the order.
            (Ended::MayPass, _) if awaits_parameters => {}
            (Ended::MayPass, Some(Decline::Price { .. })) => {
                self.retries.unpriced(now, id);
                self.retries.when_prices_change(id);
            }
            (Ended::MayPass, Some(Decline::PriceTooHigh { .. } | Decline::PriceDenom { .. })) => {
                self.retries.forget(id);
                if prices_follow_capacity {
                    self.retries.when_capacity_comes(id);
                }
                self.retries.when_prices_change(id);
            }
            (Ended::MayPass, Some(Decline::Unknown { .. })) if may_know => self.retries.undecided(now, id),
            (Ended::MayPass, _) => self.retries.when_capacity_comes(id),
            (Ended::Spent | Ended::Declined, _) => self.retries.forget(id),
        }
    }

    /// Counts a decline; true when it is news.
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
    /// An order was heard of.
    pub(in crate::engine) fn order_heard(&mut self, id: &OrderId) {
        let known = self.market.orders.machines.contains(id) || self.market.orders.is_ended(id);
        if known || self.role.is_stopping() {
            return;
        }
        self.read_wallet_for_orders();
        let mut actions = Vec::new();
        let machine = Order::heard(id, &mut actions);
        self.order_new(id, machine, actions);
    }

    /// An open order from a snapshot, without a bid of ours.
    pub(in crate::engine) fn order_known(&mut self, order: &Arc<types::Order>) {
        if self.role.is_stopping() {
            return;
        }
        self.read_wallet_for_orders();
        let mut actions = Vec::new();
        let machine = Order::known(order, &mut actions);
        self.order_new(&order.id, machine, actions);
    }

    /// A machine with its first actions.
    pub(in crate::engine) fn order_new(&mut self, id: &OrderId, machine: Order, actions: Vec<Action>) {
        self.changes += 1;
        self.market.orders.ended.remove(id);
        self.market.orders.retries.picked_up(id);
        self.market.of_group.insert(id.group.clone(), id.clone());
        self.market.orders.machines.insert(id, machine);
        let config = Arc::clone(&self.config);
        self.market.orders.machines.settle(&self.cx(&config), id);
        self.order_actions(id, actions, false);
    }

    /// Feeds one input to one order; nothing happens where there is none.
    pub(in crate::engine) fn drive_order(&mut self, id: &OrderId, input: Input) {
        let config = Arc::clone(&self.config);
        // Weighed for the machine, which knows neither capacity nor the bids of others.
        let displaced = self.reservations.displaced(id).or_else(|| self.full(id));
        let displaced =
            displaced.or_else(|| bidding::check_deposit(self.market.facts.params()?, &self.config).err());
        let cx = Cx {
            displaced: displaced.as_ref(),
            ..self.cx(&config)
        };
        // Asked before the step, after which the phase does not tell any more.
        let had_bid = self.market.orders.get(id).is_some_and(Order::may_have_bid);
        let Some(actions) = self.market.orders.machines.drive(&cx, id, input) else {
            return;
        };
        self.changes += 1;
        // The end is kept, and told after the machine's last actions.
        let done = self.market.orders.get(id).and_then(Order::ended).cloned();
        self.order_actions(id, actions, had_bid);
        if let Some(end) = done {
            self.order_done(id, &end, had_bid);
        }
    }

    fn order_done(&mut self, id: &OrderId, end: &End, had_bid: bool) {
        self.market.orders.reserved.remove(id);
        self.market.wallet.sent(id, false);
        self.market.orders.machines.remove(id);
        // A newer order of the group may have taken the place.
        if self.market.of_group.get(&id.group) == Some(id) {
            self.market.of_group.remove(&id.group);
        }
        self.market.orders.remember_end(
            self.progress.mono(),
            id,
            end,
            (
                self.market.facts.is_registered(),
                self.config.prices_follow_capacity,
            ),
        );
        if let End::Declined(decline) = end
            && self.market.orders.count_decline(id, decline)
        {
            self.publish(Event::OrderDeclined {
                order: id.clone(),
                reason: decline.code(),
                message: decline.to_string(),
            });
        }
        // A bid that was never sent has no end to be told of.
        if let Some(outcome) = end.of_bid().filter(|_| had_bid) {
            let bid = BidId {
                order: id.clone(),
                provider: self.config.provider.clone(),
            };
            self.publish(Event::BidEnded { bid, outcome });
        }
    }

    fn order_actions(&mut self, id: &OrderId, actions: Vec<Action>, had_bid: bool) {
        for action in actions {
            match action {
                Action::Call(mut call) => {
                    if let Call::Broadcast(Msg::CreateBid { deposit, .. }) = &call {
                        // At once, so that the next order does not count on the same money.
                        self.market.wallet.send(id, deposit, &self.config.bid_fee);
                    }
                    if let Call::CalculatePrice(request) = &mut call {
                        // As late as this, so that the amounts are those of the moment of asking.
                        request.utilization = self.reservations.utilization(id).map(Box::new);
                        // A decline is judged again by the prices of the moment.
                        let order = self.market.orders.get(id).and_then(Order::record);
                        let is_first = !self.market.orders.last_decline.contains_key(id);
                        request.height = order.filter(|_| is_first).map(|order| order.created_at);
                    }
                    let effect = self.call(Target::Order(id.clone()), call);
                    self.market.orders.machines.sent(id, Lane::Main, effect);
                }
                Action::Judge => self.judge(id),
                Action::Reserve => self.reserve(id),
                Action::Count => self.count_bids(id),
                Action::Promised(offer) => self.reservations.keep_promise(id, &offer),
                Action::Unreserve => {
                    self.reservations.unreserve(id);
                    // Held without a bid, it kept out only those that were declined since.
                    match self.market.orders.reserved.remove(id) {
                        Some(moment) if !had_bid => self.market.orders.retries.freed_since(moment),
                        _ => self.market.orders.retries.capacity_freed(),
                    }
                }
                // An order looked at again is no news until the answer is another one.
                Action::Publish(Event::OrderSeen { .. })
                    if self.market.orders.last_decline.contains_key(id) => {}
                Action::Publish(event) => self.publish(event),
                Action::MoneyRefused { deposit, reason } => self.money_refused(deposit, reason),
                Action::AwaitMoney { is_news } => self.money_awaited(id, is_news),
                Action::AwaitParameters => self.market.orders.awaits_parameters = Some(id.clone()),
                Action::Unexpected => self.outbox.count_unexpected(),
            }
        }
    }

    /// A completion of an order's call; late ones of a call nobody waits for any more are dropped.
    pub(in crate::engine) fn order_completed(&mut self, id: &OrderId, effect: EffectId, input: Input) {
        if !self.market.orders.machines.answered(id, Lane::Main, effect) {
            return;
        }
        let mut is_proof = false;
        if let Input::Tx(result) = &input {
            let has_landed = matches!(result, Ok(TxOutcome::Committed { .. }));
            is_proof = self.market.wallet.sent(id, has_landed) && has_landed;
        }
        self.drive_order(id, input);
        if is_proof {
            self.wake_unfunded();
        }
    }

    fn judge(&mut self, id: &OrderId) {
        let Some(order) = self.market.orders.get(id).and_then(Order::record).map(Arc::clone) else {
            return;
        };
        // Before anybody is asked, because the size of an order is its tenant's choice.
        if let Err(decline) = bidding::check_size(&order.spec) {
            return self.drive_order(id, Input::Judged(Err(decline)));
        }
        let judged = match self.market.facts.needs(self.progress.mono(), id, &order.spec) {
            facts::Needs::Ready(audited) => {
                let facts = bidding::Facts {
                    attributes: self.market.facts.attributes(),
                    audited: &audited,
                    params: self.market.facts.params(),
                    // Counted once it is reserved.
                    bids: None,
                };
                bidding::should_bid(&order, &facts, &self.config)
            }
            facts::Needs::Failed(message) => Err(Decline::Unknown { message }),
            facts::Needs::Ask(auditors) => {
                for auditor in auditors {
                    self.call(Target::Audit(auditor.clone()), Call::FetchAudit(auditor));
                }
                return;
            }
        };
        self.drive_order(id, Input::Judged(judged));
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
        // Taken before the reservation: only later declines can be its doing.
        self.market
            .orders
            .reserved
            .insert(id.clone(), self.market.orders.retries.moment());
        let reserved = self.reservations.reserve(id, &order.spec);
        self.drive_order(id, Input::Reserved(reserved));
    }

    /// Counts the bids of an order: from what was told, or by a question, which only a bid is worth that costs
    /// something when the chain refuses it.
    fn count_bids(&mut self, id: &OrderId) {
        let told = self
            .market
            .orders
            .bids
            .of_others(id, &self.config.provider)
            .is_some();
        if told || self.config.refused_bids_are_free {
            let counted = self.full(id).map_or(Ok(()), Err);
            return self.drive_order(id, Input::Counted(Ok(counted)));
        }
        let effect = self.call(Target::Order(id.clone()), Call::CountBids(id.clone()));
        self.market.orders.machines.sent(id, Lane::Main, effect);
    }

    /// Why an order takes no bid of ours any more, as far as its bids were told.
    fn full(&self, id: &OrderId) -> Option<Decline> {
        let bids = self.market.orders.bids.of_others(id, &self.config.provider)?;
        bidding::check_bid_count(bids, self.market.facts.params()?).err()
    }

    /// An auditor has answered: orders that waited for it are judged.
    pub(in crate::engine) fn judge_waiting_for(&mut self, auditor: &str) {
        let waiting = self.market.facts.take_waiting_for(auditor);
        self.judge_all(waiting);
    }

    /// A snapshot was applied: orders that waited for facts about us are judged, and those that were declined by
    /// facts that are others are looked at again.
    pub(in crate::engine) fn judge_waiting(&mut self) {
        if self.market.facts.take_changed() {
            self.market.orders.forget_declines();
        }
        let waiting = self.market.facts.take_waiting();
        self.judge_all(waiting);
    }

    fn judge_all(&mut self, waiting: BTreeSet<OrderId>) {
        for id in waiting {
            // It may have ended, or been judged, while it waited.
            if matches!(
                self.market.orders.get(&id).map(Order::phase),
                Some(Phase::Judging)
            ) {
                self.judge(&id);
            }
        }
    }

    /// Capacity is known, or changed.
    pub(in crate::engine) fn capacity_known(&mut self) {
        for id in std::mem::take(&mut self.market.orders.waiting_for_capacity) {
            // It may have ended while it waited.
            if matches!(
                self.market.orders.get(&id).map(Order::phase),
                Some(Phase::Reserving)
            ) {
                self.reserve(&id);
            }
        }
        // After those in hand, which have waited since before capacity was known.
        self.market.orders.retries.capacity_freed();
    }

    /// The prices changed: orders that were declined for theirs are looked at again.
    pub(in crate::engine) fn prices_changed(&mut self) {
        self.market.orders.retries.prices_changed();
    }

    /// Looks again at orders that were declined for a passing reason, a few at a time.
    pub(in crate::engine) fn orders_retry(&mut self) {
        if self.role.is_stopping() {
            return;
        }
        for id in self.market.orders.retries.take_due(self.progress.mono()) {
            // It may have been taken up, or be over, since it was put in the queue.
            let still_declined =
                self.market.orders.may_pass(&id) && !self.market.orders.machines.contains(&id);
            if still_declined {
                self.order_heard(&id);
            }
        }
    }
}

//! Counts of orders: sources, evaluations, reservations and outcomes.

use super::{KeyCounts, Moment, add};
use crate::engine::{Call, Effect, OrderPhase, Status};
use crate::provider::statistics::{GO_BOUNDS, RESERVATION_BOUNDS};
use crate::statistics::{CALL_BOUNDS, DurationHistogram};
use crate::types::{DeclineCode, Event, Height, Msg, OrderId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of orders in progress for which evaluations and delays are measured.
const ORDERS_MAX: usize = 20_000;
/// Maximum number of blocks between an order and its bid in the statistics. Larger numbers count as this number.
const BLOCKS_MAX: u64 = 1000;

/// Order in progress.
#[derive(Debug)]
struct OrderProgress {
    height: Height,
    seen: Instant,
    is_reserved: bool,
    has_bid: bool,
    /// Outcome that the chain reported.
    closed: Option<&'static str>,
}

#[derive(Debug)]
pub(super) struct OrderCounts {
    in_progress: FxHashMap<OrderId, OrderProgress>,
    /// Sent bid transactions of orders in progress, by action. The value is true after a success.
    sent: FxHashMap<OrderId, BTreeMap<&'static str, bool>>,
    /// Orders with a pending transaction that closes the bid.
    closing: FxHashSet<OrderId>,
    pub(super) sources: KeyCounts<&'static str>,
    pub(super) outcomes: KeyCounts<&'static str>,
    pub(super) no_bid_outcomes: KeyCounts<&'static str>,
    pub(super) evaluations: KeyCounts<&'static str>,
    pub(super) reservations: KeyCounts<(&'static str, &'static str)>,
    pub(super) insufficient_capacity: u64,
    pub(super) bid_results: KeyCounts<(&'static str, &'static str)>,
    pub(super) bid_blocks: KeyCounts<u64>,
    pub(super) bid_delay: DurationHistogram,
    pub(super) reserving: DurationHistogram,
    pub(super) reserving_fine: DurationHistogram,
}

/// Step in which the engine declined an order, or in which the evaluation failed.
#[derive(Debug, PartialEq, Eq)]
enum DeclineStage {
    /// The engine was checking the order against the rules of the provider.
    Rules,
    /// The engine made no decision because of an error.
    Undecided,
    /// The engine was reserving capacity for the order.
    Capacity,
    /// The engine had reserved capacity for the order.
    Reserved,
}

const fn stage(code: DeclineCode) -> DeclineStage {
    match code {
        DeclineCode::ExternalPortsExhausted
        | DeclineCode::InsufficientCapacity
        | DeclineCode::LeasedIpsExhausted => DeclineStage::Capacity,
        DeclineCode::AlreadyBid
        | DeclineCode::OrderFull
        | DeclineCode::Price
        | DeclineCode::PriceDenom
        | DeclineCode::PriceTooHigh
        | DeclineCode::Refused => DeclineStage::Reserved,
        DeclineCode::Unknown => DeclineStage::Undecided,
        DeclineCode::Attributes
        | DeclineCode::Deposit
        | DeclineCode::Gpu
        | DeclineCode::InvalidGroup
        | DeclineCode::NoHostnames
        | DeclineCode::NoLeasedIps
        | DeclineCode::NotForUs
        | DeclineCode::Reclamation
        | DeclineCode::ReclamationRange
        | DeclineCode::SignedBy
        | DeclineCode::Storage
        | DeclineCode::TooLarge
        | DeclineCode::TooManyAuditors
        | DeclineCode::TooManyVolumes
        | DeclineCode::Unsupported => DeclineStage::Rules,
    }
}

impl OrderCounts {
    pub(super) fn new() -> Self {
        Self {
            in_progress: FxHashMap::default(),
            sent: FxHashMap::default(),
            closing: FxHashSet::default(),
            sources: KeyCounts::new(),
            outcomes: KeyCounts::new(),
            no_bid_outcomes: KeyCounts::new(),
            evaluations: KeyCounts::new(),
            reservations: KeyCounts::new(),
            insufficient_capacity: 0,
            bid_results: KeyCounts::new(),
            bid_blocks: KeyCounts::new(),
            bid_delay: DurationHistogram::new(&CALL_BOUNDS),
            reserving: DurationHistogram::new(&GO_BOUNDS),
            reserving_fine: DurationHistogram::new(&RESERVATION_BOUNDS),
        }
    }

    /// Returns true if the finished `CloseBid` closed a bid, and not a lease. Removes the order from
    /// `closing`.
    pub(super) fn take_closing(&mut self, order: &OrderId) -> bool {
        self.closing.remove(order)
    }

    pub(super) fn closed(&mut self, order: &OrderId, outcome: &'static str) {
        if let Some(progress) = self.in_progress.get_mut(order) {
            progress.closed.get_or_insert(outcome);
        }
    }

    /// Counts the first successful bid transaction of an order, for each action. Failures are counted when
    /// the order has ended.
    pub(super) fn bid_sent(&mut self, order: &OrderId, action: &'static str, is_success: bool) {
        let sent = self.sent.entry(order.clone()).or_default();
        let has_succeeded = sent.entry(action).or_default();
        if is_success && !std::mem::replace(has_succeeded, true) {
            add(&mut self.bid_results, (action, "success"));
        }
    }

    pub(super) fn effect(&mut self, effect: &Effect, moment: &Moment) {
        match effect {
            Effect::Call(_, Call::CountBids(order)) => self.reserved(order),
            // The request has no order. Capacity is reserved in the same step, unless the bids are counted before.
            Effect::Call(_, Call::CalculatePrice(_)) => self.measure_step(moment.step),
            Effect::Call(_, Call::Broadcast(Msg::CreateBid { id, .. })) => self.reserved(&id.order),
            // A close of a lease is the same message.
            Effect::Call(_, Call::Broadcast(Msg::CloseBid { id, .. }))
                if self.in_progress.contains_key(&id.order) || self.sent.contains_key(&id.order) =>
            {
                self.closing.insert(id.order.clone());
            }
            Effect::Publish(event) => self.event(event, moment),
            Effect::Call(..) | Effect::Reply(..) => {}
        }
    }

    fn event(&mut self, event: &Event, moment: &Moment) {
        match event {
            Event::OrderSeen { order } => {
                let source = if moment.is_snapshot { "snapshot" } else { "event" };
                self.begin(order, source, moment);
            }
            Event::BidAdopted { bid, .. } => {
                self.begin(&bid.order, "bid", moment);
                if let Some(progress) = self.in_progress.get_mut(&bid.order) {
                    (progress.is_reserved, progress.has_bid) = (true, true);
                }
            }
            Event::BidPlaced { bid, .. } => {
                // The transaction may have had an unknown outcome.
                if self.sent.contains_key(&bid.order) {
                    self.bid_sent(&bid.order, "open", true);
                }
                self.placed(&bid.order, moment);
            }
            Event::OrderDeclined { order, reason, .. } => self.declined(order, *reason, moment),
            Event::BidEnded { bid, outcome } => self.ended(&bid.order, outcome.name(), true),
            Event::LeaseWon { lease, .. } => self.ended(&lease.order, "won", false),
            _ => {}
        }
    }

    fn begin(&mut self, order: &OrderId, source: &'static str, moment: &Moment) {
        add(&mut self.sources, source);
        if self.in_progress.len() < ORDERS_MAX {
            let progress = OrderProgress {
                height: moment.height,
                seen: moment.at,
                is_reserved: false,
                has_bid: false,
                closed: None,
            };
            self.in_progress.insert(order.clone(), progress);
        }
    }

    /// Counts the successful reservation of an order, at most once.
    fn reserved(&mut self, order: &OrderId) {
        if let Some(progress) = self.in_progress.get_mut(order)
            && !std::mem::replace(&mut progress.is_reserved, true)
        {
            self.accepted("success");
        }
    }

    fn accepted(&mut self, reservation: &'static str) {
        add(&mut self.evaluations, "accept");
        add(&mut self.reservations, ("open", reservation));
    }

    fn measure_step(&mut self, step: Duration) {
        self.reserving.record(step);
        self.reserving_fine.record(step);
    }

    fn placed(&mut self, order: &OrderId, moment: &Moment) {
        if let Some(progress) = self.in_progress.get_mut(order)
            && !std::mem::replace(&mut progress.has_bid, true)
        {
            let blocks = moment.height.saturating_sub(progress.height).min(BLOCKS_MAX);
            add(&mut self.bid_blocks, blocks);
            self.bid_delay
                .record(moment.at.saturating_duration_since(progress.seen));
        }
    }

    fn declined(&mut self, order: &OrderId, code: DeclineCode, moment: &Moment) {
        // A retried order has no entry.
        let Some(progress) = self.in_progress.remove(order) else {
            return;
        };
        add(&mut self.outcomes, "declined");
        match stage(code) {
            _ if progress.is_reserved => add(&mut self.reservations, ("close", "success")),
            DeclineStage::Rules => add(&mut self.evaluations, "decline"),
            DeclineStage::Undecided => add(&mut self.evaluations, "fail"),
            DeclineStage::Capacity => {
                self.accepted("fail");
                self.insufficient_capacity += u64::from(code == DeclineCode::InsufficientCapacity);
                self.measure_step(moment.step);
            }
            DeclineStage::Reserved => {
                self.accepted("success");
                add(&mut self.reservations, ("close", "success"));
            }
        }
    }

    fn ended(&mut self, order: &OrderId, outcome: &'static str, is_released: bool) {
        add(&mut self.outcomes, outcome);
        if !is_released && let Some(sent) = self.sent.remove(order) {
            count_failures(&mut self.bid_results, &sent);
        }
        let Some(progress) = self.in_progress.remove(order) else {
            return;
        };
        if !progress.is_reserved {
            self.accepted("success");
        }
        if is_released {
            add(&mut self.reservations, ("close", "success"));
        }
    }

    /// Counts the reservations of the orders in `status`. Orders in progress that are missing in `status` are
    /// counted as ended without a bid.
    pub(super) fn settle(&mut self, status: &Status) {
        if self.in_progress.is_empty() && self.sent.is_empty() {
            return;
        }
        for order in &status.orders {
            match order.phase {
                OrderPhase::Looking | OrderPhase::Judging | OrderPhase::Reserving | OrderPhase::Done => {}
                _ => self.reserved(&order.order),
            }
        }
        let live: BTreeSet<&OrderId> = status.orders.iter().map(|order| &order.order).collect();
        let ended = |order: &OrderId| !live.contains(order);
        let settled = |order: &OrderId, _: &mut _| ended(order) && !self.closing.contains(order);
        for (_, sent) in self.sent.extract_if(settled) {
            count_failures(&mut self.bid_results, &sent);
        }
        let (outcomes, reservations) = (&mut self.outcomes, &mut self.reservations);
        self.in_progress.retain(|order, progress| {
            let is_live = !ended(order);
            if !is_live {
                add(outcomes, "no_bid");
                if let Some(outcome) = progress.closed {
                    add(&mut self.no_bid_outcomes, outcome);
                }
                if progress.is_reserved {
                    add(reservations, ("close", "success"));
                }
            }
            is_live
        });
    }
}

fn count_failures(
    results: &mut KeyCounts<(&'static str, &'static str)>,
    sent: &BTreeMap<&'static str, bool>,
) {
    for (action, _) in sent.iter().filter(|(_, has_succeeded)| !**has_succeeded) {
        add(results, (*action, "fail"));
    }
}

//! Counts of orders: sources, evaluations, reservations and outcomes.

use super::{Counts, Moment, add};
use crate::engine::{Call, Effect, OrderPhase, Status};
use crate::provider::statistics::{GO_BOUNDS, RESERVATION_BOUNDS};
use crate::statistics::{CALL_BOUNDS, DurationHistogram};
use crate::types::{DeclineCode, Event, Height, Msg, OrderId};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of orders in progress for which evaluations and delays are measured.
const ORDERS_MAX: usize = 20_000;
/// Maximum number of blocks between an order and its bid in the statistics. Larger numbers count as this number.
const BLOCKS_MAX: u64 = 1000;

/// Order in progress.
#[derive(Debug)]
struct Progress {
    height: Height,
    seen: Instant,
    is_reserved: bool,
    has_bid: bool,
}

#[derive(Debug)]
pub(super) struct OrderCounts {
    in_progress: FxHashMap<OrderId, Progress>,
    pub(super) sources: Counts<&'static str>,
    pub(super) outcomes: Counts<&'static str>,
    pub(super) evaluations: Counts<&'static str>,
    pub(super) reservations: Counts<(&'static str, &'static str)>,
    pub(super) bid_blocks: Counts<u64>,
    pub(super) bid_delay: DurationHistogram,
    pub(super) reserving: DurationHistogram,
    pub(super) reserving_fine: DurationHistogram,
}

/// Step of the engine that ended with the decline or the failure of an order.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// The engine was checking the order against the rules of the provider.
    Rules,
    /// The engine made no decision because of an error.
    Undecided,
    /// The engine was reserving capacity for the order.
    Capacity,
    /// The engine had already reserved capacity for the order.
    Reserved,
}

const fn stage(code: DeclineCode) -> Stage {
    match code {
        DeclineCode::ExternalPortsExhausted
        | DeclineCode::InsufficientCapacity
        | DeclineCode::LeasedIpsExhausted => Stage::Capacity,
        DeclineCode::AlreadyBid
        | DeclineCode::OrderFull
        | DeclineCode::Price
        | DeclineCode::PriceDenom
        | DeclineCode::PriceTooHigh
        | DeclineCode::Refused => Stage::Reserved,
        DeclineCode::Unknown => Stage::Undecided,
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
        | DeclineCode::TooManyVolumes => Stage::Rules,
    }
}

impl OrderCounts {
    pub(super) fn new() -> Self {
        Self {
            in_progress: FxHashMap::default(),
            sources: Counts::new(),
            outcomes: Counts::new(),
            evaluations: Counts::new(),
            reservations: Counts::new(),
            bid_blocks: Counts::new(),
            bid_delay: DurationHistogram::new(&CALL_BOUNDS),
            reserving: DurationHistogram::new(&GO_BOUNDS),
            reserving_fine: DurationHistogram::new(&RESERVATION_BOUNDS),
        }
    }

    /// Returns whether the order is in progress. After its bid becomes a lease, an order is no longer in
    /// progress.
    pub(super) fn is_in_progress(&self, order: &OrderId) -> bool {
        self.in_progress.contains_key(order)
    }

    pub(super) fn effect(&mut self, effect: &Effect, moment: &Moment) {
        match effect {
            Effect::Call(_, Call::CountBids(order)) => self.reserved(order),
            // The request has no order. Capacity is reserved in the same step, unless the bids are counted before.
            Effect::Call(_, Call::CalculatePrice(_)) => self.measure_step(moment.step),
            Effect::Call(_, Call::Broadcast(Msg::CreateBid { id, .. })) => self.reserved(&id.order),
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
            Event::BidPlaced { bid, .. } => self.placed(&bid.order, moment),
            Event::OrderDeclined { order, reason, .. } => self.declined(order, *reason, moment),
            Event::BidEnded { bid, outcome } => self.ended(&bid.order, outcome.name(), true),
            Event::LeaseWon { lease, .. } => self.ended(&lease.order, "won", false),
            _ => {}
        }
    }

    fn begin(&mut self, order: &OrderId, source: &'static str, moment: &Moment) {
        add(&mut self.sources, source);
        if self.in_progress.len() < ORDERS_MAX {
            let progress = Progress {
                height: moment.height,
                seen: moment.at,
                is_reserved: false,
                has_bid: false,
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
            Stage::Rules => add(&mut self.evaluations, "decline"),
            Stage::Undecided => add(&mut self.evaluations, "fail"),
            Stage::Capacity => {
                self.accepted("fail");
                self.measure_step(moment.step);
            }
            Stage::Reserved => {
                self.accepted("success");
                add(&mut self.reservations, ("close", "success"));
            }
        }
    }

    fn ended(&mut self, order: &OrderId, outcome: &'static str, is_released: bool) {
        add(&mut self.outcomes, outcome);
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
    /// counted as ended without a bid, because such orders end without an event.
    pub(super) fn settle(&mut self, status: &Status) {
        if self.in_progress.is_empty() {
            return;
        }
        for order in &status.orders {
            match order.phase {
                OrderPhase::Looking | OrderPhase::Judging | OrderPhase::Reserving | OrderPhase::Done => {}
                _ => self.reserved(&order.order),
            }
        }
        let live: BTreeSet<&OrderId> = status.orders.iter().map(|order| &order.order).collect();
        let (outcomes, reservations) = (&mut self.outcomes, &mut self.reservations);
        self.in_progress.retain(|order, progress| {
            let is_live = live.contains(order);
            if !is_live {
                add(outcomes, "no_bid");
                if progress.is_reserved {
                    add(reservations, ("close", "success"));
                }
            }
            is_live
        });
    }
}

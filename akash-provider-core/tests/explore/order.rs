//! The order machine with a chain that takes every allowed choice.

use crate::fixture::{Clock, bid_id, order_id, permanent, price, spec, transient};
use crate::search::{World, explore};
use akash_provider_core::bidding::Decline;
use akash_provider_core::engine::Call;
use akash_provider_core::engine::machines::order::{Order, OrderAction, OrderInput, OrderStage, Outcome};
use akash_provider_core::types::{
    self, Agreement, Bid, BidState, BlockTime, Msg, Observed, OrderState, TxError, TxOutcome,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// Time in which a block can include an unconfirmed transaction, in milliseconds of block time.
const EXPIRY: i64 = 60_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum InFlight {
    Order,
    Count,
    Price,
    Bid,
    Create,
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum MarketEvent {
    BidObserved,
    BidClosed,
    OrderClosed,
    Lost,
    Won,
}

/// Transaction with an unknown outcome. No block contains the transaction yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Unconfirmed {
    create: bool,
    expires: BlockTime,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct OrderWorld {
    machine: Order,
    clock: Clock,
    in_flight: Option<InFlight>,
    reserved: bool,
    bid: Option<BidState>,
    order: OrderState,
    unconfirmed: Vec<Unconfirmed>,
    events: VecDeque<MarketEvent>,
    creates: u8,
    lost_then_closed: bool,
    standby_wrote: bool,
    two_calls: bool,
    oversold: bool,
    budget: u8,
    switches: u8,
}

fn record(state: OrderState) -> types::Order {
    types::Order {
        id: order_id(),
        state,
        spec: Arc::new(spec()),
        created_at: 1,
        reclamation_min_window: None,
    }
}

impl OrderWorld {
    fn start(budget: u8) -> Self {
        let mut out = Vec::new();
        let machine = Order::from_event(&order_id(), &mut out);
        let mut world = Self {
            machine,
            clock: Clock::new(),
            in_flight: None,
            reserved: false,
            bid: None,
            order: OrderState::Open,
            unconfirmed: Vec::new(),
            events: VecDeque::new(),
            creates: 0,
            lost_then_closed: false,
            standby_wrote: false,
            two_calls: false,
            oversold: false,
            budget,
            switches: 1,
        };
        world.act(out);
        world
    }

    fn feed(mut self, input: OrderInput) -> Self {
        let mut out = Vec::new();
        self.machine = self.machine.transition(&self.clock.cx(), input, &mut out);
        self.act(out);
        self
    }

    fn act(&mut self, actions: Vec<OrderAction>) {
        for action in actions {
            match action {
                OrderAction::Call(call) => self.call(call),
                OrderAction::Judge => *self = self.clone().feed(OrderInput::Judged(Ok(()))),
                OrderAction::Reserve => {
                    self.reserved = true;
                    *self = self
                        .clone()
                        .feed(OrderInput::Reserved(Ok(Arc::new(spec().resources))));
                }
                OrderAction::Count => {
                    self.two_calls |= self.in_flight.is_some();
                    self.in_flight = Some(InFlight::Count);
                }
                OrderAction::AdjustReservation(_)
                | OrderAction::DepositRejected { .. }
                | OrderAction::AwaitBalance { .. }
                | OrderAction::AwaitParameters => {}
                OrderAction::Unreserve => self.reserved = false,
                OrderAction::Publish(_) | OrderAction::Unexpected => {}
            }
        }
    }

    fn call(&mut self, call: Call) {
        self.two_calls |= self.in_flight.is_some();
        let bids = matches!(call, Call::Broadcast(Msg::CreateBid { .. }));
        self.oversold |= bids && self.clock.displaced;
        self.standby_wrote |= call.is_write() && !self.clock.leader;
        self.in_flight = Some(match call {
            Call::FetchOrder(_) => InFlight::Order,
            Call::CalculatePrice(_) => InFlight::Price,
            Call::FetchBid(_) => InFlight::Bid,
            Call::Broadcast(Msg::CreateBid { .. }) => InFlight::Create,
            Call::Broadcast(Msg::CloseBid { .. }) => {
                self.lost_then_closed |= matches!(self.machine.phase(), OrderStage::Done(Outcome::Lost));
                InFlight::Close
            }
            other => panic!("unexpected call of an order: {other:?}"),
        });
    }

    /// Delivers the completion of the pending call, unless the machine is done.
    fn complete(&self, input: OrderInput, change: impl FnOnce(&mut Self)) -> Self {
        let mut next = self.clone();
        next.in_flight = None;
        change(&mut next);
        if matches!(next.machine.phase(), OrderStage::Done(_)) {
            next
        } else {
            next.feed(input)
        }
    }

    /// Adds the bid to the simulated chain. Returns the same errors as a real chain.
    fn land_create(&mut self) -> Result<(), TxError> {
        if self.order != OrderState::Open {
            return Err(TxError::OrderNotOpen);
        }
        if self.bid.is_some() {
            return Err(TxError::BidExists);
        }
        self.bid = Some(BidState::Open);
        self.creates += 1;
        self.events.push_back(MarketEvent::BidObserved);
        Ok(())
    }

    fn land_close(&mut self) -> Result<(), TxError> {
        match self.bid {
            Some(BidState::Open) => {
                self.bid = Some(BidState::Closed);
                self.events.push_back(MarketEvent::BidClosed);
                Ok(())
            }
            Some(BidState::Active) => {
                self.bid = Some(BidState::Closed);
                self.order = OrderState::Closed;
                self.events
                    .extend([MarketEvent::BidClosed, MarketEvent::OrderClosed]);
                Ok(())
            }
            Some(BidState::Lost | BidState::Closed) | None => Err(TxError::UnknownBid),
        }
    }

    fn tx(&self, create: bool, all: &mut Vec<(String, Self)>) {
        let name = if create { "create" } else { "close" };
        let mut landed = self.clone();
        let result = if create {
            landed.land_create()
        } else {
            landed.land_close()
        };
        let input = match result {
            Ok(()) => OrderInput::Tx(Ok(TxOutcome::Committed { height: 11 })),
            Err(error) => {
                let (code, log) = ("market/0".to_owned(), String::new());
                OrderInput::Tx(Ok(TxOutcome::Rejected { error, code, log }))
            }
        };
        all.push((
            format!("{name} is executed: {result:?}"),
            landed.complete(input, |_| {}),
        ));
        if self.budget == 0 {
            return;
        }
        let expires = BlockTime(self.clock.block_time.0 + EXPIRY);
        let unknown = || OrderInput::Tx(Ok(TxOutcome::Unknown { expires }));
        if result.is_ok() {
            let mut hidden = landed.clone();
            hidden.budget -= 1;
            all.push((
                format!("{name} is executed, outcome unknown"),
                hidden.complete(unknown(), |_| {}),
            ));
        }
        let added = self.complete(unknown(), |w| {
            w.budget -= 1;
            w.unconfirmed.push(Unconfirmed { create, expires });
        });
        all.push((format!("{name} outcome unknown, unconfirmed"), added));
        let unsent = self.complete(OrderInput::Tx(Err(transient())), |w| w.budget -= 1);
        all.push((format!("{name} not sent"), unsent));
    }

    fn counted(&self, all: &mut Vec<(String, Self)>) {
        let fail = |w: &mut Self| w.budget -= 1;
        let counted = OrderInput::Counted(Ok(Ok(())));
        all.push(("bids counted".to_owned(), self.complete(counted, |_| {})));
        let full = Decline::OrderFull { bids: 21, limit: 20 };
        let full = OrderInput::Counted(Ok(Err(full)));
        all.push(("too many bids".to_owned(), self.complete(full, |_| {})));
        if self.budget > 0 {
            let away = OrderInput::Counted(Err(transient()));
            all.push(("bids not counted".to_owned(), self.complete(away, fail)));
            let never = OrderInput::Counted(Err(permanent()));
            all.push(("bids cannot be counted".to_owned(), self.complete(never, fail)));
        }
    }

    fn completions(&self, all: &mut Vec<(String, Self)>) {
        let fail = |w: &mut Self| w.budget -= 1;
        match &self.in_flight {
            None => {}
            Some(InFlight::Order) => {
                let found = OrderInput::Fetched(Ok(Some(Arc::new(record(self.order)))));
                all.push(("order fetched".to_owned(), self.complete(found, |_| {})));
                if self.budget > 0 {
                    all.push((
                        "order not found yet".to_owned(),
                        self.complete(OrderInput::Fetched(Ok(None)), fail),
                    ));
                    let gone = OrderInput::Fetched(Err(permanent()));
                    all.push(("order unreadable".to_owned(), self.complete(gone, fail)));
                }
            }
            Some(InFlight::Count) => self.counted(all),
            Some(InFlight::Price) => {
                all.push((
                    "priced".to_owned(),
                    self.complete(OrderInput::Priced(Ok(price(5))), |_| {}),
                ));
                all.push((
                    "price too high".to_owned(),
                    self.complete(OrderInput::Priced(Ok(price(50))), |_| {}),
                ));
                if self.budget > 0 {
                    all.push((
                        "pricing unavailable".to_owned(),
                        self.complete(OrderInput::Priced(Err(transient())), fail),
                    ));
                    all.push((
                        "no price".to_owned(),
                        self.complete(OrderInput::Priced(Err(permanent())), fail),
                    ));
                }
            }
            Some(InFlight::Bid) => {
                let seen = |state: Option<BidState>, height: u64| {
                    let value = state.map(|state| Bid {
                        id: bid_id(),
                        state,
                        price: price(5),
                        created_at: 11,
                        resources_offer: Vec::new(),
                        reclamation_window: None,
                    });
                    OrderInput::BidFetched(Ok(Observed::new(value, height, Agreement::Single)))
                };
                all.push((
                    "bid read".to_owned(),
                    self.complete(seen(self.bid, self.clock.height), |_| {}),
                ));
                if self.budget > 0 {
                    all.push((
                        "bid unreadable".to_owned(),
                        self.complete(OrderInput::BidFetched(Err(transient())), fail),
                    ));
                    all.push((
                        "bid read stale".to_owned(),
                        self.complete(seen(None, self.clock.height - 1), fail),
                    ));
                }
            }
            Some(InFlight::Create) => self.tx(true, all),
            Some(InFlight::Close) => self.tx(false, all),
        }
    }

    fn outside(&self, all: &mut Vec<(String, Self)>) {
        if self.order == OrderState::Open {
            let mut closed = self.clone();
            closed.order = OrderState::Closed;
            closed.events.push_back(MarketEvent::OrderClosed);
            if closed.bid == Some(BidState::Open) {
                closed.bid = Some(BidState::Closed);
                closed.events.push_back(MarketEvent::BidClosed);
            }
            all.push(("tenant closes".to_owned(), closed));
            let mut lost = self.clone();
            lost.order = OrderState::Active;
            lost.events.push_back(MarketEvent::Lost);
            if lost.bid == Some(BidState::Open) {
                lost.bid = Some(BidState::Lost);
            }
            all.push(("another provider wins".to_owned(), lost));
            if self.bid == Some(BidState::Open) {
                let mut won = self.clone();
                won.order = OrderState::Active;
                won.bid = Some(BidState::Active);
                won.events.push_back(MarketEvent::Won);
                all.push(("this provider wins".to_owned(), won));
            }
        }
        for (index, unconfirmed) in self.unconfirmed.iter().enumerate() {
            let mut landed = self.clone();
            landed.unconfirmed.remove(index);
            let _ = if unconfirmed.create {
                landed.land_create()
            } else {
                landed.land_close()
            };
            all.push(("an unconfirmed transaction is executed".to_owned(), landed));
        }
    }

    fn time(&self, all: &mut Vec<(String, Self)>) {
        // A close that must not be sent is requested again without end and changes nothing else.
        let requests_without_effect = !self.clock.leader || self.clock.stopping;
        // Events of earlier blocks arrive before the block time advances.
        if !self.events.is_empty() {
            return;
        }
        if let Some(at) = self.machine.mono_deadline().filter(|_| !requests_without_effect) {
            let mut later = self.clone();
            let passed = at.since(later.clock.mono);
            later.clock.mono = later.clock.mono.max(at);
            later.clock.block_time = later.clock.block_time.plus(passed);
            later.expire();
            all.push(("clock".to_owned(), later.feed(OrderInput::Wake)));
        }
        if let Some(at) = self.machine.block_deadline() {
            let mut later = self.clone();
            later.clock.block_time = later.clock.block_time.max(at);
            later.expire();
            all.push(("blocks".to_owned(), later.feed(OrderInput::Wake)));
        }
    }

    fn expire(&mut self) {
        // The number of elapsed blocks does not matter, only that blocks pass.
        self.clock.height = (self.clock.height + 1).min(12);
        let now = self.clock.block_time;
        self.unconfirmed.retain(|f| f.expires >= now);
    }

    fn orders_from_above(&self, all: &mut Vec<(String, Self)>) {
        if !self.clock.stopping {
            let mut stopping = self.clone();
            stopping.clock.stopping = true;
            all.push(("shutdown".to_owned(), stopping.feed(OrderInput::Shutdown)));
        }
        if self.switches > 0 && self.clock.leader {
            let mut deposed = self.clone();
            deposed.clock.leader = false;
            all.push(("deposed".to_owned(), deposed.feed(OrderInput::Wake)));
        } else if !self.clock.leader {
            let mut leads = self.clone();
            leads.clock.leader = true;
            leads.switches -= 1;
            all.push(("becomes leader again".to_owned(), leads.feed(OrderInput::Wake)));
        }
        if self.budget > 0 {
            let mut doubted = self.clone();
            doubted.budget -= 1;
            all.push(("doubt".to_owned(), doubted.feed(OrderInput::BidMissing)));
        }
        if self.budget > 0 && !self.clock.displaced {
            let mut displaced = self.clone();
            displaced.budget -= 1;
            displaced.clock.displaced = true;
            all.push(("displaced".to_owned(), displaced));
        }
    }

    fn done(&self) -> Option<&Outcome> {
        self.machine.outcome()
    }
}

impl World for OrderWorld {
    fn successors(&self) -> Vec<(String, Self)> {
        let mut all = Vec::new();
        self.completions(&mut all);
        self.outside(&mut all);
        if self.done().is_some() {
            return all;
        }
        if let Some(events) = self.events.front() {
            let mut received = self.clone();
            received.events.pop_front();
            let input = match events {
                MarketEvent::BidObserved => OrderInput::BidObserved,
                MarketEvent::BidClosed => OrderInput::BidClosed,
                MarketEvent::OrderClosed => OrderInput::OrderClosed,
                MarketEvent::Lost => OrderInput::Lost,
                MarketEvent::Won => OrderInput::Won,
            };
            all.push((format!("event {events:?}"), received.feed(input)));
        }
        self.time(&mut all);
        self.orders_from_above(&mut all);
        all
    }

    fn violation(&self) -> Option<String> {
        let done = self.done();
        let won = done == Some(&Outcome::Won);
        let problem = if self.two_calls && done.is_none() {
            "one_call_at_a_time"
        } else if self.creates > 1 {
            "never_two_bids_for_one_order"
        } else if self.standby_wrote {
            "no_write_as_standby"
        } else if self.oversold {
            "a bid for capacity that another order has"
        } else if self.lost_then_closed {
            "lost_bids_are_not_closed"
        } else if done.is_some() && !won && self.reserved {
            "no_reservation_without_owner: leaked"
        } else if done.is_none() && self.reserved != self.machine.holds_reservation() {
            "no_reservation_without_owner: machine and ledger disagree"
        } else if done == Some(&Outcome::Stopped) && self.bid_may_exist() {
            "stopped with a bid in flight"
        } else if self.open_bid_unowned() {
            "no_open_bid_without_machine"
        } else if self.bid == Some(BidState::Active) && done.is_some() && !won && !self.won_is_coming() {
            "a won lease lost its reservation"
        } else if self.stuck() {
            "every_order_ends"
        } else {
            return None;
        };
        Some(problem.to_owned())
    }
}

impl OrderWorld {
    /// Returns true if the order and the bid are open although the state machine is done. Always returns
    /// false during a shutdown, because the next start adopts the bid.
    fn open_bid_unowned(&self) -> bool {
        self.bid == Some(BidState::Open)
            && self.order == OrderState::Open
            && !self.clock.stopping
            && self.done().is_some()
    }

    fn bid_may_exist(&self) -> bool {
        let unconfirmed = self.unconfirmed.iter().any(|f| f.create);
        self.in_flight == Some(InFlight::Create) || unconfirmed || self.bid == Some(BidState::Open)
    }

    fn won_is_coming(&self) -> bool {
        self.events.contains(&MarketEvent::Won) || self.clock.stopping
    }

    /// Returns true if work remains, but no call, event or deadline is pending.
    fn stuck(&self) -> bool {
        let quiet = self.in_flight.is_none()
            && self.events.is_empty()
            && self.machine.mono_deadline().is_none()
            && self.machine.block_deadline().is_none();
        let waits = match self.machine.phase() {
            OrderStage::Done(_) | OrderStage::Open { .. } => true,
            OrderStage::Ready { .. } => !self.clock.leader || self.clock.stopping,
            _ => self.clock.stopping,
        };
        quiet && !waits
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the stage `exploration` runs it optimised")]
fn explores_order_machine() {
    let stats = explore("order", OrderWorld::start(2));
    assert!(stats.states > 500, "too few states explored: {stats:?}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the stage `exploration` runs it optimised")]
fn declined_order_has_a_reason() {
    let mut out = Vec::new();
    let machine = Order::from_record(&Arc::new(record(OrderState::Open)), &mut out);
    let clock = Clock::new();
    let decline = Decline::AlreadyBid;
    let machine = machine.transition(&clock.cx(), OrderInput::Judged(Err(decline.clone())), &mut out);
    assert_eq!(
        machine.phase(),
        &OrderStage::Done(Outcome::Declined(Box::new(decline)))
    );
}

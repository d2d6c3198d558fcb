//! One order, from the first look to a lease or a reasoned end.
//!
//! ```text
//!  Looking ─► Judging ─► Reserving ─► Counting ─► Pricing ─► Ready ─► Bidding ─► Open ─► (won | lost | closed)
//!     │          │           │           │           │         │         │ ▲        │
//!     └──────────┴───────────┴───────────┴───────────┴─declined┘         ▼ │        ▼ bid timeout
//!                                                               Unsure ─► Checking ─► Closing ─► closed
//! ```
//! `Ready` is a priced order that may not be written yet (standby). `Unfunded` is one whose deposit the account
//! cannot pay: with money it goes back to `Counting`. `Unsure` is a transaction whose outcome
//! is unknown: it may land until it expires, so its reservation stays. `Checking` looks at the bid itself.
//! At most one call is in flight at a time, and the phase says which. The steps are in a room of their own.

use crate::bidding::Decline;
use crate::engine::OrderPhase;
use crate::error::Failure;
use crate::types::{
    self, Bid, BidId, BidOutcome, BlockTime, Coin, DecCoin, Event, Height, Mono, Observed, OrderId,
    ResourceUnit, TxOutcome,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

mod steps;

use crate::engine::cx::Cx;
use crate::engine::effect::Call;
use crate::engine::table::Machine;
use crate::engine::timers::Deadlines;

/// Failed reads before an order is declined as undecided; it is looked at again after a while.
const READ_ATTEMPTS: u32 = 5;
/// Questions for the number of bids that may fail before the order is bid on without it: the chain refuses a bid
/// too many by itself, and who waits longer bids too late.
const COUNT_ATTEMPTS: u32 = 2;
/// Transactions for one bid whose outcome stayed unknown before waiting for their expiry.
const BID_ATTEMPTS: u32 = 3;

/// Where an order stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// `FetchOrder` is in flight, or tried again at `retry_at`.
    Looking {
        /// When to try again; `None` while the call is in flight.
        retry_at: Option<Mono>,
    },
    /// The engine is judging it, or waits for facts about us.
    Judging,
    /// The engine is reserving, or waits until capacity is known.
    Reserving,
    /// The engine counts the bids, for an order takes only so many, or asks for their number again at `retry_at`.
    /// Holds the reservation, like all that follow.
    Counting {
        /// When to try again; `None` while the answer is in flight.
        retry_at: Option<Mono>,
    },
    /// `CalculatePrice` is in flight.
    Pricing,
    /// May not write; or sending failed and is tried again at `retry_at`.
    Ready {
        /// When to try again; `None` while only leadership is missing.
        retry_at: Option<Mono>,
    },
    /// The account cannot pay the deposit: once it can, the bids are counted and the price is asked for anew.
    Unfunded,
    /// `Broadcast(CreateBid)` is in flight.
    Bidding {
        /// The order ended meanwhile.
        ending: Option<End>,
    },
    /// The bid's outcome is unknown.
    Unsure {
        /// It cannot land after this block time.
        expires: BlockTime,
        /// The order ended meanwhile.
        ending: Option<End>,
        /// Try again (or look) once a block later than this is processed.
        again_after: BlockTime,
    },
    /// `FetchBid` is in flight, or tried again at `retry_at`.
    Checking {
        /// When to try again; `None` while the call is in flight.
        retry_at: Option<Mono>,
        /// The order ended, so an open bid is to be closed.
        ending: Option<End>,
        /// A transaction may still land until then; not finding the bid decides nothing before.
        expires: BlockTime,
    },
    /// The bid is on the chain and open.
    Open {
        /// Block time at which it is taken back.
        deadline: Option<BlockTime>,
    },
    /// `Broadcast(CloseBid)` is in flight, or tried again at `retry_at`.
    Closing {
        /// When to try again; `None` while the call is in flight.
        retry_at: Option<Mono>,
        /// What ends it, which decides what follows.
        ending: End,
    },
    /// Over; the engine forgets it.
    Done(End),
}

/// How an order ended for us.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum End {
    /// We have the lease.
    Won,
    /// Another provider has it.
    Lost,
    /// The order, its group or its deployment is over.
    OrderClosed,
    /// Our bid is over without the order being over.
    BidClosed,
    /// Nobody took our bid in time.
    BidTimeout,
    /// We do not bid.
    Declined(Box<Decline>),
    /// We are stopping and nothing is on the chain.
    Stopped,
}

impl End {
    /// How it ended for a bid of ours that was sent; `None` where there is nothing to say of it.
    #[must_use]
    pub const fn of_bid(&self) -> Option<BidOutcome> {
        match self {
            Self::Lost => Some(BidOutcome::Lost),
            Self::OrderClosed => Some(BidOutcome::OrderClosed),
            Self::BidClosed => Some(BidOutcome::Closed),
            Self::BidTimeout => Some(BidOutcome::Timeout),
            Self::Won | Self::Declined(_) | Self::Stopped => None,
        }
    }
}

/// What happens to an order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// Of `FetchOrder`; `None` when the node does not know the order.
    Fetched(Result<Option<Arc<types::Order>>, Failure>),
    /// The engine has judged.
    Judged(Result<(), Decline>),
    /// The engine has counted the bids and weighed their number.
    Counted(Result<Result<(), Decline>, Failure>),
    /// The engine has reserved.
    Reserved(Result<Arc<Vec<ResourceUnit>>, Decline>),
    /// Of `CalculatePrice`: per block, for the whole group.
    Priced(Result<DecCoin, Failure>),
    /// Of `Broadcast`, of the bid as of its close.
    Tx(Result<TxOutcome, Failure>),
    /// Of `FetchBid`, with the height it was read at.
    Found(Result<Observed<Bid>, Failure>),
    /// The chain shows our bid.
    BidSeen,
    /// The chain closed our bid.
    BidClosed,
    /// The chain closed the order (or its group).
    OrderClosed,
    /// Another provider has the lease.
    Lost,
    /// We have the lease.
    Won,
    /// The chain's records do not show our bid although we think it is open.
    Doubt,
    /// Time passed or permissions changed.
    Wake,
    /// Finish what is in flight.
    Shutdown,
}

/// What an order wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// A call; its completion comes back as the matching input.
    Call(Call),
    /// Judge it; answer `Judged`, at once or when facts are there.
    Judge,
    /// Reserve; answer `Reserved`, at once or when capacity is known.
    Reserve,
    /// Count the bids; answer `Counted`, at once or when the node has been asked.
    Count,
    /// Reserve what the bid on the chain promises, should it be another thing.
    Promised(Vec<ResourceUnit>),
    /// Give the reservation back.
    Unreserve,
    /// The chain refused the bid because the account cannot pay the deposit.
    MoneyRefused {
        /// Deposit of the refused bid.
        deposit: Coin,
        /// Code and text of the chain.
        reason: String,
    },
    /// The account cannot pay the deposit: wake the order when the balance has changed.
    AwaitMoney {
        /// The order waits for the first time.
        is_news: bool,
    },
    /// The chain refused the bid by parameters that differ from the known ones: look at the order once they were read.
    AwaitParameters,
    /// Publish a fact about the order or the bid on it.
    Publish(Event),
    /// This input was not expected in this phase.
    Unexpected,
}

/// The machine of one order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    id: OrderId,
    phase: Phase,
    order: Option<Arc<types::Order>>,
    units: Option<Arc<Vec<ResourceUnit>>>,
    price: Option<DecCoin>,
    /// Of the last bid that was sent.
    deposit: Option<Coin>,
    /// It has waited for money.
    was_unfunded: bool,
    attempts: u32,
    /// The chain has shown, or accepted, our bid: from then on not finding it decides nothing.
    landed: bool,
    /// Readings of a lower height say nothing of the bid.
    shows_from: Option<Height>,
    /// A transaction of this process brought the bid to the chain.
    committed: bool,
    /// An earlier transaction for the bid, of unknown outcome, may land until then.
    may_land: Option<BlockTime>,
    /// The clock of an open bid starts when this height, which is that of its block or later, is processed.
    clock_from: Option<Height>,
    /// What was known of us when it was judged.
    facts: u32,
}

impl Order {
    /// An order heard of in an event: it is fetched.
    pub fn heard(id: &OrderId, out: &mut Vec<Action>) -> Self {
        out.push(Action::Publish(Event::OrderSeen { order: id.clone() }));
        out.push(Action::Call(Call::FetchOrder(id.clone())));
        Self::at(id, Phase::Looking { retry_at: None })
    }

    /// An open order known from a snapshot, without a bid of ours.
    pub fn known(order: &Arc<types::Order>, out: &mut Vec<Action>) -> Self {
        out.push(Action::Publish(Event::OrderSeen {
            order: order.id.clone(),
        }));
        out.push(Action::Judge);
        Self {
            order: Some(Arc::clone(order)),
            ..Self::at(&order.id, Phase::Judging)
        }
    }

    /// An open bid of ours from before, on an open order; its reservation is adopted by the engine.
    pub fn adopted(bid: &Bid, deadline: Option<BlockTime>, out: &mut Vec<Action>) -> Self {
        out.push(Action::Publish(Event::BidAdopted {
            bid: bid.id.clone(),
            price: bid.price.clone(),
        }));
        Self {
            price: Some(bid.price.clone()),
            landed: true,
            ..Self::at(&bid.id.order, Phase::Open { deadline })
        }
    }

    /// A bid of ours was told in the block of this height that was not sent here: it is read. One that is not there
    /// from that height on holds nothing, and the order gets no other bid.
    pub fn observed(id: &BidId, height: Height, out: &mut Vec<Action>) -> Self {
        out.push(Action::Call(Call::FetchBid(id.clone())));
        let phase = Phase::Checking {
            retry_at: None,
            ending: None,
            // Not sent from here, so there is no expiry to wait for.
            expires: BlockTime::default(),
        };
        Self {
            shows_from: Some(height),
            ..Self::at(&id.order, phase)
        }
    }

    /// An open bid of ours on an order that is over: it is looked at and closed.
    pub fn stray(bid: &Bid, out: &mut Vec<Action>) -> Self {
        out.push(Action::Call(Call::FetchBid(bid.id.clone())));
        let phase = Phase::Checking {
            retry_at: None,
            ending: Some(End::OrderClosed),
            // Not sent from here, so there is no expiry to wait for.
            expires: BlockTime::default(),
        };
        Self {
            price: Some(bid.price.clone()),
            landed: true,
            ..Self::at(&bid.id.order, phase)
        }
    }

    /// Lowers the heights from which readings and blocks count.
    pub(crate) fn lower_heights(&mut self, to: Height) {
        for height in [&mut self.shows_from, &mut self.clock_from].into_iter().flatten() {
            *height = to.min(*height);
        }
    }

    fn at(id: &OrderId, phase: Phase) -> Self {
        Self {
            id: id.clone(),
            phase,
            order: None,
            units: None,
            price: None,
            deposit: None,
            was_unfunded: false,
            attempts: 0,
            landed: false,
            shows_from: None,
            committed: false,
            may_land: None,
            clock_from: None,
            facts: 0,
        }
    }

    /// The phase it is in, with what that phase waits for.
    #[must_use]
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// How it ended, once it has.
    #[must_use]
    pub const fn ended(&self) -> Option<&End> {
        if let Phase::Done(end) = &self.phase {
            Some(end)
        } else {
            None
        }
    }

    /// Price bid, once there is one.
    #[must_use]
    pub const fn price(&self) -> Option<&DecCoin> {
        self.price.as_ref()
    }

    /// Deposit of the last bid that was sent.
    #[must_use]
    pub const fn deposit(&self) -> Option<&Coin> {
        self.deposit.as_ref()
    }

    /// The order's record, once known.
    #[must_use]
    pub const fn record(&self) -> Option<&Arc<types::Order>> {
        self.order.as_ref()
    }

    /// True when it may hold a reservation.
    #[must_use]
    pub const fn holds_reservation(&self) -> bool {
        match self.phase {
            Phase::Looking { .. } | Phase::Judging | Phase::Reserving | Phase::Done(_) => false,
            Phase::Counting { .. }
            | Phase::Pricing
            | Phase::Ready { .. }
            | Phase::Unfunded
            | Phase::Bidding { .. }
            | Phase::Unsure { .. }
            | Phase::Checking { .. }
            | Phase::Open { .. }
            | Phase::Closing { .. } => true,
        }
    }

    /// True when the bid on the chain is known to promise what is reserved. Until it has been read, or our own has
    /// landed, it may be one from before a restart.
    #[must_use]
    pub const fn knows_its_bid(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    /// True when the bid was sent by this process, so that nobody can have served its lease before.
    #[must_use]
    pub const fn is_own_bid(&self) -> bool {
        self.committed
    }

    /// True when a bid of ours is, or may be, on the chain.
    #[must_use]
    pub const fn may_have_bid(&self) -> bool {
        match self.phase {
            Phase::Bidding { .. }
            | Phase::Unsure { .. }
            | Phase::Checking { .. }
            | Phase::Open { .. }
            | Phase::Closing { .. } => true,
            Phase::Looking { .. }
            | Phase::Judging
            | Phase::Counting { .. }
            | Phase::Reserving
            | Phase::Pricing
            | Phase::Ready { .. }
            | Phase::Unfunded
            | Phase::Done(_) => false,
        }
    }

    /// The phase as a status says it.
    #[must_use]
    pub const fn shown_phase(&self) -> OrderPhase {
        match self.phase {
            Phase::Looking { .. } => OrderPhase::Looking,
            Phase::Judging => OrderPhase::Judging,
            Phase::Reserving => OrderPhase::Reserving,
            // What is counted is about to be priced, and holds what a priced order holds.
            Phase::Counting { .. } | Phase::Pricing => OrderPhase::Pricing,
            Phase::Ready { .. } => OrderPhase::Ready,
            Phase::Unfunded => OrderPhase::Unfunded,
            Phase::Bidding { .. } => OrderPhase::Bidding,
            Phase::Unsure { .. } => OrderPhase::Unsure,
            Phase::Checking { .. } => OrderPhase::Checking,
            Phase::Open { .. } => OrderPhase::Open,
            Phase::Closing { .. } => OrderPhase::Closing,
            Phase::Done(_) => OrderPhase::Done,
        }
    }

    /// Monotonic moment at which it wants a `Wake`.
    #[must_use]
    pub const fn mono_deadline(&self) -> Option<Mono> {
        match self.phase {
            Phase::Looking { retry_at }
            | Phase::Counting { retry_at }
            | Phase::Ready { retry_at }
            | Phase::Checking { retry_at, .. }
            | Phase::Closing { retry_at, .. } => retry_at,
            Phase::Judging
            | Phase::Reserving
            | Phase::Pricing
            | Phase::Unfunded
            | Phase::Bidding { .. }
            | Phase::Unsure { .. }
            | Phase::Open { .. }
            | Phase::Done(_) => None,
        }
    }

    /// Block time at which it wants a `Wake`.
    #[must_use]
    pub const fn block_deadline(&self) -> Option<BlockTime> {
        match self.phase {
            // One later, because a transaction may still land in the block of its expiry.
            Phase::Unsure { again_after, .. } => Some(BlockTime(again_after.0.saturating_add(1))),
            Phase::Open { deadline } => deadline,
            Phase::Looking { .. }
            | Phase::Judging
            | Phase::Counting { .. }
            | Phase::Reserving
            | Phase::Pricing
            | Phase::Ready { .. }
            | Phase::Unfunded
            | Phase::Bidding { .. }
            | Phase::Checking { .. }
            | Phase::Closing { .. }
            | Phase::Done(_) => None,
        }
    }
}

impl Machine for Order {
    type Id = OrderId;
    type Input = Input;
    type Action = Action;

    fn step(self, cx: &Cx<'_>, input: Input, out: &mut Vec<Action>) -> Self {
        self.transition(cx, input, out)
    }

    fn deadlines(&self, _: &Cx<'_>) -> Deadlines {
        (self.mono_deadline(), self.block_deadline())
    }

    fn is_done(&self) -> bool {
        // Its end is told after what it wants is done.
        false
    }
}

//! State machine of one order, from its creation to a lease or another outcome.
//!
//! ```text
//!  Looking ─► Judging ─► Reserving ─► Counting ─► Pricing ─► Ready ─► Bidding ─► Open ─► (won | lost | closed)
//!     │          │           │           │           │         │         │ ▲        │
//!     └──────────┴───────────┴───────────┴───────────┴─declined┘         ▼ │        ▼ bid timeout
//!                                                               Unsure ─► Checking ─► Closing ─► closed
//! ```
//! - `Ready`: the price of the order is known, but this instance must not send the bid (standby).
//! - `Unfunded`: the account cannot pay the deposit. When the account can pay, the order returns to
//!   `Counting`.
//! - `Unsure`: the outcome of a transaction is unknown. The transaction may be included until it expires, so
//!   the capacity stays reserved.
//! - `Checking`: the bid is being read from the chain.
//!
//! At most one call is in flight at a time, and the phase determines which call. The module `steps` has the
//! transitions.

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

/// After this number of failed attempts to fetch the order or to send the bid, the order is declined as
/// `Unknown`.
const READ_ATTEMPTS: u32 = 5;
/// After this number of failed attempts to count the bids on an order, the provider bids without a count.
const COUNT_ATTEMPTS: u32 = 2;
/// After this number of bid transactions with unknown results, the order waits until all of them have
/// expired.
const BID_ATTEMPTS: u32 = 3;

/// Phase of an order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OrderStage {
    /// `FetchOrder` is in flight or waits for a retry.
    Looking {
        /// Time at which a failed call is repeated; `None` while the call is in flight.
        retry_at: Option<Mono>,
    },
    /// The engine decides whether to bid, or waits for audits of this provider.
    Judging,
    /// The engine reserves capacity, or waits for the first inventory update.
    Reserving,
    /// The engine counts the bids on the order, because the chain limits their number. From this phase on,
    /// capacity is reserved for the order.
    Counting {
        /// Time of the next attempt to count the bids; `None` while the count is in progress.
        retry_at: Option<Mono>,
    },
    /// `CalculatePrice` is in flight.
    Pricing,
    /// The bid waits for the permission to send bids, or for a retry after a failure.
    Ready {
        /// Time of the next attempt to send the bid; `None` while the bid waits for permission.
        retry_at: Option<Mono>,
    },
    /// The order waits until the account can pay the deposit. The engine then evaluates the order again.
    Unfunded,
    /// `Broadcast(CreateBid)` is in flight.
    Bidding {
        /// Outcome of an order that ended while the bid was being sent.
        ending: Option<Outcome>,
    },
    /// The result of the bid transaction is unknown.
    Unsure {
        /// Block time at which the transaction expires.
        expires: BlockTime,
        /// Outcome of an order that ended while the bid was being sent.
        ending: Option<Outcome>,
        /// Block time of the next action. Before `expires`, the action sends the bid again. Otherwise, the
        /// action reads the bid.
        again_after: BlockTime,
    },
    /// `FetchBid` is in flight or waits for a retry.
    Checking {
        /// Time at which a failed call is repeated; `None` while the call is in flight.
        retry_at: Option<Mono>,
        /// Outcome of the order, if the order ended. An open bid must then be closed.
        ending: Option<Outcome>,
        /// Expiry of the bid transactions, as block time. Before the expiry, a missing bid proves nothing.
        expires: BlockTime,
    },
    /// The bid is open on the chain.
    Open {
        /// Block time at which the engine closes the bid. Before the block with the bid is processed, this is
        /// the start of the bid timeout. `None` without a bid timeout, or if the bid has won.
        deadline: Option<BlockTime>,
    },
    /// `Broadcast(CloseBid)` is in flight or waits for a retry.
    Closing {
        /// Time at which a failed call is repeated; `None` while the call is in flight.
        retry_at: Option<Mono>,
        /// Outcome of the order after the bid is closed.
        ending: Outcome,
    },
    /// The order is finished, and the engine removes it.
    Done(Outcome),
}

/// Outcome of an order for this provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// This provider has the lease.
    Won,
    /// Another provider has the lease.
    Lost,
    /// The order, its group or its deployment was closed.
    OrderClosed,
    /// This provider's bid was closed, and the order stayed open.
    BidClosed,
    /// The bid was not accepted in time.
    BidTimeout,
    /// The provider does not bid.
    Declined(Box<Decline>),
    /// The provider is stopping, and there is no bid on the chain.
    Stopped,
}

impl Outcome {
    /// Returns the bid outcome for the published event, or `None` if no event is published.
    #[must_use]
    pub const fn bid_outcome(&self) -> Option<BidOutcome> {
        match self {
            Self::Lost => Some(BidOutcome::Lost),
            Self::OrderClosed => Some(BidOutcome::OrderClosed),
            Self::BidClosed => Some(BidOutcome::Closed),
            Self::BidTimeout => Some(BidOutcome::Timeout),
            Self::Won | Self::Declined(_) | Self::Stopped => None,
        }
    }
}

/// Input of an order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OrderInput {
    /// Result of `FetchOrder`: `None` if the node does not have the order.
    Fetched(Result<Option<Arc<types::Order>>, Failure>),
    /// Decision of the engine whether to bid.
    Judged(Result<(), Decline>),
    /// Result of `Count`: `Ok(Err(_))` if the order has too many bids.
    Counted(Result<Result<(), Decline>, Failure>),
    /// Result of reserving capacity.
    Reserved(Result<Arc<Vec<ResourceUnit>>, Decline>),
    /// Result of `CalculatePrice`: the price per block for the whole group.
    Priced(Result<DecCoin, Failure>),
    /// Result of `Broadcast` of the message that creates or closes the bid.
    Tx(Result<TxOutcome, Failure>),
    /// Result of `FetchBid`, with the height of the record.
    BidFetched(Result<Observed<Bid>, Failure>),
    /// This provider's bid was observed on the chain.
    BidObserved,
    /// This provider's bid was closed on the chain.
    BidClosed,
    /// The order or its group was closed on the chain.
    OrderClosed,
    /// Another provider has the lease.
    Lost,
    /// This provider has the lease.
    Won,
    /// A snapshot does not contain this provider's bid, although the bid should be open.
    BidMissing,
    /// Time has passed, or the permissions of this instance changed.
    Wake,
    /// Request to finish the call in flight and stop.
    Shutdown,
}

/// Action of an order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OrderAction {
    /// Make a call. The completion of the call arrives as the matching input.
    Call(Call),
    /// Decide whether to bid, and reply with `Judged`, immediately or after the required audits were read.
    Judge,
    /// Reserve capacity, and reply with `Reserved`, immediately or after the first inventory update.
    Reserve,
    /// Count the bids, and reply with `Counted`, immediately or after a query.
    Count,
    /// Change the reservation to the units that the recorded bid offers.
    AdjustReservation(Vec<ResourceUnit>),
    /// Release the reservation.
    Unreserve,
    /// Handle a rejected bid: the account cannot pay the deposit.
    DepositRejected {
        /// Deposit of the rejected bid.
        deposit: Coin,
        /// Error code and log of the rejected transaction.
        reason: String,
    },
    /// Wake the order as soon as the account can pay the deposit.
    AwaitBalance {
        /// True if the order has not waited for the balance before.
        is_first: bool,
    },
    /// Retry the order after the next read of the market parameters.
    AwaitParameters,
    /// Publish an event about the order or its bid.
    Publish(Event),
    /// Count an input that is unexpected in this phase.
    Unexpected,
}

/// State machine of one order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    id: OrderId,
    phase: OrderStage,
    order: Option<Arc<types::Order>>,
    units: Option<Arc<Vec<ResourceUnit>>>,
    price: Option<DecCoin>,
    /// Deposit of the last bid that was sent.
    deposit: Option<Coin>,
    /// True if the order has already waited for funds for the bid deposit.
    was_unfunded: bool,
    attempts: u32,
    /// True if a record, an event or a transaction result shows the bid. The bid then exists, even if a later
    /// query does not find it.
    is_on_chain: bool,
    /// Minimum height of a query result. A result below this height does not prove that the bid is missing.
    min_read_height: Option<Height>,
    /// True if a transaction of this process created the bid.
    committed: bool,
    /// Block time at which an earlier bid transaction with unknown result expires.
    pending_expiry: Option<BlockTime>,
    /// Height at which the bid timeout starts: the block of the bid, or a later block.
    timeout_from: Option<Height>,
    /// Value of `Cx::provider_version` when the engine decided whether to bid.
    provider_version: u32,
}

impl Order {
    /// Creates the machine of an order after an event, and fetches the order record.
    pub fn from_event(id: &OrderId, out: &mut Vec<OrderAction>) -> Self {
        out.push(OrderAction::Publish(Event::OrderSeen { order: id.clone() }));
        out.push(OrderAction::Call(Call::FetchOrder(id.clone())));
        Self::with_phase(id, OrderStage::Looking { retry_at: None })
    }

    /// Creates the machine of an open order in a snapshot. This provider has no bid on the order.
    pub fn from_record(order: &Arc<types::Order>, out: &mut Vec<OrderAction>) -> Self {
        out.push(OrderAction::Publish(Event::OrderSeen {
            order: order.id.clone(),
        }));
        out.push(OrderAction::Judge);
        Self {
            order: Some(Arc::clone(order)),
            ..Self::with_phase(&order.id, OrderStage::Judging)
        }
    }

    /// Creates the machine of an open order with an open bid of this provider. The engine reserves the
    /// resources of the bid.
    pub fn from_open_bid(bid: &Bid, deadline: Option<BlockTime>, out: &mut Vec<OrderAction>) -> Self {
        out.push(OrderAction::Publish(Event::BidAdopted {
            bid: bid.id.clone(),
            price: bid.price.clone(),
        }));
        Self {
            price: Some(bid.price.clone()),
            is_on_chain: true,
            ..Self::with_phase(&bid.id.order, OrderStage::Open { deadline })
        }
    }

    /// Creates the machine of an order on which another process of this provider has placed a bid. `height`
    /// is the height of the bid's block. The machine fetches the bid from the chain.
    ///
    /// If the chain does not return the bid, the provider sends no other bid on the order.
    pub fn from_bid_event(id: &BidId, height: Height, out: &mut Vec<OrderAction>) -> Self {
        out.push(OrderAction::Call(Call::FetchBid(id.clone())));
        let phase = OrderStage::Checking {
            retry_at: None,
            ending: None,
            // Not sent by this process, so there is no expiry to wait for.
            expires: BlockTime::default(),
        };
        Self {
            min_read_height: Some(height),
            ..Self::with_phase(&id.order, phase)
        }
    }

    /// Creates the machine for an open bid of this provider on a closed order. The machine first fetches the
    /// bid, then closes the bid.
    pub fn from_stray_bid(bid: &Bid, out: &mut Vec<OrderAction>) -> Self {
        out.push(OrderAction::Call(Call::FetchBid(bid.id.clone())));
        let phase = OrderStage::Checking {
            retry_at: None,
            ending: Some(Outcome::OrderClosed),
            // Not sent by this process, so there is no expiry to wait for.
            expires: BlockTime::default(),
        };
        Self {
            price: Some(bid.price.clone()),
            is_on_chain: true,
            ..Self::with_phase(&bid.id.order, phase)
        }
    }

    pub(crate) fn lower_heights(&mut self, to: Height) {
        for height in [&mut self.min_read_height, &mut self.timeout_from]
            .into_iter()
            .flatten()
        {
            *height = to.min(*height);
        }
    }

    fn with_phase(id: &OrderId, phase: OrderStage) -> Self {
        Self {
            id: id.clone(),
            phase,
            order: None,
            units: None,
            price: None,
            deposit: None,
            was_unfunded: false,
            attempts: 0,
            is_on_chain: false,
            min_read_height: None,
            committed: false,
            pending_expiry: None,
            timeout_from: None,
            provider_version: 0,
        }
    }

    /// Returns the current phase.
    #[must_use]
    pub const fn phase(&self) -> &OrderStage {
        &self.phase
    }

    /// Returns the outcome of the order, or `None` before the order is finished.
    #[must_use]
    pub const fn outcome(&self) -> Option<&Outcome> {
        if let OrderStage::Done(end) = &self.phase {
            Some(end)
        } else {
            None
        }
    }

    /// Returns the price of the bid, or `None` before the price is calculated.
    #[must_use]
    pub const fn price(&self) -> Option<&DecCoin> {
        self.price.as_ref()
    }

    /// Returns the deposit of the last bid that was sent.
    #[must_use]
    pub const fn deposit(&self) -> Option<&Coin> {
        self.deposit.as_ref()
    }

    /// Returns the record of the order, if it was read.
    #[must_use]
    pub const fn record(&self) -> Option<&Arc<types::Order>> {
        self.order.as_ref()
    }

    /// Returns true in the phases in which the order can have a reservation.
    #[must_use]
    pub const fn holds_reservation(&self) -> bool {
        match self.phase {
            OrderStage::Looking { .. }
            | OrderStage::Judging
            | OrderStage::Reserving
            | OrderStage::Done(_) => false,
            OrderStage::Counting { .. }
            | OrderStage::Pricing
            | OrderStage::Ready { .. }
            | OrderStage::Unfunded
            | OrderStage::Bidding { .. }
            | OrderStage::Unsure { .. }
            | OrderStage::Checking { .. }
            | OrderStage::Open { .. }
            | OrderStage::Closing { .. } => true,
        }
    }

    /// Returns true if the bid is open on the chain. The reservation then matches the bid.
    #[must_use]
    pub const fn is_bid_known(&self) -> bool {
        matches!(self.phase, OrderStage::Open { .. })
    }

    /// Returns true if this process sent the bid. In this case, no other instance accepted a manifest for the
    /// lease.
    #[must_use]
    pub const fn is_own_bid(&self) -> bool {
        self.committed
    }

    /// Returns true if this provider has a bid on the order, or if the existence of a bid is unknown.
    #[must_use]
    pub const fn may_have_bid(&self) -> bool {
        match self.phase {
            OrderStage::Bidding { .. }
            | OrderStage::Unsure { .. }
            | OrderStage::Checking { .. }
            | OrderStage::Open { .. }
            | OrderStage::Closing { .. } => true,
            OrderStage::Looking { .. }
            | OrderStage::Judging
            | OrderStage::Counting { .. }
            | OrderStage::Reserving
            | OrderStage::Pricing
            | OrderStage::Ready { .. }
            | OrderStage::Unfunded
            | OrderStage::Done(_) => false,
        }
    }

    /// Returns the phase that the status of the provider reports for this order.
    #[must_use]
    pub const fn status_phase(&self) -> OrderPhase {
        match self.phase {
            OrderStage::Looking { .. } => OrderPhase::Looking,
            OrderStage::Judging => OrderPhase::Judging,
            OrderStage::Reserving => OrderPhase::Reserving,
            // A counted order is about to be priced and holds the same reservation.
            OrderStage::Counting { .. } | OrderStage::Pricing => OrderPhase::Pricing,
            OrderStage::Ready { .. } => OrderPhase::Ready,
            OrderStage::Unfunded => OrderPhase::Unfunded,
            OrderStage::Bidding { .. } => OrderPhase::Bidding,
            OrderStage::Unsure { .. } => OrderPhase::Unsure,
            OrderStage::Checking { .. } => OrderPhase::Checking,
            OrderStage::Open { .. } => OrderPhase::Open,
            OrderStage::Closing { .. } => OrderPhase::Closing,
            OrderStage::Done(_) => OrderPhase::Done,
        }
    }

    /// Returns the monotonic time at which the machine needs a `Wake`.
    #[must_use]
    pub const fn mono_deadline(&self) -> Option<Mono> {
        match self.phase {
            OrderStage::Looking { retry_at }
            | OrderStage::Counting { retry_at }
            | OrderStage::Ready { retry_at }
            | OrderStage::Checking { retry_at, .. }
            | OrderStage::Closing { retry_at, .. } => retry_at,
            OrderStage::Judging
            | OrderStage::Reserving
            | OrderStage::Pricing
            | OrderStage::Unfunded
            | OrderStage::Bidding { .. }
            | OrderStage::Unsure { .. }
            | OrderStage::Open { .. }
            | OrderStage::Done(_) => None,
        }
    }

    /// Returns the block time at which the machine needs a `Wake`.
    #[must_use]
    pub const fn block_deadline(&self) -> Option<BlockTime> {
        match self.phase {
            // A later block, because the transaction may still be included in the block of its expiry.
            OrderStage::Unsure { again_after, .. } => Some(BlockTime(again_after.0.saturating_add(1))),
            OrderStage::Open { deadline } => deadline,
            OrderStage::Looking { .. }
            | OrderStage::Judging
            | OrderStage::Counting { .. }
            | OrderStage::Reserving
            | OrderStage::Pricing
            | OrderStage::Ready { .. }
            | OrderStage::Unfunded
            | OrderStage::Bidding { .. }
            | OrderStage::Checking { .. }
            | OrderStage::Closing { .. }
            | OrderStage::Done(_) => None,
        }
    }
}

impl Machine for Order {
    type Id = OrderId;
    type Input = OrderInput;
    type Action = OrderAction;

    fn step(self, cx: &Cx<'_>, input: OrderInput, out: &mut Vec<OrderAction>) -> Self {
        self.transition(cx, input, out)
    }

    fn deadlines(&self, _: &Cx<'_>) -> Deadlines {
        (self.mono_deadline(), self.block_deadline())
    }

    fn is_done(&self) -> bool {
        // The engine removes the order after its last actions.
        false
    }
}

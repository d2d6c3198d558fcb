//! Transitions of an order for each input in each phase.
//!
//! Length: one state machine. Each input has one function, which handles all phases.

use super::{
    BID_ATTEMPTS, COUNT_ATTEMPTS, Order, OrderAction, OrderInput, OrderStage, Outcome, READ_ATTEMPTS,
};
use crate::bidding::{self, Decline};
use crate::engine::backoff;
use crate::engine::cx::Cx;
use crate::engine::effect::Call;
use crate::error::Failure;
use crate::types::{
    self, Bid, BidId, BidState, BlockTime, CloseReason, DecCoin, Event, Height, Mono, Msg, Observed,
    OrderState, ResourceUnit, TxError, TxOutcome,
};
use std::sync::Arc;
use std::time::Duration;

/// Retry interval for closing a bid if this instance is not allowed to close bids yet.
const CLOSE_RECHECK: Duration = Duration::from_secs(5);

impl Order {
    fn bid_id(&self, cx: &Cx<'_>) -> BidId {
        self.id.clone().bid(cx.config.provider.clone())
    }

    /// Processes one input.
    #[must_use]
    pub fn transition(self, cx: &Cx<'_>, input: OrderInput, out: &mut Vec<OrderAction>) -> Self {
        match input {
            OrderInput::Fetched(result) => self.fetched(cx, result, out),
            OrderInput::Judged(result) => self.judged(cx, result, out),
            OrderInput::Counted(result) => self.counted(cx, result, out),
            OrderInput::Reserved(result) => self.reserved(result, out),
            OrderInput::Priced(result) => self.priced(cx, result, out),
            OrderInput::Tx(result) => self.sent(cx, result, out),
            OrderInput::BidFetched(result) => self.bid_fetched(cx, result, out),
            OrderInput::BidObserved => self.bid_observed(cx, out),
            OrderInput::BidClosed => self.bid_closed(out),
            OrderInput::OrderClosed => self.order_closed(cx, out),
            OrderInput::Lost => self.end(Outcome::Lost, out),
            // The lease takes over the reservation.
            OrderInput::Won => self.won(cx, out),
            OrderInput::BidMissing => self.bid_missing(cx, out),
            OrderInput::Wake => self.wake(cx, out),
            // A bid that may be on the chain is followed to its outcome, even during shutdown.
            OrderInput::Shutdown if self.may_have_bid() => self,
            OrderInput::Shutdown => self.end(Outcome::Stopped, out),
        }
    }

    fn fetched(
        mut self,
        cx: &Cx<'_>,
        result: Result<Option<Arc<types::Order>>, Failure>,
        out: &mut Vec<OrderAction>,
    ) -> Self {
        let OrderStage::Looking { retry_at: None } = self.phase else {
            return self.unexpected(out);
        };
        match result {
            Ok(Some(order)) if order.state == OrderState::Open => {
                self.order = Some(order);
                // Attempts count for each query separately.
                self.attempts = 0;
                out.push(OrderAction::Judge);
                self.goto(OrderStage::Judging)
            }
            Ok(Some(_)) => self.end(Outcome::OrderClosed, out),
            // The event proves that the order exists, so the node lags behind.
            Ok(None) => self.fetch_later(cx, "order not found: the node is behind", out),
            Err(failure) if failure.transient => self.fetch_later(cx, &failure.message, out),
            Err(failure) => self.decline(
                Decline::Unknown {
                    message: failure.message,
                },
                out,
            ),
        }
    }

    fn fetch_later(mut self, cx: &Cx<'_>, why: &str, out: &mut Vec<OrderAction>) -> Self {
        self.attempts += 1;
        if self.attempts >= READ_ATTEMPTS {
            return self.decline(
                Decline::Unknown {
                    message: why.to_owned(),
                },
                out,
            );
        }
        let retry_at = self.retry_at(cx);
        self.goto(OrderStage::Looking { retry_at })
    }

    fn judged(mut self, cx: &Cx<'_>, result: Result<(), Decline>, out: &mut Vec<OrderAction>) -> Self {
        let OrderStage::Judging = self.phase else {
            return self.unexpected(out);
        };
        match result {
            Ok(()) => {
                // Stored, because a rejection of the bid is final only if the data has not changed.
                self.provider_version = cx.provider_version;
                out.push(OrderAction::Reserve);
                self.goto(OrderStage::Reserving)
            }
            Err(decline) => self.decline(decline, out),
        }
    }

    fn count_bids(self, out: &mut Vec<OrderAction>) -> Self {
        out.push(OrderAction::Count);
        self.goto(OrderStage::Counting { retry_at: None })
    }

    fn counted(
        mut self,
        cx: &Cx<'_>,
        result: Result<Result<(), Decline>, Failure>,
        out: &mut Vec<OrderAction>,
    ) -> Self {
        let OrderStage::Counting { retry_at: None } = self.phase else {
            return self.unexpected(out);
        };
        match result {
            Ok(Ok(())) => self.request_price(out),
            Ok(Err(decline)) => self.decline(decline, out),
            Err(failure) if failure.transient && self.attempts + 1 < COUNT_ATTEMPTS => {
                self.attempts += 1;
                let retry_at = self.retry_at(cx);
                self.goto(OrderStage::Counting { retry_at })
            }
            // The chain rejects a bid above the limit, so a failed count is no reason to decline.
            Err(failure) => {
                out.push(OrderAction::Publish(Event::BidsNotCounted {
                    order: self.id.clone(),
                    message: failure.message,
                }));
                self.request_price(out)
            }
        }
    }

    fn reserved(
        mut self,
        result: Result<Arc<Vec<ResourceUnit>>, Decline>,
        out: &mut Vec<OrderAction>,
    ) -> Self {
        let OrderStage::Reserving = self.phase else {
            return self.unexpected(out);
        };
        match result {
            Ok(units) => {
                self.units = Some(units);
                self.attempts = 0;
                self.count_bids(out)
            }
            Err(decline) => self.decline(decline, out),
        }
    }

    fn request_price(self, out: &mut Vec<OrderAction>) -> Self {
        let (Some(order), Some(units)) = (&self.order, &self.units) else {
            return self.unexpected(out);
        };
        let request = bidding::price_request(order, Arc::clone(units));
        out.push(OrderAction::Call(Call::CalculatePrice(request)));
        self.goto(OrderStage::Pricing)
    }

    fn priced(mut self, cx: &Cx<'_>, result: Result<DecCoin, Failure>, out: &mut Vec<OrderAction>) -> Self {
        let OrderStage::Pricing = self.phase else {
            return self.unexpected(out);
        };
        let Some(order) = &self.order else {
            return self.unexpected(out);
        };
        match bidding::judge_price(&order.spec, result) {
            Ok(price) => {
                self.price = Some(price);
                self.attempts = 0;
                self.bid(cx, out)
            }
            // Declined, so that the reservation is free while the order waits for a retry of the price.
            Err(decline) => self.decline(decline, out),
        }
    }

    /// Sends the bid if this instance may bid.
    fn bid(mut self, cx: &Cx<'_>, out: &mut Vec<OrderAction>) -> Self {
        let (Some(price), true) = (&self.price, cx.may_bid()) else {
            // A wake continues here once bids may be sent.
            return self.goto(OrderStage::Ready { retry_at: None });
        };
        // No transaction of this bid exists yet, so the order can be declined.
        if let (Some(decline), false) = (cx.displaced, self.may_have_bid()) {
            return self.decline(decline.clone(), out);
        }
        // A repeated transaction uses the deposit of the first one.
        let sent = self.deposit.as_ref().filter(|_| self.may_have_bid());
        let Some(deposit) = sent.or(cx.deposit).cloned() else {
            return self.await_balance(out);
        };
        out.push(OrderAction::Call(Call::Broadcast(Msg::CreateBid {
            id: self.bid_id(cx),
            price: price.clone(),
            deposit: deposit.clone(),
            resources_offer: self.units.as_deref().cloned().unwrap_or_default(),
            reclamation_window: cx.config.reclamation_window,
        })));
        self.deposit = Some(deposit);
        self.goto(OrderStage::Bidding { ending: None })
    }

    fn await_balance(mut self, out: &mut Vec<OrderAction>) -> Self {
        let is_first = !std::mem::replace(&mut self.was_unfunded, true);
        self.attempts = 0;
        out.push(OrderAction::AwaitBalance { is_first });
        self.goto(OrderStage::Unfunded)
    }

    fn sent(mut self, cx: &Cx<'_>, result: Result<TxOutcome, Failure>, out: &mut Vec<OrderAction>) -> Self {
        match self.phase.clone() {
            OrderStage::Bidding { ending } => self.bid_sent(cx, result, ending, out),
            OrderStage::Closing {
                retry_at: None,
                ending,
            } => match result {
                Ok(TxOutcome::Committed { .. }) => self.end(ending, out),
                // The bid is closed, the fee is missing, or a node is behind. The bid is read and possibly closed again
                // after a back-off.
                Ok(TxOutcome::Rejected { .. }) => {
                    self.is_on_chain = true;
                    self.check_again(cx, Some(ending), BlockTime::default())
                }
                // The bid is read after the expiry. A second close is harmless.
                Ok(TxOutcome::Unknown { expires }) => self.goto(OrderStage::Unsure {
                    expires,
                    ending: Some(ending),
                    again_after: expires,
                }),
                // An error means that the transaction was not sent, so there is no expiry to wait for.
                Err(_) => {
                    self.attempts += 1;
                    let retry_at = self.retry_at(cx);
                    self.goto(OrderStage::Closing { retry_at, ending })
                }
            },
            OrderStage::Looking { .. }
            | OrderStage::Judging
            | OrderStage::Counting { .. }
            | OrderStage::Reserving
            | OrderStage::Pricing
            | OrderStage::Ready { .. }
            | OrderStage::Unfunded
            | OrderStage::Unsure { .. }
            | OrderStage::Checking { .. }
            | OrderStage::Open { .. }
            | OrderStage::Closing { .. }
            | OrderStage::Done(_) => self.unexpected(out),
        }
    }

    fn bid_sent(
        mut self,
        cx: &Cx<'_>,
        result: Result<TxOutcome, Failure>,
        ending: Option<Outcome>,
        out: &mut Vec<OrderAction>,
    ) -> Self {
        self.committed |= matches!(result, Ok(TxOutcome::Committed { .. }));
        self.report_insufficient_funds(&result, out);
        match (result, ending) {
            (Ok(TxOutcome::Committed { height }), None) => self.opened(cx, height, out),
            // The bid was included after the order ended, so the bid is read, and closed if open.
            (Ok(TxOutcome::Committed { .. }), ending) => self.check_existing(cx, ending, out),
            // An earlier transaction was included, independent of this result.
            (_, ending) if self.is_on_chain => self.check_existing(cx, ending, out),
            (Ok(TxOutcome::Unknown { expires }), ending) => {
                self.attempts += 1;
                // The latest expiry, because any of the transactions may be included.
                self.pending_expiry = self.pending_expiry.max(Some(expires));
                // Sending again is harmless, because the chain accepts one bid per order. The last attempt waits for
                // the expiry.
                let last = self.attempts >= BID_ATTEMPTS || ending.is_some();
                let again_after = if last { expires } else { cx.now.block_time };
                self.goto(OrderStage::Unsure {
                    expires,
                    ending,
                    again_after,
                })
            }
            // An earlier transaction of this provider may have created the bid, so the bid is read.
            (
                Ok(TxOutcome::Rejected {
                    error: TxError::BidExists,
                    ..
                }),
                ending,
            ) => self.check_existing(cx, ending, out),
            // This transaction failed, but an earlier one may still be included.
            (Ok(TxOutcome::Rejected { .. }) | Err(_), ending) if self.earlier_expiry(cx).is_some() => {
                let expires = self.earlier_expiry(cx).unwrap_or_default();
                let again_after = expires;
                self.goto(OrderStage::Unsure {
                    expires,
                    ending,
                    again_after,
                })
            }
            (Ok(TxOutcome::Rejected { .. }) | Err(_), Some(ending)) => self.end(ending, out),
            (Ok(TxOutcome::Rejected { error, code, log }), None) => {
                self.refused(cx, error, format!("{code}: {log}"), out)
            }
            (Err(failure), None) => {
                self.attempts += 1;
                if !failure.transient || self.attempts >= READ_ATTEMPTS {
                    return self.decline(
                        Decline::Unknown {
                            message: failure.message,
                        },
                        out,
                    );
                }
                let retry_at = self.retry_at(cx);
                self.goto(OrderStage::Ready { retry_at })
            }
        }
    }

    fn refused(self, cx: &Cx<'_>, error: TxError, message: String, out: &mut Vec<OrderAction>) -> Self {
        if error == TxError::OrderNotOpen {
            // An earlier bid of this provider, sent before a restart, may have won the order.
            return self.check(cx, Some(Outcome::OrderClosed), BlockTime::default(), out);
        }
        if matches!(error, TxError::InsufficientFunds | TxError::FeeUnpaid) {
            return self.await_balance(out);
        }
        if error == TxError::InvalidBid
            && let Some(limit) = max_bids(&message)
        {
            let bids = limit.saturating_add(1);
            return self.decline(Decline::OrderFull { bids, limit }, out);
        }
        let is_by_current_data = self.provider_version == cx.provider_version;
        if is_by_current_data && is_by_parameters(error) {
            out.push(OrderAction::AwaitParameters);
        }
        let decline = if is_by_current_data && !is_by_parameters(error) {
            Decline::Refused { message }
        } else {
            // The decision was based on outdated data, so the rejection is possibly not final.
            Decline::Unknown { message }
        };
        self.decline(decline, out)
    }

    /// Reports that the account cannot pay a deposit, so that the provider sends no other bid with this
    /// deposit.
    fn report_insufficient_funds(&self, result: &Result<TxOutcome, Failure>, out: &mut Vec<OrderAction>) {
        if let Ok(TxOutcome::Rejected { error, code, log }) = result
            && *error == TxError::InsufficientFunds
            && let Some(deposit) = self.deposit.clone()
        {
            let reason = format!("{code}: {log}");
            out.push(OrderAction::DepositRejected { deposit, reason });
        }
    }

    fn earlier_expiry(&self, cx: &Cx<'_>) -> Option<BlockTime> {
        self.pending_expiry
            .filter(|expires| *expires >= cx.now.block_time)
    }

    fn won(self, cx: &Cx<'_>, out: &mut Vec<OrderAction>) -> Self {
        let is_pending = matches!(
            self.phase,
            OrderStage::Bidding { .. } | OrderStage::Unsure { ending: None, .. }
        );
        if is_pending {
            // The lease event arrived before the result of the transaction.
            self.publish_placed(cx, out);
        }
        self.goto(OrderStage::Done(Outcome::Won))
    }

    fn publish_placed(&self, cx: &Cx<'_>, out: &mut Vec<OrderAction>) {
        if let Some(price) = &self.price {
            out.push(OrderAction::Publish(Event::BidPlaced {
                bid: self.bid_id(cx),
                price: price.clone(),
            }));
        }
    }

    fn opened(mut self, cx: &Cx<'_>, height: Height, out: &mut Vec<OrderAction>) -> Self {
        self.publish_placed(cx, out);
        self.attempts = 0;
        self.is_on_chain = true;
        self.timeout_from = cx.config.bid_timeout.map(|_| height);
        let deadline = self.bid_deadline(cx);
        self.goto(OrderStage::Open { deadline })
    }

    fn check_existing(mut self, cx: &Cx<'_>, ending: Option<Outcome>, out: &mut Vec<OrderAction>) -> Self {
        self.is_on_chain = true;
        self.check(cx, ending, BlockTime::default(), out)
    }

    fn check(
        mut self,
        cx: &Cx<'_>,
        ending: Option<Outcome>,
        expires: BlockTime,
        out: &mut Vec<OrderAction>,
    ) -> Self {
        self.attempts = 0;
        out.push(OrderAction::Call(Call::FetchBid(self.bid_id(cx))));
        self.goto(OrderStage::Checking {
            retry_at: None,
            ending,
            expires,
        })
    }

    fn bid_fetched(
        mut self,
        cx: &Cx<'_>,
        result: Result<Observed<Bid>, Failure>,
        out: &mut Vec<OrderAction>,
    ) -> Self {
        let OrderStage::Checking {
            retry_at: None,
            ending,
            expires,
        } = self.phase.clone()
        else {
            return self.unexpected(out);
        };
        let (bid, height) = match result {
            Ok(seen) => (seen.value, seen.height),
            Err(_) => return self.check_again(cx, ending, expires),
        };
        // A bid once observed exists, even if a later read does not return it.
        self.is_on_chain |= bid.is_some();
        let state = bid.as_ref().map(|b| b.state);
        if let Some(bid) = bid.filter(|b| matches!(b.state, BidState::Open | BidState::Active)) {
            // A bid from before a restart may have another offer.
            out.push(OrderAction::AdjustReservation(bid.resources_offer));
            self.price = Some(bid.price);
        }
        match (state, ending) {
            (Some(BidState::Open), None) => self.opened(cx, height, out),
            // The order may have closed the bid, and the node has not processed that yet.
            (Some(BidState::Open), ending) if cx.is_past(height) => self.check_again(cx, ending, expires),
            (Some(BidState::Open), Some(ending)) => self.close(cx, ending, out),
            (Some(BidState::Closed), ending) => self.end(ending.unwrap_or(Outcome::BidClosed), out),
            (Some(BidState::Lost), _) => self.end(Outcome::Lost, out),
            // The reservation stays until the lease event or the next snapshot.
            (Some(BidState::Active), _) => self.goto(OrderStage::Open { deadline: None }),
            // A missing bid is evidence only if the bid was never observed, the read is not older than the processed
            // height, and no transaction can be included any more: it has expired, or the order is closed.
            (None, ending)
                if !self.is_on_chain
                    && height >= cx.height.max(self.min_read_height.unwrap_or(0))
                    && self.cannot_be_included(cx, ending.as_ref(), expires) =>
            {
                let end = ending.unwrap_or_else(|| self.outcome_of_missing_bid());
                self.end(end, out)
            }
            (None, ending) => self.check_again(cx, ending, expires),
        }
    }

    fn outcome_of_missing_bid(&self) -> Outcome {
        if self.min_read_height.is_some() {
            // One node reported the bid and another does not have it. The order gets no other bid.
            return Outcome::BidClosed;
        }
        let message = "the bid transaction expired without being included in a block".to_owned();
        Outcome::Declined(Box::new(Decline::Unknown { message }))
    }

    fn cannot_be_included(&self, cx: &Cx<'_>, ending: Option<&Outcome>, expires: BlockTime) -> bool {
        cx.now.block_time > expires || ending == Some(&Outcome::OrderClosed)
    }

    fn check_again(mut self, cx: &Cx<'_>, ending: Option<Outcome>, expires: BlockTime) -> Self {
        self.attempts += 1;
        let retry_at = self.retry_at(cx);
        self.goto(OrderStage::Checking {
            retry_at,
            ending,
            expires,
        })
    }

    fn close(self, cx: &Cx<'_>, ending: Outcome, out: &mut Vec<OrderAction>) -> Self {
        // During shutdown the bid stays open. The next instance adopts it.
        if !cx.may_close || cx.stopping {
            let retry_at = Some(cx.now.mono.plus(CLOSE_RECHECK));
            return self.goto(OrderStage::Closing { retry_at, ending });
        }
        let reason = CloseReason::Unspecified;
        out.push(OrderAction::Call(Call::Broadcast(Msg::CloseBid {
            id: self.bid_id(cx),
            reason,
        })));
        self.goto(OrderStage::Closing {
            retry_at: None,
            ending,
        })
    }

    fn bid_observed(self, cx: &Cx<'_>, out: &mut Vec<OrderAction>) -> Self {
        match self.phase.clone() {
            // The completion of the call follows.
            OrderStage::Bidding { .. }
            | OrderStage::Checking { .. }
            | OrderStage::Open { .. }
            | OrderStage::Closing { .. } => Self {
                is_on_chain: true,
                ..self
            },
            OrderStage::Unsure { ending: None, .. } => self.check_existing(cx, None, out),
            // The bid was included, so there is no expiry to wait for.
            OrderStage::Unsure {
                ending: Some(ending), ..
            } => self.close(cx, ending, out),
            // Another instance with the same key has bid: adopt the bid.
            OrderStage::Counting { .. }
            | OrderStage::Pricing
            | OrderStage::Ready { .. }
            | OrderStage::Unfunded => self.check_existing(cx, None, out),
            // The same, but nothing is reserved yet. A full scan adopts the bid with its offer.
            OrderStage::Looking { .. } | OrderStage::Judging | OrderStage::Reserving => {
                self.end(Outcome::Stopped, out)
            }
            OrderStage::Done(_) => self.unexpected(out),
        }
    }

    fn bid_closed(self, out: &mut Vec<OrderAction>) -> Self {
        match self.phase.clone() {
            OrderStage::Bidding { ending }
            | OrderStage::Unsure { ending, .. }
            | OrderStage::Checking { ending, .. } => self.end(ending.unwrap_or(Outcome::BidClosed), out),
            OrderStage::Closing { ending, .. } => self.end(ending, out),
            OrderStage::Open { .. } => self.end(Outcome::BidClosed, out),
            // A bid that this machine did not send. The order gets no other bid.
            OrderStage::Looking { .. }
            | OrderStage::Judging
            | OrderStage::Counting { .. }
            | OrderStage::Reserving
            | OrderStage::Pricing
            | OrderStage::Ready { .. }
            | OrderStage::Unfunded => self.end(Outcome::BidClosed, out),
            OrderStage::Done(_) => self.unexpected(out),
        }
    }

    fn order_closed(self, cx: &Cx<'_>, out: &mut Vec<OrderAction>) -> Self {
        match self.phase.clone() {
            OrderStage::Looking { .. }
            | OrderStage::Judging
            | OrderStage::Counting { .. }
            | OrderStage::Reserving
            | OrderStage::Pricing
            | OrderStage::Ready { .. }
            | OrderStage::Unfunded => self.end(Outcome::OrderClosed, out),
            // The result of the transaction in flight shows whether a bid must be closed.
            OrderStage::Bidding { ending } => self.goto(OrderStage::Bidding {
                ending: Some(ending.unwrap_or(Outcome::OrderClosed)),
            }),
            OrderStage::Unsure { expires, ending, .. } => {
                // No further attempt: the expiry or the record of the bid decides.
                let ending = Some(ending.unwrap_or(Outcome::OrderClosed));
                self.goto(OrderStage::Unsure {
                    expires,
                    ending,
                    again_after: expires,
                })
            }
            OrderStage::Checking {
                retry_at,
                ending,
                expires,
            } => {
                let ending = Some(ending.unwrap_or(Outcome::OrderClosed));
                self.goto(OrderStage::Checking {
                    retry_at,
                    ending,
                    expires,
                })
            }
            // The chain closes the bid with the order. The read makes sure that no deposit stays locked.
            OrderStage::Open { .. } => self.check_existing(cx, Some(Outcome::OrderClosed), out),
            OrderStage::Closing { .. } => self,
            OrderStage::Done(_) => self.unexpected(out),
        }
    }

    fn bid_missing(self, cx: &Cx<'_>, out: &mut Vec<OrderAction>) -> Self {
        match self.phase {
            OrderStage::Open { .. } => self.check_existing(cx, None, out),
            // In the other phases, the bid is not assumed to be open, or a read or close is in flight.
            OrderStage::Looking { .. }
            | OrderStage::Judging
            | OrderStage::Counting { .. }
            | OrderStage::Reserving
            | OrderStage::Pricing
            | OrderStage::Ready { .. }
            | OrderStage::Unfunded
            | OrderStage::Bidding { .. }
            | OrderStage::Unsure { .. }
            | OrderStage::Checking { .. }
            | OrderStage::Closing { .. }
            | OrderStage::Done(_) => self,
        }
    }

    fn wake(self, cx: &Cx<'_>, out: &mut Vec<OrderAction>) -> Self {
        let due = |at: Option<Mono>| at.is_some_and(|at| at <= cx.now.mono);
        match self.phase.clone() {
            OrderStage::Looking { retry_at } if due(retry_at) => {
                out.push(OrderAction::Call(Call::FetchOrder(self.id.clone())));
                self.goto(OrderStage::Looking { retry_at: None })
            }
            OrderStage::Counting { retry_at } if due(retry_at) => self.count_bids(out),
            // Counted again, because other providers may have bid in the meantime.
            OrderStage::Ready { retry_at: None } if cx.may_bid() => self.count_bids(out),
            OrderStage::Ready { retry_at } if due(retry_at) => self.bid(cx, out),
            OrderStage::Unfunded => self.resume_unfunded(cx, out),
            OrderStage::Unsure {
                expires,
                ending,
                again_after,
            } if cx.now.block_time > again_after => {
                // The bid can be sent again immediately, because the chain accepts one bid per order.
                let again = ending.is_none() && again_after < expires && cx.displaced.is_none();
                if again && cx.may_bid() && self.price.is_some() {
                    return self.bid(cx, out);
                }
                self.check(cx, ending, expires, out)
            }
            OrderStage::Checking {
                retry_at,
                ending,
                expires,
            } if due(retry_at) => {
                out.push(OrderAction::Call(Call::FetchBid(self.bid_id(cx))));
                self.goto(OrderStage::Checking {
                    retry_at: None,
                    ending,
                    expires,
                })
            }
            OrderStage::Open {
                deadline: Some(deadline),
            } if deadline <= cx.now.block_time => self.open_due(cx, out),
            OrderStage::Closing { retry_at, ending } if due(retry_at) => self.close(cx, ending, out),
            OrderStage::Looking { .. }
            | OrderStage::Judging
            | OrderStage::Counting { .. }
            | OrderStage::Reserving
            | OrderStage::Pricing
            | OrderStage::Ready { .. }
            | OrderStage::Bidding { .. }
            | OrderStage::Unsure { .. }
            | OrderStage::Checking { .. }
            | OrderStage::Open { .. }
            | OrderStage::Closing { .. }
            | OrderStage::Done(_) => self,
        }
    }

    /// Continues an order that waited for the deposit. The bids are counted and the price is calculated
    /// again.
    fn resume_unfunded(self, cx: &Cx<'_>, out: &mut Vec<OrderAction>) -> Self {
        match cx.displaced {
            Some(decline) => self.decline(decline.clone(), out),
            None if cx.deposit.is_some() && cx.may_bid() => self.count_bids(out),
            None => self,
        }
    }

    fn open_due(mut self, cx: &Cx<'_>, out: &mut Vec<OrderAction>) -> Self {
        if self.timeout_from.is_none() {
            return self.close(cx, Outcome::BidTimeout, out);
        }
        let deadline = self.bid_deadline(cx);
        self.goto(OrderStage::Open { deadline })
    }

    /// Returns the block time of the next step for an open bid: the close of the bid, or the start of its
    /// timeout. Returns `None` if no bid timeout is configured.
    fn bid_deadline(&mut self, cx: &Cx<'_>) -> Option<BlockTime> {
        let now = cx.now.block_time;
        let timeout = cx.config.bid_timeout?;
        if self.timeout_from.take_if(|from| *from <= cx.height).is_some() {
            return Some(now.plus(timeout));
        }
        // The next block of any time, because the block of the bid was not processed yet.
        Some(now.plus(Duration::from_millis(1)))
    }

    fn decline(self, decline: Decline, out: &mut Vec<OrderAction>) -> Self {
        self.end(Outcome::Declined(Box::new(decline.shortened())), out)
    }

    fn end(self, end: Outcome, out: &mut Vec<OrderAction>) -> Self {
        // A finished order has already released its reservation.
        if let OrderStage::Done(_) = self.phase {
            return self.unexpected(out);
        }
        if self.holds_reservation() {
            out.push(OrderAction::Unreserve);
        }
        self.goto(OrderStage::Done(end))
    }

    fn retry_at(&self, cx: &Cx<'_>) -> Option<Mono> {
        Some(cx.now.mono.plus(backoff::after(self.attempts.saturating_sub(1))))
    }

    fn goto(mut self, phase: OrderStage) -> Self {
        self.phase = phase;
        self
    }

    fn unexpected(self, out: &mut Vec<OrderAction>) -> Self {
        out.push(OrderAction::Unexpected);
        self
    }
}

/// Returns true if the chain rejected a bid because of market parameters that the engine must read again.
const fn is_by_parameters(error: TxError) -> bool {
    matches!(
        error,
        TxError::Deposit | TxError::Reclamation | TxError::InvalidBid
    )
}

/// Parses the maximum number of bids per order from the error text `reason`. Returns `None` for other error
/// texts.
fn max_bids(reason: &str) -> Option<u32> {
    let (_, limit) = reason.split_once("too many existing bids (")?;
    limit.split_once(')')?.0.parse().ok()
}

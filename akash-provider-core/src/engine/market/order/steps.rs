//! The steps of an order: what each input does in each phase.
//!
//! Length: one machine, read from top to bottom; every input has its function, and every phase is named in it.

use super::{Action, BID_ATTEMPTS, COUNT_ATTEMPTS, End, Input, Order, Phase, READ_ATTEMPTS};
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

/// How often a close that may not be sent yet asks again.
const CLOSE_RECHECK: Duration = Duration::from_secs(5);

impl Order {
    fn bid_id(&self, cx: &Cx<'_>) -> BidId {
        BidId {
            order: self.id.clone(),
            provider: cx.config.provider.clone(),
        }
    }

    /// One step: what an input does in the phase that the order is in.
    #[must_use]
    pub fn transition(self, cx: &Cx<'_>, input: Input, out: &mut Vec<Action>) -> Self {
        match input {
            Input::Fetched(result) => self.fetched(cx, result, out),
            Input::Judged(result) => self.judged(cx, result, out),
            Input::Counted(result) => self.counted(cx, result, out),
            Input::Reserved(result) => self.reserved(result, out),
            Input::Priced(result) => self.priced(cx, result, out),
            Input::Tx(result) => self.sent(cx, result, out),
            Input::Found(result) => self.found(cx, result, out),
            Input::BidSeen => self.bid_seen(cx, out),
            Input::BidClosed => self.bid_over(out),
            Input::OrderClosed => self.order_over(cx, out),
            Input::Lost => self.end(End::Lost, out),
            // The reservation goes to the lease.
            Input::Won => self.won(cx, out),
            Input::Doubt => self.doubt(cx, out),
            Input::Wake => self.wake(cx, out),
            // A bid that may be on the chain is seen to its end, stopping or not.
            Input::Shutdown if self.may_have_bid() => self,
            Input::Shutdown => self.end(End::Stopped, out),
        }
    }

    fn fetched(
        mut self,
        cx: &Cx<'_>,
        result: Result<Option<Arc<types::Order>>, Failure>,
        out: &mut Vec<Action>,
    ) -> Self {
        let Phase::Looking { retry_at: None } = self.phase else {
            return self.unexpected(out);
        };
        match result {
            Ok(Some(order)) if order.state == OrderState::Open => {
                self.order = Some(order);
                // The attempts of one question do not count for the next.
                self.attempts = 0;
                out.push(Action::Judge);
                self.goto(Phase::Judging)
            }
            Ok(Some(_)) => self.end(End::OrderClosed, out),
            // The event says it is there; a node that does not know it yet lags.
            Ok(None) => self.look_again(cx, "the node does not know the order yet", out),
            Err(failure) if failure.transient => self.look_again(cx, &failure.message, out),
            Err(failure) => self.decline(
                Decline::Unknown {
                    message: failure.message,
                },
                out,
            ),
        }
    }

    fn look_again(mut self, cx: &Cx<'_>, why: &str, out: &mut Vec<Action>) -> Self {
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
        self.goto(Phase::Looking { retry_at })
    }

    fn judged(mut self, cx: &Cx<'_>, result: Result<(), Decline>, out: &mut Vec<Action>) -> Self {
        let Phase::Judging = self.phase else {
            return self.unexpected(out);
        };
        match result {
            Ok(()) => {
                // Kept, because a refusal of the bid counts only while these facts are the ones known.
                self.facts = cx.facts;
                out.push(Action::Reserve);
                self.goto(Phase::Reserving)
            }
            Err(decline) => self.decline(decline, out),
        }
    }

    fn count_bids(self, out: &mut Vec<Action>) -> Self {
        out.push(Action::Count);
        self.goto(Phase::Counting { retry_at: None })
    }

    fn counted(
        mut self,
        cx: &Cx<'_>,
        result: Result<Result<(), Decline>, Failure>,
        out: &mut Vec<Action>,
    ) -> Self {
        let Phase::Counting { retry_at: None } = self.phase else {
            return self.unexpected(out);
        };
        match result {
            Ok(Ok(())) => self.ask_price(out),
            Ok(Err(decline)) => self.decline(decline, out),
            Err(failure) if failure.transient && self.attempts + 1 < COUNT_ATTEMPTS => {
                self.attempts += 1;
                let retry_at = self.retry_at(cx);
                self.goto(Phase::Counting { retry_at })
            }
            // The chain refuses a bid too many by itself; not knowing is no reason to leave the order to others.
            Err(failure) => {
                out.push(Action::Publish(Event::BidsNotCounted {
                    order: self.id.clone(),
                    message: failure.message,
                }));
                self.ask_price(out)
            }
        }
    }

    fn reserved(mut self, result: Result<Arc<Vec<ResourceUnit>>, Decline>, out: &mut Vec<Action>) -> Self {
        let Phase::Reserving = self.phase else {
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

    fn ask_price(self, out: &mut Vec<Action>) -> Self {
        let (Some(order), Some(units)) = (&self.order, &self.units) else {
            return self.unexpected(out);
        };
        let request = bidding::price_request(order, Arc::clone(units));
        out.push(Action::Call(Call::CalculatePrice(request)));
        self.goto(Phase::Pricing)
    }

    fn priced(mut self, cx: &Cx<'_>, result: Result<DecCoin, Failure>, out: &mut Vec<Action>) -> Self {
        let Phase::Pricing = self.phase else {
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
            // What was reserved is given back meanwhile: without a price it is asked again later, as a declined order.
            Err(decline) => self.decline(decline, out),
        }
    }

    /// Sends the bid, if we may.
    fn bid(mut self, cx: &Cx<'_>, out: &mut Vec<Action>) -> Self {
        let (Some(price), true) = (&self.price, cx.may_bid()) else {
            // A wake goes on from here once bids may be sent.
            return self.goto(Phase::Ready { retry_at: None });
        };
        // Nothing of this bid is on its way yet, so it may be left.
        if let (Some(decline), false) = (cx.displaced, self.may_have_bid()) {
            return self.decline(decline.clone(), out);
        }
        // What may be on its way already is sent again with what it had.
        let sent = self.deposit.as_ref().filter(|_| self.may_have_bid());
        let Some(deposit) = sent.or(cx.deposit).cloned() else {
            return self.await_money(out);
        };
        out.push(Action::Call(Call::Broadcast(Msg::CreateBid {
            id: self.bid_id(cx),
            price: price.clone(),
            deposit: deposit.clone(),
            resources_offer: self.units.as_deref().cloned().unwrap_or_default(),
            reclamation_window: cx.config.reclamation_window,
        })));
        self.deposit = Some(deposit);
        self.goto(Phase::Bidding { ending: None })
    }

    fn await_money(mut self, out: &mut Vec<Action>) -> Self {
        let is_news = !std::mem::replace(&mut self.was_unfunded, true);
        self.attempts = 0;
        out.push(Action::AwaitMoney { is_news });
        self.goto(Phase::Unfunded)
    }

    fn sent(mut self, cx: &Cx<'_>, result: Result<TxOutcome, Failure>, out: &mut Vec<Action>) -> Self {
        match self.phase.clone() {
            Phase::Bidding { ending } => self.bid_sent(cx, result, ending, out),
            Phase::Closing {
                retry_at: None,
                ending,
            } => match result {
                Ok(TxOutcome::Committed { .. }) => self.end(ending, out),
                // The bid is over, the fee is missing, or a node is behind: the next reading of the bid, and the next
                // close, come after a back-off.
                Ok(TxOutcome::Rejected { .. }) => {
                    self.landed = true;
                    self.check_again(cx, Some(ending), BlockTime::default())
                }
                // Look at the bid once the transaction can no longer land; closing twice is harmless.
                Ok(TxOutcome::Unknown { expires }) => self.goto(Phase::Unsure {
                    expires,
                    ending: Some(ending),
                    again_after: expires,
                }),
                // An error means that it was certainly not sent, so nothing has to expire first.
                Err(_) => {
                    self.attempts += 1;
                    let retry_at = self.retry_at(cx);
                    self.goto(Phase::Closing { retry_at, ending })
                }
            },
            Phase::Looking { .. }
            | Phase::Judging
            | Phase::Counting { .. }
            | Phase::Reserving
            | Phase::Pricing
            | Phase::Ready { .. }
            | Phase::Unfunded
            | Phase::Unsure { .. }
            | Phase::Checking { .. }
            | Phase::Open { .. }
            | Phase::Closing { .. }
            | Phase::Done(_) => self.unexpected(out),
        }
    }

    fn bid_sent(
        mut self,
        cx: &Cx<'_>,
        result: Result<TxOutcome, Failure>,
        ending: Option<End>,
        out: &mut Vec<Action>,
    ) -> Self {
        self.committed |= matches!(result, Ok(TxOutcome::Committed { .. }));
        self.tell_lack_of_money(&result, out);
        match (result, ending) {
            (Ok(TxOutcome::Committed { height }), None) => self.opened(cx, height, out),
            // It landed after the order had ended, so the bid is looked at, and closed where it is open.
            (Ok(TxOutcome::Committed { .. }), ending) => self.check_landed(cx, ending, out),
            // An earlier transaction has landed, whatever became of this one.
            (_, ending) if self.landed => self.check_landed(cx, ending, out),
            (Ok(TxOutcome::Unknown { expires }), ending) => {
                self.attempts += 1;
                // The latest of them, because any of the tries may land.
                self.may_land = self.may_land.max(Some(expires));
                // Trying again is harmless, for the chain takes one bid ever. After the last try the expiry decides.
                let last = self.attempts >= BID_ATTEMPTS || ending.is_some();
                let again_after = if last { expires } else { cx.now.block_time };
                self.goto(Phase::Unsure {
                    expires,
                    ending,
                    again_after,
                })
            }
            // Perhaps by an earlier transaction of our own: the bid is read, not given up.
            (
                Ok(TxOutcome::Rejected {
                    error: TxError::BidExists,
                    ..
                }),
                ending,
            ) => self.check_landed(cx, ending, out),
            // This one is nothing, but an earlier one may still land.
            (Ok(TxOutcome::Rejected { .. }) | Err(_), ending) if self.earlier_may_land(cx).is_some() => {
                let expires = self.earlier_may_land(cx).unwrap_or_default();
                let again_after = expires;
                self.goto(Phase::Unsure {
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
                self.goto(Phase::Ready { retry_at })
            }
        }
    }

    /// The chain takes no bid of ours on the order.
    fn refused(self, cx: &Cx<'_>, error: TxError, message: String, out: &mut Vec<Action>) -> Self {
        if error == TxError::OrderNotOpen {
            // It may be active by a bid of ours from before a restart, which this one would have doubled.
            return self.check(cx, Some(End::OrderClosed), BlockTime::default(), out);
        }
        if matches!(error, TxError::InsufficientFunds | TxError::FeeUnpaid) {
            return self.await_money(out);
        }
        let is_by_known_facts = self.facts == cx.facts;
        if is_by_known_facts && is_by_parameters(error) {
            out.push(Action::AwaitParameters);
        }
        let decline = if is_by_known_facts && !is_by_parameters(error) {
            Decline::Refused { message }
        } else {
            // What was judged is no longer what the chain says of us or of itself, so the refusal may not stand.
            Decline::Unknown { message }
        };
        self.decline(decline, out)
    }

    /// Whatever becomes of this order, others must not bid with the same coin. A missing fee concerns every transaction,
    /// so the engine notes it itself.
    fn tell_lack_of_money(&self, result: &Result<TxOutcome, Failure>, out: &mut Vec<Action>) {
        if let Ok(TxOutcome::Rejected { error, code, log }) = result
            && *error == TxError::InsufficientFunds
            && let Some(deposit) = self.deposit.clone()
        {
            let reason = format!("{code}: {log}");
            out.push(Action::MoneyRefused { deposit, reason });
        }
    }

    fn earlier_may_land(&self, cx: &Cx<'_>) -> Option<BlockTime> {
        self.may_land.filter(|expires| *expires >= cx.now.block_time)
    }

    fn won(self, cx: &Cx<'_>, out: &mut Vec<Action>) -> Self {
        let is_unanswered = matches!(
            self.phase,
            Phase::Bidding { .. } | Phase::Unsure { ending: None, .. }
        );
        if is_unanswered {
            // The lease was told before the transaction's own answer.
            self.tell_placed(cx, out);
        }
        self.goto(Phase::Done(End::Won))
    }

    fn tell_placed(&self, cx: &Cx<'_>, out: &mut Vec<Action>) {
        if let Some(price) = &self.price {
            out.push(Action::Publish(Event::BidPlaced {
                bid: self.bid_id(cx),
                price: price.clone(),
            }));
        }
    }

    /// The bid is on the chain since about now.
    fn opened(mut self, cx: &Cx<'_>, height: Height, out: &mut Vec<Action>) -> Self {
        self.tell_placed(cx, out);
        self.attempts = 0;
        self.landed = true;
        self.clock_from = cx.config.bid_timeout.map(|_| height);
        let deadline = self.bid_deadline(cx);
        self.goto(Phase::Open { deadline })
    }

    fn check_landed(mut self, cx: &Cx<'_>, ending: Option<End>, out: &mut Vec<Action>) -> Self {
        self.landed = true;
        self.check(cx, ending, BlockTime::default(), out)
    }

    fn check(mut self, cx: &Cx<'_>, ending: Option<End>, expires: BlockTime, out: &mut Vec<Action>) -> Self {
        self.attempts = 0;
        out.push(Action::Call(Call::FetchBid(self.bid_id(cx))));
        self.goto(Phase::Checking {
            retry_at: None,
            ending,
            expires,
        })
    }

    fn found(mut self, cx: &Cx<'_>, result: Result<Observed<Bid>, Failure>, out: &mut Vec<Action>) -> Self {
        let Phase::Checking {
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
        // Seen once is there for good, whatever a later reading lacks.
        self.landed |= bid.is_some();
        let state = bid.as_ref().map(|b| b.state);
        if let Some(bid) = bid.filter(|b| matches!(b.state, BidState::Open | BidState::Active)) {
            // One from before a restart may have promised another thing.
            out.push(Action::Promised(bid.resources_offer));
            self.price = Some(bid.price);
        }
        match (state, ending) {
            (Some(BidState::Open), None) => self.opened(cx, height, out),
            // It may have ended with its order since; the node has not seen that yet.
            (Some(BidState::Open), ending) if cx.is_past(height) => self.check_again(cx, ending, expires),
            (Some(BidState::Open), Some(ending)) => self.close(cx, ending, out),
            (Some(BidState::Closed), ending) => self.end(ending.unwrap_or(End::BidClosed), out),
            (Some(BidState::Lost), _) => self.end(End::Lost, out),
            // The lease's own event or the next snapshot hands it over; until then the reservation stays.
            (Some(BidState::Active), _) => self.goto(Phase::Open { deadline: None }),
            // Not found is evidence only where the bid never showed, the reading is not older than what was
            // processed, and nothing can land any more: the transaction has expired, or the order is over.
            (None, ending)
                if !self.landed
                    && height >= cx.height.max(self.shows_from.unwrap_or(0))
                    && self.cannot_land(cx, ending.as_ref(), expires) =>
            {
                let end = ending.unwrap_or_else(|| self.did_not_land());
                self.end(end, out)
            }
            (None, ending) => self.check_again(cx, ending, expires),
        }
    }

    fn did_not_land(&self) -> End {
        if self.shows_from.is_some() {
            // One node told of it and one has it not. It holds nothing any longer, and the order gets no other.
            return End::BidClosed;
        }
        let message = "the bid's transaction expired without landing".to_owned();
        End::Declined(Box::new(Decline::Unknown { message }))
    }

    fn cannot_land(&self, cx: &Cx<'_>, ending: Option<&End>, expires: BlockTime) -> bool {
        cx.now.block_time > expires || ending == Some(&End::OrderClosed)
    }

    fn check_again(mut self, cx: &Cx<'_>, ending: Option<End>, expires: BlockTime) -> Self {
        self.attempts += 1;
        let retry_at = self.retry_at(cx);
        self.goto(Phase::Checking {
            retry_at,
            ending,
            expires,
        })
    }

    fn close(self, cx: &Cx<'_>, ending: End, out: &mut Vec<Action>) -> Self {
        // While stopping it stays open: whoever starts next takes it over.
        if !cx.may_close || cx.stopping {
            let retry_at = Some(cx.now.mono.plus(CLOSE_RECHECK));
            return self.goto(Phase::Closing { retry_at, ending });
        }
        let reason = CloseReason::Unspecified;
        out.push(Action::Call(Call::Broadcast(Msg::CloseBid {
            id: self.bid_id(cx),
            reason,
        })));
        self.goto(Phase::Closing {
            retry_at: None,
            ending,
        })
    }

    fn bid_seen(self, cx: &Cx<'_>, out: &mut Vec<Action>) -> Self {
        match self.phase.clone() {
            // Its own completion follows.
            Phase::Bidding { .. } | Phase::Checking { .. } | Phase::Open { .. } | Phase::Closing { .. } => {
                Self { landed: true, ..self }
            }
            Phase::Unsure { ending: None, .. } => self.check_landed(cx, None, out),
            // It has landed, so there is no expiry left to wait for.
            Phase::Unsure {
                ending: Some(ending), ..
            } => self.close(cx, ending, out),
            // Another instance with our key bid first: take its bid over.
            Phase::Counting { .. } | Phase::Pricing | Phase::Ready { .. } | Phase::Unfunded => {
                self.check_landed(cx, None, out)
            }
            // Likewise, but nothing is reserved yet: a scan adopts it with what it promised.
            Phase::Looking { .. } | Phase::Judging | Phase::Reserving => self.end(End::Stopped, out),
            Phase::Done(_) => self.unexpected(out),
        }
    }

    fn bid_over(self, out: &mut Vec<Action>) -> Self {
        match self.phase.clone() {
            Phase::Bidding { ending } | Phase::Unsure { ending, .. } | Phase::Checking { ending, .. } => {
                self.end(ending.unwrap_or(End::BidClosed), out)
            }
            Phase::Closing { ending, .. } => self.end(ending, out),
            Phase::Open { .. } => self.end(End::BidClosed, out),
            // A bid of ours that this machine did not send: there will never be another.
            Phase::Looking { .. }
            | Phase::Judging
            | Phase::Counting { .. }
            | Phase::Reserving
            | Phase::Pricing
            | Phase::Ready { .. }
            | Phase::Unfunded => self.end(End::BidClosed, out),
            Phase::Done(_) => self.unexpected(out),
        }
    }

    fn order_over(self, cx: &Cx<'_>, out: &mut Vec<Action>) -> Self {
        match self.phase.clone() {
            Phase::Looking { .. }
            | Phase::Judging
            | Phase::Counting { .. }
            | Phase::Reserving
            | Phase::Pricing
            | Phase::Ready { .. }
            | Phase::Unfunded => self.end(End::OrderClosed, out),
            // The answer of the transaction on its way says whether there is a bid to close.
            Phase::Bidding { ending } => self.goto(Phase::Bidding {
                ending: Some(ending.unwrap_or(End::OrderClosed)),
            }),
            Phase::Unsure { expires, ending, .. } => {
                // No further try from here on: the expiry or the bid itself decides.
                let ending = Some(ending.unwrap_or(End::OrderClosed));
                self.goto(Phase::Unsure {
                    expires,
                    ending,
                    again_after: expires,
                })
            }
            Phase::Checking {
                retry_at,
                ending,
                expires,
            } => {
                let ending = Some(ending.unwrap_or(End::OrderClosed));
                self.goto(Phase::Checking {
                    retry_at,
                    ending,
                    expires,
                })
            }
            // The chain closes the bid with the order; look, so that no deposit stays locked.
            Phase::Open { .. } => self.check_landed(cx, Some(End::OrderClosed), out),
            Phase::Closing { .. } => self,
            Phase::Done(_) => self.unexpected(out),
        }
    }

    fn doubt(self, cx: &Cx<'_>, out: &mut Vec<Action>) -> Self {
        match self.phase {
            Phase::Open { .. } => self.check_landed(cx, None, out),
            // Elsewhere the bid is not thought to be open, or a look or a close is on its way.
            Phase::Looking { .. }
            | Phase::Judging
            | Phase::Counting { .. }
            | Phase::Reserving
            | Phase::Pricing
            | Phase::Ready { .. }
            | Phase::Unfunded
            | Phase::Bidding { .. }
            | Phase::Unsure { .. }
            | Phase::Checking { .. }
            | Phase::Closing { .. }
            | Phase::Done(_) => self,
        }
    }

    fn wake(self, cx: &Cx<'_>, out: &mut Vec<Action>) -> Self {
        let due = |at: Option<Mono>| at.is_some_and(|at| at <= cx.now.mono);
        match self.phase.clone() {
            Phase::Looking { retry_at } if due(retry_at) => {
                out.push(Action::Call(Call::FetchOrder(self.id.clone())));
                self.goto(Phase::Looking { retry_at: None })
            }
            Phase::Counting { retry_at } if due(retry_at) => self.count_bids(out),
            // Counted anew, because others may have bid while it waited.
            Phase::Ready { retry_at: None } if cx.may_bid() => self.count_bids(out),
            Phase::Ready { retry_at } if due(retry_at) => self.bid(cx, out),
            Phase::Unfunded => self.money_came(cx, out),
            Phase::Unsure {
                expires,
                ending,
                again_after,
            } if cx.now.block_time > again_after => {
                // An unknown bid may be sent again at once: the chain takes one bid ever.
                let again = ending.is_none() && again_after < expires && cx.displaced.is_none();
                if again && cx.may_bid() && self.price.is_some() {
                    return self.bid(cx, out);
                }
                self.check(cx, ending, expires, out)
            }
            Phase::Checking {
                retry_at,
                ending,
                expires,
            } if due(retry_at) => {
                out.push(Action::Call(Call::FetchBid(self.bid_id(cx))));
                self.goto(Phase::Checking {
                    retry_at: None,
                    ending,
                    expires,
                })
            }
            Phase::Open {
                deadline: Some(deadline),
            } if deadline <= cx.now.block_time => self.open_due(cx, out),
            Phase::Closing { retry_at, ending } if due(retry_at) => self.close(cx, ending, out),
            Phase::Looking { .. }
            | Phase::Judging
            | Phase::Counting { .. }
            | Phase::Reserving
            | Phase::Pricing
            | Phase::Ready { .. }
            | Phase::Bidding { .. }
            | Phase::Unsure { .. }
            | Phase::Checking { .. }
            | Phase::Open { .. }
            | Phase::Closing { .. }
            | Phase::Done(_) => self,
        }
    }

    /// The price and the bids of others may be old by now.
    fn money_came(self, cx: &Cx<'_>, out: &mut Vec<Action>) -> Self {
        match cx.displaced {
            Some(decline) => self.decline(decline.clone(), out),
            None if cx.deposit.is_some() && cx.may_bid() => self.count_bids(out),
            None => self,
        }
    }

    fn open_due(mut self, cx: &Cx<'_>, out: &mut Vec<Action>) -> Self {
        if self.clock_from.is_none() {
            return self.close(cx, End::BidTimeout, out);
        }
        let deadline = self.bid_deadline(cx);
        self.goto(Phase::Open { deadline })
    }

    /// When an open bid is taken back, or is looked at again because its block has no time yet.
    fn bid_deadline(&mut self, cx: &Cx<'_>) -> Option<BlockTime> {
        let now = cx.now.block_time;
        let timeout = cx.config.bid_timeout?;
        if self.clock_from.take_if(|from| *from <= cx.height).is_some() {
            return Some(now.plus(timeout));
        }
        // With any later block, because its own is not processed yet.
        Some(now.plus(Duration::from_millis(1)))
    }

    fn decline(self, decline: Decline, out: &mut Vec<Action>) -> Self {
        self.end(End::Declined(Box::new(decline.shortened())), out)
    }

    fn end(self, end: End, out: &mut Vec<Action>) -> Self {
        // It has given back what it held, and must not do so twice.
        if let Phase::Done(_) = self.phase {
            return self.unexpected(out);
        }
        if self.holds_reservation() {
            out.push(Action::Unreserve);
        }
        self.goto(Phase::Done(end))
    }

    fn retry_at(&self, cx: &Cx<'_>) -> Option<Mono> {
        Some(cx.now.mono.plus(backoff::after(self.attempts.saturating_sub(1))))
    }

    fn goto(mut self, phase: Phase) -> Self {
        self.phase = phase;
        self
    }

    fn unexpected(self, out: &mut Vec<Action>) -> Self {
        out.push(Action::Unexpected);
        self
    }
}

/// The chain refuses by parameters what was right by those that are known: they have changed, and may be what they
/// were before anybody reads them.
const fn is_by_parameters(error: TxError) -> bool {
    matches!(
        error,
        TxError::Deposit | TxError::Reclamation | TxError::InvalidBid
    )
}

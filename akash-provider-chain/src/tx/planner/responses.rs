//! Handling of the results of actions.

use super::super::api::{Code, IncludedTx, Simulation, Submission};
use super::super::code::{is_panic, rejected, shortened};
use super::super::object_state::ObjectState;
use super::chain_state::Tip;
use super::flight::{Check, Flight, FlightPhase};
use super::{FlightId, Planner, PlannerAction, backoff, failure};
use crate::signer::{Ordering, TxFee};
use akash_provider_core::chain::{Account, SyncInfo};
use akash_provider_core::error::{ErrorKind, Failure};
use akash_provider_core::types::{Msg, TxError, TxOutcome};

/// Maximum number of replacements of a refused draft.
const REPLACED_MAX: u32 = 5;
/// Maximum number of retries after a transaction ran out of gas. Each failure costs a fee.
const OUT_OF_GAS_MAX: u32 = 2;
/// Maximum number of repetitions of a bid simulation that a node refused for an unknown reason.
const UNEXPLAINED_MAX: u32 = 3;
/// Maximum number of failed simulations. Afterwards, the transaction is sent with a high gas limit.
const SIMULATIONS_MAX: u32 = 2;

const OUT_OF_GAS: u32 = 11;
const INSUFFICIENT_FEE: u32 = 13;
const IN_MEMPOOL: u32 = 19;
const MEMPOOL_FULL: u32 = 20;
const TX_DECODE: u32 = 2;
const UNAUTHORIZED: u32 = 4;
const INVALID_REQUEST: u32 = 18;
const TIMEOUT_HEIGHT: u32 = 30;
const WRONG_SEQUENCE: u32 = 32;
const NOT_SUPPORTED: u32 = 37;
const TIMEOUT: u32 = 42;

/// Reaction to the refusal of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaction {
    /// Create a new draft after a back-off, because the mempool is full.
    Again,
    /// Create a new draft with a new nonce.
    Renew,
    /// Query the account, then create a new draft.
    Relearn,
    /// Query the gas prices, then create a new draft.
    Reprice,
    /// Simulate the transaction again, then create a new draft.
    Reestimate,
    /// Create a new draft with a sequence, because the chain does not support unordered transactions.
    Order,
    /// No reaction. The refusal is the outcome of the transaction.
    None,
}

/// Returns true if the chain refused the sequence or the timeout of a transaction. The chain executes no
/// message of such a transaction.
fn is_refused_nonce(code: &Code) -> bool {
    code.is_sdk(TIMEOUT) || code.is_sdk(TIMEOUT_HEIGHT) || code.is_sdk(WRONG_SEQUENCE)
}

fn reaction(code: &Code, ordered: bool) -> Reaction {
    if code.space != "sdk" {
        return Reaction::None;
    }
    match code.number {
        MEMPOOL_FULL => Reaction::Again,
        TIMEOUT | TIMEOUT_HEIGHT => Reaction::Renew,
        // The nonce was already used, or the timeout is too late for the time of this node.
        INVALID_REQUEST if !ordered => Reaction::Renew,
        NOT_SUPPORTED | TX_DECODE if !ordered => Reaction::Order,
        WRONG_SEQUENCE | UNAUTHORIZED => Reaction::Relearn,
        INSUFFICIENT_FEE => Reaction::Reprice,
        OUT_OF_GAS => Reaction::Reestimate,
        _ => Reaction::None,
    }
}

impl Planner {
    /// Handles a block that the event follower reported. Only the newest block updates the tip.
    pub(super) fn block_observed(&mut self, block: SyncInfo, is_newest: bool, is_complete: bool) {
        let height = block.height;
        if is_complete {
            for flight in self.flights.values_mut() {
                // Without a gap between blocks, the transaction is in no block up to this height.
                if flight.absent_until.is_some_and(|at| at + 1 >= height) {
                    flight.absent_until = flight.absent_until.max(Some(height));
                }
            }
        }
        if is_newest {
            self.chain.observe(self.now, &self.config, block);
        }
    }

    pub(super) fn account(&mut self, response: Result<Option<Account>, Failure>) {
        if let Some(sequence) = self.chain.set_account(self.now, response) {
            let waiting = self.flights.values().filter_map(Flight::waiting_sequence);
            // Transactions below the sequence of the chain are included or expired.
            let waiting = waiting.filter(|s| *s >= sequence).max();
            self.sequencer.set_sequence(sequence, waiting);
        }
    }

    pub(super) fn simulated(
        &mut self,
        id: FlightId,
        response: Result<Simulation, Failure>,
        out: &mut Vec<PlannerAction>,
    ) {
        let (now, height) = (self.now, self.chain.height().unwrap_or(0));
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        match response {
            Ok(Simulation::Gas { used }) => {
                self.proven = true;
                let msgs = flight.msgs();
                if let Err(why) = self.config.gas.ceilings.check_gas(&msgs, used) {
                    // The result is not trusted, and is not stored for other transactions of this shape.
                    let at = self.delay(id, why.to_string());
                    if let Some(flight) = self.flights.get_mut(&id) {
                        flight.phase = FlightPhase::Estimating {
                            at,
                            is_pending: false,
                        };
                    }
                    return;
                }
                // After an out-of-gas failure, the limit must not fall below the increased value.
                let used = used.max(flight.gas.unwrap_or(0));
                flight.gas = Some(used);
                flight.failures = 0;
                flight.phase = FlightPhase::Ready { at: now };
                self.estimates.put(&msgs, used, height);
            }
            Ok(Simulation::Refused { log } | Simulation::Unpaid { log, .. }) if flight.members.len() > 1 => {
                self.split(id, &log)
            }
            Ok(Simulation::Unpaid { log, is_fee }) => {
                let error = if is_fee {
                    TxError::FeeUnpaid
                } else {
                    TxError::InsufficientFunds
                };
                let outcome = TxOutcome::Rejected {
                    error,
                    code: "simulation".to_owned(),
                    log: shortened(&log),
                };
                self.reply(id, &Ok(outcome), out);
            }
            Ok(Simulation::Refused { log }) => {
                // With sequences, another transaction of the account may have been included first.
                if self.sequencer.is_ordered() && flight.replaced == 0 {
                    flight.replaced += 1;
                    flight.phase = FlightPhase::Estimating {
                        at: now.plus(backoff(1)),
                        is_pending: false,
                    };
                    return self.sequencer.invalidate();
                }
                let first = flight.msgs().first().cloned();
                flight.phase = FlightPhase::Explaining { log };
                out.extend(first.map(|msg| PlannerAction::FetchObject(id, msg)));
            }
            Err(_) => {
                flight.failures += 1;
                flight.phase = if flight.failures >= SIMULATIONS_MAX {
                    FlightPhase::Ready { at: now }
                } else {
                    FlightPhase::Estimating {
                        at: now.plus(backoff(flight.failures)),
                        is_pending: false,
                    }
                };
            }
        }
    }

    pub(super) fn sent(
        &mut self,
        id: FlightId,
        response: Result<Submission, Failure>,
        out: &mut Vec<PlannerAction>,
    ) {
        let now = self.now;
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        let waiting = FlightPhase::Waiting {
            searched_at: None,
            is_pending: false,
        };
        match response {
            Ok(Submission::Accepted | Submission::Known) => self.accepted(id),
            Ok(Submission::Refused { code, .. }) if code.is_sdk(IN_MEMPOOL) => self.accepted(id),
            // The transaction was sent before, so the response to the same bytes is inconclusive.
            Ok(Submission::Refused { code, .. }) if flight.perhaps_sent => {
                let full = code.is_sdk(MEMPOOL_FULL);
                // The transaction is searched again after some more blocks.
                flight.accepted_at = self.chain.height();
                flight.failures += u32::from(full);
                flight.phase = if full {
                    FlightPhase::Ready {
                        at: now.plus(backoff(flight.failures)),
                    }
                } else {
                    waiting
                };
                if code.is_sdk(WRONG_SEQUENCE) {
                    self.sequencer.invalidate();
                }
            }
            Ok(Submission::Refused { code, log }) => self.refused(id, &code, &log, out),
            // A node that has received these bytes before reports so.
            Err(_) => {
                flight.perhaps_sent = true;
                flight.failures += 1;
                flight.phase = FlightPhase::Ready {
                    at: now.plus(backoff(flight.failures)),
                };
                // After the expiry a node can only refuse the transaction, so the planner searches for it.
                let expired = |t: Tip| {
                    flight
                        .draft
                        .as_ref()
                        .is_some_and(|d| d.expiry.has_passed(t.height, t.time))
                };
                if self.chain.tip().is_some_and(expired) {
                    flight.phase = FlightPhase::Waiting {
                        searched_at: None,
                        is_pending: false,
                    };
                }
            }
        }
    }

    fn accepted(&mut self, id: FlightId) {
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        // Blocks before the first attempt cannot contain the transaction.
        let height = self.chain.height();
        let searched_at = if flight.perhaps_sent { None } else { height };
        flight.perhaps_sent = true;
        flight.accepted_at = height;
        self.proven = true;
        flight.failures = 0;
        flight.phase = FlightPhase::Waiting {
            searched_at,
            is_pending: false,
        };
        if let Some(sequence) = flight.waiting_sequence() {
            self.sequencer.mark_used(sequence);
        }
    }

    /// Handles the refusal of a transaction, if no node has accepted the transaction.
    fn refused(&mut self, id: FlightId, code: &Code, log: &str, out: &mut Vec<PlannerAction>) {
        let now = self.now;
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        // The ordering of this draft counts. The planner may have switched to sequences since.
        let ordering = flight.draft.as_ref().map(|d| d.ordering);
        let ordered = matches!(ordering, Some(Ordering::Ordered { .. }));
        let reaction = reaction(code, ordered);
        let is_exhausted = flight.replaced >= REPLACED_MAX || flight.out_of_gas >= OUT_OF_GAS_MAX;
        match reaction {
            // Not counted: a full mempool is independent of this transaction.
            Reaction::Again => {}
            Reaction::None => return self.rejected(id, code, log, out),
            Reaction::Reestimate if is_exhausted => return self.rejected(id, code, log, out),
            _ if is_exhausted => {
                let why = format!(
                    "transaction not sent, refused by all nodes: {code} {}",
                    shortened(log)
                );
                return self.reply(id, &Err(failure(ErrorKind::Unavailable, why)), out);
            }
            _ => {}
        }
        flight.draft = None;
        flight.phase = FlightPhase::Ready { at: now };
        match reaction {
            Reaction::Again => {
                flight.failures += 1;
                flight.phase = FlightPhase::Ready {
                    at: now.plus(backoff(flight.failures)),
                };
            }
            Reaction::Renew => {
                flight.replaced += 1;
                flight.phase = FlightPhase::Ready {
                    at: now.plus(backoff(flight.replaced)),
                };
                // The timeout is based on the newest known block, which may be outdated.
                self.chain.request_tip(now);
            }
            Reaction::Relearn => {
                flight.replaced += 1;
                flight.phase = FlightPhase::Ready {
                    at: now.plus(backoff(flight.replaced)),
                };
                self.chain.clear_account();
                self.sequencer.invalidate();
            }
            Reaction::Reprice => {
                flight.replaced += 1;
                self.chain.clear_prices();
            }
            Reaction::Reestimate => self.handle_out_of_gas(id),
            Reaction::Order => {
                flight.replaced += 1;
                self.sequencer.use_sequences();
            }
            Reaction::None => {}
        }
    }

    /// Simulates the transaction again and increases its gas limit by at least 50 %.
    fn handle_out_of_gas(&mut self, id: FlightId) {
        let at = self.now;
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        let msgs = flight.msgs();
        flight.out_of_gas += 1;
        flight.gas = flight.gas.map(|g| g.saturating_add(g / 2));
        flight.draft = None;
        flight.perhaps_sent = false;
        flight.accepted_at = None;
        flight.phase = FlightPhase::Estimating {
            at,
            is_pending: false,
        };
        // The stored estimate is too low for this shape.
        self.estimates.remove(&msgs);
    }

    pub(super) fn found(
        &mut self,
        id: FlightId,
        response: Result<Option<IncludedTx>, Failure>,
        out: &mut Vec<PlannerAction>,
    ) {
        let now = self.now;
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        let absent = match response {
            Ok(Some(included)) => return self.included(id, &included, out),
            Ok(None) => true,
            Err(_) => false,
        };
        match &mut flight.phase {
            FlightPhase::Waiting { is_pending, .. } => *is_pending = false,
            FlightPhase::Checking { at, step } => {
                *at = now;
                *step = Check::FetchingObject { absent };
                out.extend(
                    flight
                        .msgs()
                        .first()
                        .cloned()
                        .map(|msg| PlannerAction::FetchObject(id, msg)),
                );
            }
            // Late response: the phase has changed.
            FlightPhase::Estimating { .. }
            | FlightPhase::Explaining { .. }
            | FlightPhase::Ready { .. }
            | FlightPhase::Sending => {}
        }
    }

    /// Returns the price that was paid for a transaction in a block.
    ///
    /// Returns `None` for an unknown draft, and for a transaction with a refused nonce. A refused nonce costs
    /// no fee.
    pub(in crate::tx) fn price_of(&self, id: FlightId, included: &IncludedTx) -> Option<&TxFee> {
        let draft = self.flights.get(&id)?.draft.as_ref()?;
        let is_refused_nonce = included.failure.as_ref().is_some_and(is_refused_nonce);
        (!is_refused_nonce).then_some(&draft.price)
    }

    fn included(&mut self, id: FlightId, included: &IncludedTx, out: &mut Vec<PlannerAction>) {
        let Some(code) = &included.failure else {
            let outcome = TxOutcome::Committed {
                height: included.height,
            };
            return self.reply(id, &Ok(outcome), out);
        };
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        if code.is_sdk(OUT_OF_GAS) && flight.out_of_gas < OUT_OF_GAS_MAX {
            flight.gas = flight.gas.map(|g| g.max(included.gas_used));
            return self.handle_out_of_gas(id);
        }
        if is_refused_nonce(code) {
            return self.expire(id, out);
        }
        self.rejected(id, code, &included.log, out);
    }

    pub(super) fn object_fetched(
        &mut self,
        id: FlightId,
        response: Result<ObjectState, Failure>,
        out: &mut Vec<PlannerAction>,
    ) {
        let now = self.now;
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        match flight.phase.clone() {
            FlightPhase::Explaining { log } => {
                let error = match (response, flight.msgs().first()) {
                    (Ok(ObjectState::Impossible(error)), _) => error,
                    (Ok(ObjectState::Done { .. }), Some(Msg::CreateBid { .. })) => TxError::BidExists,
                    (Ok(ObjectState::Done { .. }), Some(Msg::CloseBid { .. })) => TxError::UnknownBid,
                    (Ok(ObjectState::Done { .. }), Some(Msg::StartReclaim { .. })) => {
                        TxError::AlreadyReclaiming
                    }
                    _ => TxError::Other,
                };
                if error == TxError::Other && !self.proven && !self.sequencer.is_ordered() {
                    // The chain possibly lacks unordered transactions. A simulation returns no code for this
                    // error, but sending does.
                    flight.gas = None;
                    flight.phase = FlightPhase::Ready { at: now };
                    return;
                }
                let is_bid = matches!(&flight.msgs()[..], [Msg::CreateBid { .. }]);
                if error == TxError::Other && is_bid && flight.unexplained < UNEXPLAINED_MAX {
                    // A node behind the others may still lack the order.
                    flight.unexplained += 1;
                    let at = now.plus(backoff(flight.unexplained));
                    flight.phase = FlightPhase::Estimating {
                        at,
                        is_pending: false,
                    };
                    return;
                }
                let code = "simulation".to_owned();
                let outcome = TxOutcome::Rejected {
                    error,
                    code,
                    log: shortened(&log),
                };
                self.reply(id, &Ok(outcome), out);
            }
            FlightPhase::Checking {
                step: Check::FetchingObject { absent },
                ..
            } => match response {
                Ok(ObjectState::Done { height }) => {
                    let height = height.or_else(|| self.chain.height()).unwrap_or_default();
                    self.reply(id, &Ok(TxOutcome::Committed { height }), out);
                }
                Ok(ObjectState::NotDone | ObjectState::Impossible(_)) => self.expire(id, out),
                // The record is inconclusive, but the node does not have the transaction.
                Ok(ObjectState::Unclear) if absent => self.expire(id, out),
                Ok(ObjectState::Unclear) | Err(_) => {
                    flight.failures += 1;
                    let at = now.plus(backoff(flight.failures));
                    flight.phase = FlightPhase::Checking {
                        at,
                        step: Check::Start,
                    };
                }
            },
            _ => {}
        }
    }

    /// Handles an expired transaction. A recent transaction with an account sequence gets a new draft,
    /// because another transaction may have used the same sequence.
    fn expire(&mut self, id: FlightId, out: &mut Vec<PlannerAction>) {
        let now = self.now;
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        let young = now.since(flight.since()) < self.config.unsent_max;
        if self.sequencer.is_ordered() && young && flight.replaced < REPLACED_MAX {
            flight.replaced += 1;
            flight.draft = None;
            flight.perhaps_sent = false;
            flight.accepted_at = None;
            flight.phase = FlightPhase::Ready { at: now };
            return self.sequencer.invalidate();
        }
        let why = "transaction expired before it was included in a block".to_owned();
        self.reply(id, &Err(failure(ErrorKind::Unavailable, why)), out);
    }

    /// Handles a transaction that the chain refused. A shared transaction is split, because one call may be
    /// the reason.
    fn rejected(&mut self, id: FlightId, code: &Code, log: &str, out: &mut Vec<PlannerAction>) {
        let Some(flight) = self.flights.get(&id) else {
            return;
        };
        if flight.members.len() > 1 {
            return self.split(id, log);
        }
        let outcome = rejected(code, log, flight.msgs().first());
        if is_panic(code) {
            tracing::warn!(%code, log = %shortened(log), "chain rejected a transaction, because the execution of the message panicked on the chain");
        }
        self.reply(id, &Ok(outcome), out);
    }

    /// Splits a shared transaction. Each call is queued again and sent alone.
    fn split(&mut self, id: FlightId, log: &str) {
        let Some(flight) = self.flights.remove(&id) else {
            return;
        };
        tracing::info!(members = flight.members.len(), log = %shortened(log), "chain rejected a transaction with several messages, sending each message in a separate transaction");
        for mut member in flight.members {
            member.alone = true;
            self.enqueue(member);
        }
    }
}

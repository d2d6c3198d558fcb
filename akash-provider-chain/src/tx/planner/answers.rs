//! What answers mean.

use super::super::api::{Code, Included, Simulation, Submission};
use super::super::code::{is_panic, rejected, shortened};
use super::super::standing::Standing;
use super::flight::{Check, Flight, Phase};
use super::known::Tip;
use super::{Action, FlightId, Planner, backoff, failure};
use crate::signer::Ordering;
use akash_provider_core::chain::{Account, SyncInfo};
use akash_provider_core::error::{ErrorKind, Failure};
use akash_provider_core::types::{Msg, TxError, TxOutcome};

/// Drafts of one flight that are replaced after a refusal that a new draft may mend.
const REPLACED_MAX: u32 = 5;
/// Times a flight may run out of gas: each costs a fee.
const STARVED_MAX: u32 = 2;
/// Simulations of a bid that are refused for no reason that can be seen, before the refusal is believed.
const DOUBTED_MAX: u32 = 3;
/// Simulations that fail to be answered before a generous limit is used instead.
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

/// What a refusal calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cure {
    /// The same bytes again, later.
    Again,
    /// A new draft: with a fresh nonce.
    Renew,
    /// A new draft, once the account has been asked for.
    Relearn,
    /// A new draft, once the price has been asked for.
    Reprice,
    /// A new draft, once it has been simulated again.
    Reestimate,
    /// A new draft with a sequence: the chain knows no unordered transactions.
    Order,
    /// Nothing helps: the refusal is the outcome.
    None,
}

fn cure(code: &Code, ordered: bool) -> Cure {
    if code.space != "sdk" {
        return Cure::None;
    }
    match code.number {
        MEMPOOL_FULL => Cure::Again,
        TIMEOUT | TIMEOUT_HEIGHT => Cure::Renew,
        // An unordered nonce that was used already, or a timeout that is too far off for this node's time.
        INVALID_REQUEST if !ordered => Cure::Renew,
        NOT_SUPPORTED | TX_DECODE if !ordered => Cure::Order,
        WRONG_SEQUENCE | UNAUTHORIZED => Cure::Relearn,
        INSUFFICIENT_FEE => Cure::Reprice,
        OUT_OF_GAS => Cure::Reestimate,
        _ => Cure::None,
    }
}

impl Planner {
    /// A block as the follower tells it. An old one says nothing about the time.
    pub(super) fn seen(&mut self, block: SyncInfo, is_newest: bool, is_complete: bool) {
        let height = block.height;
        if is_complete {
            for flight in self.flights.values_mut() {
                // Blocks without a hole: what was in none before and is not in this one is in none.
                if flight.absent_until.is_some_and(|at| at + 1 >= height) {
                    flight.absent_until = flight.absent_until.max(Some(height));
                }
            }
        }
        if is_newest {
            self.known.told(self.now, &self.config, block);
        }
    }

    pub(super) fn account(&mut self, answer: Result<Option<Account>, Failure>) {
        if let Some(sequence) = self.known.account_answered(self.now, answer) {
            let waiting = self.flights.values().filter_map(Flight::waiting_sequence);
            // Those below the chain's sequence have landed or never will.
            let waiting = waiting.filter(|s| *s >= sequence).max();
            self.sequencer.learn(sequence, waiting);
        }
    }

    pub(super) fn simulated(
        &mut self,
        id: FlightId,
        answer: Result<Simulation, Failure>,
        out: &mut Vec<Action>,
    ) {
        let (now, height) = (self.now, self.known.height().unwrap_or(0));
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        match answer {
            Ok(Simulation::Gas { used }) => {
                self.proven = true;
                let msgs = flight.msgs();
                if let Err(why) = self.config.gas.ceilings.judge_gas(&msgs, used) {
                    // Not believed, and not remembered for others of its shape.
                    let at = self.hold(id, why.to_string());
                    if let Some(flight) = self.flights.get_mut(&id) {
                        flight.phase = Phase::Estimating { at, asked: false };
                    }
                    return;
                }
                // What starved before gets more than it seems to need.
                let used = used.max(flight.gas.unwrap_or(0));
                flight.gas = Some(used);
                flight.failures = 0;
                flight.phase = Phase::Ready { at: now };
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
                // With sequences the reason may be ours: another transaction of the account came first.
                if self.sequencer.is_ordered() && flight.replaced == 0 {
                    flight.replaced += 1;
                    flight.phase = Phase::Estimating {
                        at: now.plus(backoff(1)),
                        asked: false,
                    };
                    return self.sequencer.mismatch();
                }
                let first = flight.msgs().first().cloned();
                flight.phase = Phase::Judging { log };
                out.extend(first.map(|msg| Action::Look(id, msg)));
            }
            Err(_) => {
                flight.failures += 1;
                flight.phase = if flight.failures >= SIMULATIONS_MAX {
                    Phase::Ready { at: now }
                } else {
                    Phase::Estimating {
                        at: now.plus(backoff(flight.failures)),
                        asked: false,
                    }
                };
            }
        }
    }

    pub(super) fn sent(&mut self, id: FlightId, answer: Result<Submission, Failure>, out: &mut Vec<Action>) {
        let now = self.now;
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        let waiting = Phase::Waiting {
            searched_at: None,
            asked: false,
        };
        match answer {
            Ok(Submission::Accepted | Submission::Known) => self.accepted(id),
            Ok(Submission::Refused { code, .. }) if code.is_sdk(IN_MEMPOOL) => self.accepted(id),
            // It was sent before; what a node says to the same bytes later says nothing about the first time.
            Ok(Submission::Refused { code, .. }) if flight.perhaps_sent => {
                let full = code.is_sdk(MEMPOOL_FULL);
                // Asked again after some more blocks, not at once.
                flight.accepted_at = self.known.height();
                flight.failures += u32::from(full);
                flight.phase = if full {
                    Phase::Ready {
                        at: now.plus(backoff(flight.failures)),
                    }
                } else {
                    waiting
                };
                if code.is_sdk(WRONG_SEQUENCE) {
                    self.sequencer.mismatch();
                }
            }
            Ok(Submission::Refused { code, log }) => self.refused(id, &code, &log, out),
            // The same bytes again: a node that has them says so.
            Err(_) => {
                flight.perhaps_sent = true;
                flight.failures += 1;
                flight.phase = Phase::Ready {
                    at: now.plus(backoff(flight.failures)),
                };
                // Past its expiry a send can only be refused, so it is searched for instead.
                let expired = |t: Tip| {
                    flight
                        .draft
                        .as_ref()
                        .is_some_and(|d| d.expiry.passed(t.height, t.time))
                };
                if self.known.tip().is_some_and(expired) {
                    flight.phase = Phase::Waiting {
                        searched_at: None,
                        asked: false,
                    };
                }
            }
        }
    }

    fn accepted(&mut self, id: FlightId) {
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        // It cannot be in a block that was there before it was first sent.
        let known = self.known.height();
        let searched_at = if flight.perhaps_sent { None } else { known };
        flight.perhaps_sent = true;
        flight.accepted_at = known;
        self.proven = true;
        flight.failures = 0;
        flight.phase = Phase::Waiting {
            searched_at,
            asked: false,
        };
        if let Some(sequence) = flight.waiting_sequence() {
            self.sequencer.used(sequence);
        }
    }

    /// A node did not take the first send of a draft, so no node has it.
    fn refused(&mut self, id: FlightId, code: &Code, log: &str, out: &mut Vec<Action>) {
        let now = self.now;
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        // As this draft was made: others may have made the writer count sequences since.
        let ordering = flight.draft.as_ref().map(|d| d.ordering);
        let ordered = matches!(ordering, Some(Ordering::Ordered { .. }));
        let cure = cure(code, ordered);
        let hopeless = flight.replaced >= REPLACED_MAX || flight.starved >= STARVED_MAX;
        match cure {
            // Not counted: a full mempool says nothing about this transaction.
            Cure::Again => {}
            Cure::None => return self.rejected(id, code, log, out),
            Cure::Reestimate if hopeless => return self.rejected(id, code, log, out),
            _ if hopeless => {
                let why = format!("not sent, no node takes it: {code} {}", shortened(log));
                return self.reply(id, &Err(failure(ErrorKind::Unavailable, why)), out);
            }
            _ => {}
        }
        flight.draft = None;
        flight.phase = Phase::Ready { at: now };
        match cure {
            Cure::Again => {
                flight.failures += 1;
                flight.phase = Phase::Ready {
                    at: now.plus(backoff(flight.failures)),
                };
            }
            Cure::Renew => {
                flight.replaced += 1;
                flight.phase = Phase::Ready {
                    at: now.plus(backoff(flight.replaced)),
                };
                // The timeout was made from the newest block that is known: perhaps that one is old.
                self.known.hurry_tip(now);
            }
            Cure::Relearn => {
                flight.replaced += 1;
                flight.phase = Phase::Ready {
                    at: now.plus(backoff(flight.replaced)),
                };
                self.known.forget_account();
                self.sequencer.mismatch();
            }
            Cure::Reprice => {
                flight.replaced += 1;
                self.known.forget_prices();
            }
            Cure::Reestimate => self.starve(id),
            Cure::Order => {
                flight.replaced += 1;
                self.sequencer.fall_back();
            }
            Cure::None => {}
        }
    }

    /// It ran out of gas: estimated anew, with half as much again at least.
    fn starve(&mut self, id: FlightId) {
        let at = self.now;
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        let msgs = flight.msgs();
        flight.starved += 1;
        flight.gas = flight.gas.map(|g| g.saturating_add(g / 2));
        flight.draft = None;
        flight.perhaps_sent = false;
        flight.accepted_at = None;
        flight.phase = Phase::Estimating { at, asked: false };
        // Others of its shape would run out of gas as well.
        self.estimates.forget(&msgs);
    }

    pub(super) fn found(
        &mut self,
        id: FlightId,
        answer: Result<Option<Included>, Failure>,
        out: &mut Vec<Action>,
    ) {
        let now = self.now;
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        let absent = match answer {
            Ok(Some(included)) => return self.included(id, &included, out),
            Ok(None) => true,
            Err(_) => false,
        };
        match &mut flight.phase {
            Phase::Waiting { asked, .. } => *asked = false,
            Phase::Checking { at, step } => {
                *at = now;
                *step = Check::Looking { absent };
                out.extend(flight.msgs().first().cloned().map(|msg| Action::Look(id, msg)));
            }
            // A late answer: the flight has moved on.
            Phase::Estimating { .. } | Phase::Judging { .. } | Phase::Ready { .. } | Phase::Sending => {}
        }
    }

    fn included(&mut self, id: FlightId, included: &Included, out: &mut Vec<Action>) {
        let Some(code) = &included.failure else {
            let outcome = TxOutcome::Committed {
                height: included.height,
            };
            return self.reply(id, &Ok(outcome), out);
        };
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        if code.is_sdk(OUT_OF_GAS) && flight.starved < STARVED_MAX {
            flight.gas = flight.gas.map(|g| g.max(included.gas_used));
            return self.starve(id);
        }
        // Refused before a message was run: the refusal is about the nonce.
        let ante = code.is_sdk(TIMEOUT) || code.is_sdk(TIMEOUT_HEIGHT) || code.is_sdk(WRONG_SEQUENCE);
        if ante {
            return self.never(id, out);
        }
        self.rejected(id, code, &included.log, out);
    }

    pub(super) fn looked(&mut self, id: FlightId, answer: Result<Standing, Failure>, out: &mut Vec<Action>) {
        let now = self.now;
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        match flight.phase.clone() {
            Phase::Judging { log } => {
                let error = match (answer, flight.msgs().first()) {
                    (Ok(Standing::Impossible(error)), _) => error,
                    (Ok(Standing::Done { .. }), Some(Msg::CreateBid { .. })) => TxError::BidExists,
                    (Ok(Standing::Done { .. }), Some(Msg::CloseBid { .. })) => TxError::UnknownBid,
                    (Ok(Standing::Done { .. }), Some(Msg::StartReclaim { .. })) => TxError::AlreadyReclaiming,
                    _ => TxError::Other,
                };
                if error == TxError::Other && !self.proven && !self.sequencer.is_ordered() {
                    // Perhaps the chain knows no unordered transactions. A simulation has no code that says so,
                    // a send has.
                    flight.gas = None;
                    flight.phase = Phase::Ready { at: now };
                    return;
                }
                let is_bid = matches!(&flight.msgs()[..], [Msg::CreateBid { .. }]);
                if error == TxError::Other && is_bid && flight.doubted < DOUBTED_MAX {
                    // Perhaps a node behind the others, which does not know the order yet.
                    flight.doubted += 1;
                    let at = now.plus(backoff(flight.doubted));
                    flight.phase = Phase::Estimating { at, asked: false };
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
            Phase::Checking {
                step: Check::Looking { absent },
                ..
            } => match answer {
                Ok(Standing::Done { height }) => {
                    let height = height.or_else(|| self.known.height()).unwrap_or_default();
                    self.reply(id, &Ok(TxOutcome::Committed { height }), out);
                }
                Ok(Standing::NotDone | Standing::Impossible(_)) => self.never(id, out),
                // The record does not tell, but the node knows no such transaction.
                Ok(Standing::Unclear) if absent => self.never(id, out),
                Ok(Standing::Unclear) | Err(_) => {
                    flight.failures += 1;
                    let at = now.plus(backoff(flight.failures));
                    flight.phase = Phase::Checking {
                        at,
                        step: Check::Start,
                    };
                }
            },
            _ => {}
        }
    }

    /// It can no longer land. With sequences another transaction of the account may have taken its place, so it is
    /// made anew while its caller still waits.
    fn never(&mut self, id: FlightId, out: &mut Vec<Action>) {
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
            flight.phase = Phase::Ready { at: now };
            return self.sequencer.mismatch();
        }
        let why = "it expired before a block took it and will never land".to_owned();
        self.reply(id, &Err(failure(ErrorKind::Unavailable, why)), out);
    }

    /// The chain refuses. What failed in a batch is tried alone: one of several may be to blame.
    fn rejected(&mut self, id: FlightId, code: &Code, log: &str, out: &mut Vec<Action>) {
        let Some(flight) = self.flights.get(&id) else {
            return;
        };
        if flight.members.len() > 1 {
            return self.split(id, log);
        }
        let outcome = rejected(code, log, flight.msgs().first());
        if is_panic(code) {
            tracing::warn!(%code, log = %shortened(log), "the chain's handler panicked");
        }
        self.reply(id, &Ok(outcome), out);
    }

    /// Members of a shared transaction go back into the queue, each to go alone.
    fn split(&mut self, id: FlightId, log: &str) {
        let Some(flight) = self.flights.remove(&id) else {
            return;
        };
        tracing::info!(members = flight.members.len(), log = %shortened(log), "shared transaction refused: sent singly");
        for mut member in flight.members {
            member.alone = true;
            self.enqueue(member);
        }
    }
}

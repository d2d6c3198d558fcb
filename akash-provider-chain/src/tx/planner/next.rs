//! Next steps, ordered by priority: moving calls from the queue to transactions in flight, and sending and
//! checking these transactions.

use super::chain_state::Tip;
use super::flight::{Check, Flight, FlightPhase};
use super::{Draft, FlightId, Planner, PlannerAction, QueuedMsgs, backoff, failure, withdrawn};
use crate::gas::{Shape, generous_limit};
use akash_provider_core::error::ErrorKind;
use akash_provider_core::types::{DeploymentId, Msg};
use std::collections::BTreeSet;
use std::time::Duration;

impl Planner {
    /// Performs all due work of the planner, and adds the actions to `out`.
    pub(super) fn pump(&mut self, out: &mut Vec<PlannerAction>) {
        if self.stopped {
            return;
        }
        // Runs first: an expired call must not be sent in this step.
        self.give_up(out);
        if self.is_idle() {
            return;
        }
        self.chain
            .query_missing(self.now, self.sequencer.needs_sequence(), out);
        if let Some(tip) = self.chain.tip() {
            if let Some(height) = self.chain.take_lower() {
                let flights = self.flights.values_mut();
                flights.for_each(|flight| flight.lower_heights(height));
            }
            self.unresolved
                .retain(|(expiry, _)| !expiry.has_passed(tip.height, tip.time));
            // In this order, a call can proceed from the queue to sending in one step.
            self.dispatch();
            self.estimate(tip, out);
            self.send(tip, out);
            self.follow(tip, out);
        }
    }

    /// Returns the time of the next [`PlannerInput::Tick`](super::PlannerInput::Tick), or `None` while idle.
    pub(crate) fn next_deadline(&self) -> Option<akash_provider_core::types::Mono> {
        // One interval for all polling: separate deadlines would save milliseconds only.
        (!self.is_idle() && !self.stopped).then(|| self.now.plus(self.config.poll))
    }

    /// Replies to calls that have reached their time limit.
    fn give_up(&mut self, out: &mut Vec<PlannerAction>) {
        let (now, config) = (self.now, &self.config);
        let why = self.chain.problem().unwrap_or("too many transactions in flight");
        let why = format!("transaction not sent in time: {why}");
        let late = |r: &QueuedMsgs| now.since(r.since) >= config.unsent_max;
        let not_sent = || Err(failure(ErrorKind::Unavailable, why.clone()));
        self.queue.retain(|_, request| {
            let late = late(request);
            if late {
                out.push(PlannerAction::Reply(request.ticket, not_sent()));
            }
            !late
        });
        let unresolved = &mut self.unresolved;
        self.flights.retain(|_, flight| {
            let age = now.since(flight.since());
            let outcome = match flight.unknown() {
                Some(unknown) if age >= config.outcome_max => Ok(unknown),
                None if age >= config.unsent_max => match &flight.delay_reason {
                    Some(why) => {
                        let why = format!("transaction not sent in time: {why}");
                        Err(failure(ErrorKind::Unavailable, why))
                    }
                    None => not_sent(),
                },
                _ => return true,
            };
            // The caller gets a reply, but the transaction may still be included. Until its expiry, a second
            // withdrawal could be in the same block.
            if let (Ok(_), Some(draft)) = (&outcome, &flight.draft) {
                unresolved.extend(flight.deployments().map(|d| (draft.expiry, d.clone())));
            }
            out.extend(
                flight
                    .members
                    .iter()
                    .map(|m| PlannerAction::Reply(m.ticket, outcome.clone())),
            );
            false
        });
    }

    /// Returns the deployments for which a further withdrawal must wait.
    fn busy(&self) -> BTreeSet<DeploymentId> {
        let flying = self.flights.values().flat_map(|f| f.deployments());
        let unresolved = self.unresolved.iter().map(|(_, d)| d);
        flying.chain(unresolved).cloned().collect()
    }

    /// Creates transactions for queued calls, in order of priority.
    fn dispatch(&mut self) {
        let mut busy = self.busy();
        let keys: Vec<_> = self.queue.keys().copied().collect();
        for key in keys {
            if self.flights.len() >= self.config.flights_max {
                return;
            }
            let free = |r: &QueuedMsgs| withdrawn(&r.msgs).all(|d| !busy.contains(d));
            // A withdrawal is not urgent, and waits for others to share its transaction.
            let fresh = |r: &QueuedMsgs| self.now.since(r.since) < self.config.shared_wait && shareable(r);
            if !self.queue.get(&key).is_some_and(|r| free(r) && !fresh(r)) {
                continue;
            }
            let Some(request) = self.queue.remove(&key) else {
                continue;
            };
            busy.extend(withdrawn(&request.msgs).cloned());
            let members = if shareable(&request) {
                self.batch_mates(request, &mut busy)
            } else {
                vec![request]
            };
            let height = self.chain.height().unwrap_or(0);
            let mut flight = Flight::new(members, key.0, FlightPhase::Ready { at: self.now }, None);
            flight.gas = self.estimates.get(&flight.msgs(), height);
            if flight.gas.is_none() {
                flight.phase = FlightPhase::Estimating {
                    at: self.now,
                    is_pending: false,
                };
            }
            self.last_flight += 1;
            self.flights.insert(self.last_flight, flight);
        }
    }

    /// Removes from the queue the withdrawals that can share a transaction with `first`. Returns `first` and
    /// these withdrawals.
    fn batch_mates(&mut self, first: QueuedMsgs, busy: &mut BTreeSet<DeploymentId>) -> Vec<QueuedMsgs> {
        let mut members = vec![first];
        let others: Vec<_> = self
            .queue
            .iter()
            .filter(|(_, r)| shareable(r))
            .map(|(k, _)| *k)
            .collect();
        for key in others {
            if members.len() >= self.config.shared_max {
                break;
            }
            let free = |r: &QueuedMsgs| withdrawn(&r.msgs).all(|d| !busy.contains(d));
            if self.queue.get(&key).is_some_and(free)
                && let Some(request) = self.queue.remove(&key)
            {
                busy.extend(withdrawn(&request.msgs).cloned());
                members.push(request);
            }
        }
        members
    }

    /// Returns the transactions in flight in a `wanted` phase, sorted by priority and age.
    fn in_order(&self, wanted: impl Fn(&FlightPhase) -> bool) -> Vec<FlightId> {
        let mut ids: Vec<_> = self.flights.iter().filter(|(_, f)| wanted(&f.phase)).collect();
        ids.sort_by_key(|(id, f)| (f.priority, **id));
        ids.into_iter().map(|(id, _)| *id).collect()
    }

    fn estimate(&mut self, tip: Tip, out: &mut Vec<PlannerAction>) {
        let now = self.now;
        let running = self.in_order(|p| matches!(p, FlightPhase::Estimating { is_pending: true, .. }));
        let mut room = self.config.simulations_max.saturating_sub(running.len());
        let shape = |f: &Flight| Shape::for_messages(&f.msgs());
        let shapes = running.iter().filter_map(|id| self.flights.get(id));
        let mut shapes: BTreeSet<Shape> = shapes.filter_map(shape).collect();
        for id in
            self.in_order(|p| matches!(p, FlightPhase::Estimating { at, is_pending: false } if *at <= now))
        {
            let Some(flight) = self.flights.get_mut(&id) else {
                continue;
            };
            let estimate = self.estimates.get(&flight.msgs(), tip.height);
            // After an out-of-gas failure, the stored estimate is too low for this transaction.
            if flight.out_of_gas == 0
                && let Some(gas) = estimate
            {
                flight.gas = Some(gas);
                flight.phase = FlightPhase::Ready { at: now };
                continue;
            }
            // One simulation per shape is sufficient. The others wait for its result.
            if room == 0 || shape(flight).is_some_and(|s| !shapes.insert(s)) {
                continue;
            }
            let gas = generous_limit(&flight.msgs());
            let Some(draft) = self.draft(id, gas, tip, out) else {
                continue;
            };
            room -= 1;
            if let Some(flight) = self.flights.get_mut(&id) {
                flight.phase = FlightPhase::Estimating {
                    at: now,
                    is_pending: true,
                };
                out.push(PlannerAction::Simulate(id, draft));
            }
        }
    }

    fn send(&mut self, tip: Tip, out: &mut Vec<PlannerAction>) {
        let now = self.now;
        for id in self.in_order(|p| matches!(p, FlightPhase::Ready { at } if *at <= now)) {
            // With sequences, transactions are sent one by one: a refusal would invalidate the later ones.
            let sending = |p: &FlightPhase| matches!(p, FlightPhase::Sending);
            if self.sequencer.is_ordered() && !self.in_order(sending).is_empty() {
                return;
            }
            let Some(flight) = self.flights.get(&id) else {
                continue;
            };
            // The same bytes are sent again: a second draft could result in a second execution.
            let again = flight.draft.clone().filter(|_| flight.perhaps_sent);
            let is_new = again.is_none();
            let limit = self.config.gas.gas_limit(&flight.msgs(), flight.gas);
            let Some(draft) = again.or_else(|| self.draft(id, limit, tip, out)) else {
                continue;
            };
            // A repeated transaction was counted at the first attempt.
            if is_new && !self.count_cost(id, &draft) {
                continue;
            }
            if let Some(flight) = self.flights.get_mut(&id) {
                flight.phase = FlightPhase::Sending;
                flight.delay_reason = None;
                if !flight.perhaps_sent {
                    // Earlier blocks cannot contain the transaction.
                    flight.absent_until = Some(tip.height);
                }
                flight.draft = Some(draft.clone());
                out.push(PlannerAction::Send(id, draft));
            }
        }
    }

    /// Returns true if the draft is below all ceilings, and adds the cost of the draft to the hourly total.
    /// Otherwise, delays the transaction and returns false.
    fn count_cost(&mut self, id: FlightId, draft: &Draft) -> bool {
        let ceilings = &self.config.gas.ceilings;
        let price = &draft.price;
        let by_itself = ceilings
            .check_gas(&draft.msgs, price.gas_limit)
            .and_then(|()| ceilings.check_fee(&draft.msgs, price.fee.amount));
        let judged = by_itself
            .clone()
            .and_then(|()| self.expenses.check(self.now, ceilings, &draft.msgs, price));
        let Err(why) = judged else {
            self.expenses.add(self.now, price);
            return true;
        };
        if by_itself.is_err() {
            // The gas is below its ceiling, so the price is the reason. Another node may require less.
            self.chain.clear_prices();
        }
        let at = self.delay(id, why.to_string());
        if let Some(flight) = self.flights.get_mut(&id) {
            flight.phase = FlightPhase::Ready { at };
        }
        false
    }

    /// Delays a transaction with gas or a fee above a ceiling, and returns the time of the next attempt. Only
    /// the first of several delayed transactions causes a warning.
    pub(super) fn delay(&mut self, id: FlightId, why: String) -> akash_provider_core::types::Mono {
        let is_first = self.flights.values().all(|f| f.delay_reason.is_none());
        let Some(flight) = self.flights.get_mut(&id) else {
            return self.now;
        };
        let messages = flight.members.len();
        if is_first {
            tracing::warn!(
                messages,
                why,
                "transaction costs more than --gas-ceiling or --fee-ceiling permits, retrying: raise the setting, or check whether the nodes of --node report wrong costs"
            );
        } else {
            tracing::debug!(messages, why, "transaction exceeds its cost ceiling, waiting");
        }
        flight.delay_reason = Some(why);
        flight.failures = flight.failures.saturating_add(1);
        self.now.plus(backoff(flight.failures))
    }

    /// Creates a draft of a transaction. Returns `None` if the account, the gas prices or the nonce are
    /// unknown, or if no gas price of the node is acceptable.
    fn draft(
        &mut self,
        id: FlightId,
        gas_limit: u64,
        tip: Tip,
        out: &mut Vec<PlannerAction>,
    ) -> Option<Draft> {
        let account_number = self.chain.account()?;
        let price = self.config.gas.price_at(self.chain.prices()?);
        let price = match price {
            Ok(price) => self.config.gas.price(gas_limit, price),
            Err(why) => {
                self.chain.refuse_prices(self.now, why.to_string());
                let error = failure(ErrorKind::Denied, format!("not sent: {why}"));
                self.reply(id, &Err(error), out);
                return None;
            }
        };
        let msgs = self.flights.get(&id)?.msgs();
        // Last step, because each call of `next_nonce` uses a nonce.
        let (ordering, expiry) = self.sequencer.next_nonce(tip.height, tip.time)?;
        Some(Draft {
            msgs,
            ordering,
            expiry,
            price,
            account_number,
        })
    }

    /// Tracks sent transactions: searches for them in new blocks, sends them again after
    /// [`resend_blocks`](super::PlannerConfig::resend_blocks), and checks expired transactions.
    fn follow(&mut self, tip: Tip, out: &mut Vec<PlannerAction>) {
        let (now, lag, resend_after) = (self.now, self.config.lag_blocks, self.config.resend_blocks);
        for (id, flight) in &mut self.flights {
            let Some(draft) = &flight.draft else { continue };
            match flight.phase {
                FlightPhase::Waiting {
                    is_pending: false, ..
                } if expired_for_all(draft, tip, lag) => {
                    flight.phase = FlightPhase::Checking {
                        at: now,
                        step: Check::Finding,
                    };
                    out.push(PlannerAction::Find(*id, draft.clone()));
                }
                FlightPhase::Waiting {
                    is_pending: false,
                    searched_at,
                } if searched_at
                    .max(flight.absent_until)
                    .is_none_or(|at| at < tip.height) =>
                {
                    flight.phase = FlightPhase::Waiting {
                        searched_at: Some(tip.height),
                        is_pending: true,
                    };
                    out.push(PlannerAction::Find(*id, draft.clone()));
                }
                FlightPhase::Waiting {
                    is_pending: false, ..
                } => {
                    // Nodes drop transactions: after a restart, or when the mempool is full.
                    let late = flight
                        .accepted_at
                        .is_some_and(|at| tip.height >= at + resend_after);
                    if late && !draft.expiry.has_passed(tip.height, tip.time) {
                        flight.phase = FlightPhase::Ready { at: now };
                    }
                }
                FlightPhase::Checking {
                    at,
                    step: Check::Start,
                } if at <= now => {
                    flight.phase = FlightPhase::Checking {
                        at,
                        step: Check::Finding,
                    };
                    out.push(PlannerAction::Find(*id, draft.clone()));
                }
                _ => {}
            }
        }
    }

    /// Replies to all calls of a transaction, and removes the transaction.
    pub(super) fn reply(
        &mut self,
        id: FlightId,
        outcome: &Result<akash_provider_core::types::TxOutcome, akash_provider_core::error::Failure>,
        out: &mut Vec<PlannerAction>,
    ) {
        if let Some(flight) = self.flights.remove(&id) {
            out.extend(
                flight
                    .members
                    .iter()
                    .map(|m| PlannerAction::Reply(m.ticket, outcome.clone())),
            );
        }
    }
}

/// Returns true if the transaction has expired even for a node that is `lag` blocks behind.
fn expired_for_all(draft: &Draft, tip: Tip, lag: u64) -> bool {
    /// Maximum expected block interval on the Akash network.
    const BLOCK: Duration = Duration::from_secs(6);
    let lag_time = BLOCK.saturating_mul(u32::try_from(lag).unwrap_or(u32::MAX));
    draft
        .expiry
        .has_passed(tip.height.saturating_sub(lag), tip.time.minus(lag_time))
}

/// Returns true for a request with exactly one withdrawal, unless the request must be sent alone. After a
/// shared transaction failed, each of its requests is sent alone.
fn shareable(request: &QueuedMsgs) -> bool {
    !request.alone && matches!(&request.msgs[..], [Msg::WithdrawLease { .. }])
}

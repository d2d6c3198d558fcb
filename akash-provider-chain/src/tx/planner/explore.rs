//! Explores all interleavings of the planner with a node that loses messages, lags and restarts, for a limited number
//! of faults.
//!
//! A world consists of the planner, its pending responses, and a minimal chain: mempool, included transactions, used
//! nonces. Time passes with blocks only, 20 seconds each. The invariants are checked in every reachable state. A
//! violation prints the shortest path to its state.
//!
//! Length: one model with its transitions and invariants, which are read together.

use super::*;
use crate::testing::chain::{account, create_bid};
use crate::tx::api::Code;
use akash_provider_core::types::{BidId, BlockTime, CloseReason, Dec, TxError};
use std::collections::{HashMap, VecDeque};

const CHAIN: &str = "explored";
const BLOCK_MS: u64 = 20_000;
const STATES_MAX: usize = 400_000;

/// Pending response.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum InFlight {
    Block,
    Account,
    Prices,
    Simulate(FlightId, Draft),
    Send(FlightId, Draft),
    Find(FlightId, Draft),
    FetchObject(FlightId, Msg),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sent {
    tickets: Vec<Ticket>,
    draft: Draft,
    /// True if the node refused the draft at the first attempt, so no node has the draft.
    is_refused: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Outcome {
    Committed,
    Rejected(TxError),
    Unknown,
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    planner: Planner,
    now: u64,
    height: u64,
    time: BlockTime,
    /// Number of further blocks that the model can complete.
    blocks_left: u32,
    faults_left: u32,
    /// Remaining calls, in order. Each call is made at an arbitrary time.
    script: Vec<Vec<Msg>>,
    made: Vec<Vec<Msg>>,
    outcomes: BTreeMap<Ticket, Outcome>,
    in_flight: Vec<InFlight>,
    sent: Vec<Sent>,
    sequence: u64,
    mempool: Vec<Draft>,
    landed: Vec<(Draft, u64, Option<u32>)>,
    done: Vec<(Msg, u64)>,
    problem: Option<String>,
}

fn unavailable() -> Failure {
    failure(ErrorKind::Unavailable, "no response".into())
}

fn bid_id(dseq: u64) -> BidId {
    let group = DeploymentId::new(account(1), dseq).group(1);
    group.order(1).bid(account(2))
}

fn bid(dseq: u64) -> Vec<Msg> {
    vec![create_bid(&bid_id(dseq))]
}

fn close(dseq: u64) -> Vec<Msg> {
    vec![Msg::CloseBid {
        id: bid_id(dseq),
        reason: CloseReason::Unspecified,
    }]
}

fn withdraw(dseq: u64) -> Vec<Msg> {
    vec![Msg::WithdrawLease { id: bid_id(dseq) }]
}

impl World {
    fn new(script: Vec<Vec<Msg>>, blocks: u32, faults: u32, change: impl FnOnce(&mut PlannerConfig)) -> Self {
        let mut config = PlannerConfig {
            lag_blocks: 1,
            ..PlannerConfig::new(CHAIN)
        };
        change(&mut config);
        Self {
            planner: Planner::new(config, 7),
            now: 0,
            height: 10,
            time: BlockTime(1_700_000_000_000),
            blocks_left: blocks,
            faults_left: faults,
            script,
            made: Vec::new(),
            outcomes: BTreeMap::new(),
            in_flight: Vec::new(),
            sent: Vec::new(),
            sequence: 3,
            mempool: Vec::new(),
            landed: Vec::new(),
            done: Vec::new(),
            problem: None,
        }
    }

    fn info(&self) -> SyncInfo {
        SyncInfo {
            chain_id: CHAIN.to_owned(),
            height: self.height,
            time: self.time,
            catching_up: false,
        }
    }

    fn step(&mut self, input: PlannerInput) {
        let queued: Vec<QueuedMsgs> = self.planner.queue.values().cloned().collect();
        let actions = self.planner.step(Mono(self.now), input);
        self.check_order(&queued);
        let mut priority = 0;
        for action in actions {
            match action {
                PlannerAction::Reply(ticket, outcome) => self.reply(ticket, &outcome),
                PlannerAction::FetchBlock => self.in_flight.push(InFlight::Block),
                PlannerAction::FetchAccount => self.in_flight.push(InFlight::Account),
                PlannerAction::FetchPrices => self.in_flight.push(InFlight::Prices),
                PlannerAction::Simulate(id, draft) => self.in_flight.push(InFlight::Simulate(id, draft)),
                PlannerAction::Find(id, draft) => self.in_flight.push(InFlight::Find(id, draft)),
                PlannerAction::FetchObject(id, msg) => self.in_flight.push(InFlight::FetchObject(id, msg)),
                PlannerAction::Send(id, draft) => {
                    let of = draft.msgs.iter().map(Msg::priority).min().unwrap();
                    if of < priority {
                        self.fail("sent after a less urgent transaction".to_owned());
                    }
                    priority = of;
                    self.sends(id, draft);
                }
            }
        }
    }

    fn fail(&mut self, what: String) {
        self.problem.get_or_insert(what);
    }

    fn reply(&mut self, ticket: Ticket, outcome: &Result<TxOutcome, Failure>) {
        let reported = match outcome {
            Ok(TxOutcome::Committed { .. }) => Outcome::Committed,
            Ok(TxOutcome::Rejected { error, .. }) => Outcome::Rejected(*error),
            Ok(TxOutcome::Unknown { .. }) => Outcome::Unknown,
            Err(_) => Outcome::Error,
        };
        if self.outcomes.insert(ticket, reported).is_some() {
            self.fail(format!("call {ticket} has two replies"));
        }
    }

    /// Checks that no call was dispatched before a more urgent call.
    fn check_order(&mut self, before: &[QueuedMsgs]) {
        let waiting = &self.planner.queue;
        let flying = self.planner.flights.values().flat_map(|f| &f.members);
        let flying: Vec<Ticket> = flying.map(|m| m.ticket).collect();
        let gone = |r: &&QueuedMsgs| flying.contains(&r.ticket);
        let urgency = |r: &QueuedMsgs| r.msgs.iter().map(Msg::priority).min().unwrap();
        let Some(least) = before.iter().filter(gone).map(urgency).max() else {
            return;
        };
        let stuck = |r: &QueuedMsgs| urgency(r) < least && withdrawn(&r.msgs).next().is_none();
        if self.planner.flights.len() >= self.planner.config.flights_max && waiting.values().any(stuck) {
            self.fail("a more urgent call stays in the queue".to_owned());
        }
    }

    fn sends(&mut self, id: FlightId, draft: Draft) {
        let tickets: Vec<Ticket> = self.planner.flights[&id]
            .members
            .iter()
            .map(|m| m.ticket)
            .collect();
        if draft.msgs.len() > 1 && draft.msgs.iter().any(|m| matches!(m, Msg::CreateBid { .. })) {
            self.fail("a transaction with a bid contains other messages".to_owned());
        }
        if !self.sent.iter().any(|s| s.draft == draft) {
            let alive = |s: &&Sent| s.tickets.iter().any(|t| tickets.contains(t)) && !self.is_dead(s);
            if let Some(other) = self.sent.iter().find(alive) {
                let text = format!(
                    "sent with a second nonce before the first one expired: {:?}",
                    other.draft.ordering
                );
                return self.fail(text);
            }
            let draft = draft.clone();
            self.sent.push(Sent {
                tickets,
                draft,
                is_refused: false,
            });
        }
        self.in_flight.push(InFlight::Send(id, draft));
    }

    /// Returns true if a sent draft can no longer take effect.
    fn is_dead(&self, sent: &Sent) -> bool {
        let failed = |(d, _, failure): &(Draft, u64, Option<u32>)| *d == sent.draft && failure.is_some();
        let overtaken = match sent.draft.ordering {
            Ordering::Ordered { sequence, .. } => {
                sequence < self.sequence && !self.landed.iter().any(|(d, ..)| *d == sent.draft)
            }
            Ordering::Unordered { .. } => false,
        };
        sent.is_refused
            || overtaken
            || self.landed.iter().any(failed)
            || sent.draft.expiry.has_passed(self.height, self.time)
    }

    /// Returns the account sequence that the node requires for a new transaction.
    fn checked(&self) -> u64 {
        let waiting = self
            .mempool
            .iter()
            .filter(|d| matches!(d.ordering, Ordering::Ordered { .. }));
        self.sequence + waiting.count() as u64
    }

    fn arrive(&mut self, draft: &Draft) -> Submission {
        let refused = |number| Submission::Refused {
            code: Code::new("sdk", number),
            log: "refused".to_owned(),
        };
        if self.mempool.contains(draft) || self.landed.iter().any(|(d, ..)| d == draft) {
            return Submission::Known;
        }
        match draft.ordering {
            Ordering::Unordered { timeout_nanos } if self.time.0 * 1_000_000 > timeout_nanos => {
                return refused(42);
            }
            Ordering::Ordered { timeout_height, .. } if self.height >= timeout_height => return refused(30),
            Ordering::Ordered { sequence, .. } if sequence != self.checked() => return refused(32),
            Ordering::Unordered { .. } | Ordering::Ordered { .. } => {}
        }
        self.mempool.push(draft.clone());
        Submission::Accepted
    }

    fn would_fail(&self, msgs: &[Msg]) -> Option<u32> {
        msgs.iter().find_map(|msg| match msg {
            Msg::CreateBid { .. } if self.done.iter().any(|(m, _)| m == msg) => Some(21),
            Msg::CloseBid { .. } if self.done.iter().any(|(m, _)| m == msg) => Some(8),
            _ => None,
        })
    }

    fn make_block(&mut self) -> Vec<Draft> {
        self.height += 1;
        self.time = BlockTime(self.time.0 + i64::try_from(BLOCK_MS).unwrap());
        self.now += BLOCK_MS;
        let mut withdrawals = Vec::new();
        let mut included = Vec::new();
        for draft in std::mem::take(&mut self.mempool) {
            match draft.ordering {
                Ordering::Unordered { timeout_nanos } if self.time.0 * 1_000_000 > timeout_nanos => continue,
                Ordering::Ordered { timeout_height, .. } if self.height > timeout_height => continue,
                Ordering::Ordered { sequence, .. } if sequence != self.sequence => continue,
                Ordering::Ordered { .. } => self.sequence += 1,
                Ordering::Unordered { .. } => {}
            }
            let failure = self.would_fail(&draft.msgs);
            if failure.is_none() {
                let (height, msgs) = (self.height, Arc::clone(&draft.msgs));
                withdrawals.extend(super::withdrawn(&msgs).cloned());
                self.done.extend(msgs.iter().map(|m| (m.clone(), height)));
            }
            self.landed.push((draft.clone(), self.height, failure));
            included.push(draft);
        }
        let all = withdrawals.len();
        withdrawals.sort();
        withdrawals.dedup();
        if withdrawals.len() < all {
            self.fail("two withdrawals of one deployment in a block".to_owned());
        }
        included
    }

    fn included(&self, draft: &Draft, behind: u64) -> Option<IncludedTx> {
        let seen = self.height - behind;
        let found = self
            .landed
            .iter()
            .find(|(d, height, _)| d == draft && *height <= seen);
        found.map(|(_, height, failure)| IncludedTx {
            height: *height,
            failure: failure.map(|number| Code::new("market", number)),
            log: String::new(),
            gas_used: 100_000,
        })
    }

    fn object_state(&self, msg: &Msg, behind: u64) -> ObjectState {
        let seen = self.height - behind;
        let done = self.done.iter().find(|(m, height)| m == msg && *height <= seen);
        match (msg, done) {
            (Msg::WithdrawLease { .. }, _) => ObjectState::Unclear,
            (_, Some((_, height))) => ObjectState::Done {
                height: Some(*height),
            },
            (_, None) => ObjectState::NotDone,
        }
    }

    /// Completes a block. With `reported`, the follower reports the block. With `forgotten`, the mempool is
    /// emptied.
    fn block(&self, reported: bool, forgotten: bool) -> Self {
        let mut next = self.clone();
        if forgotten {
            next.mempool.clear();
        }
        let included = next.make_block();
        if !reported {
            next.step(PlannerInput::Tick);
            return next;
        }
        let found: Vec<PlannerInput> = included
            .iter()
            .filter_map(|draft| {
                let flights = next.planner.flights.iter();
                let mut of = flights.filter(|(_, f)| f.draft.as_ref() == Some(draft));
                let (id, _) = of.next()?;
                Some(PlannerInput::Found(*id, Ok(next.included(draft, 0))))
            })
            .collect();
        for input in found {
            next.step(input);
        }
        let block = next.info();
        next.step(PlannerInput::ObservedBlock {
            block,
            is_newest: true,
            is_complete: true,
        });
        next
    }

    fn responses(&self, at: usize, out: &mut Vec<(String, Self)>) {
        let mut without = self.clone();
        let in_flight = without.in_flight.remove(at);
        let mut add = |name: &str, is_fault: bool, act: &dyn Fn(&mut Self)| {
            if is_fault && self.faults_left == 0 {
                return;
            }
            let mut next = without.clone();
            next.faults_left -= u32::from(is_fault);
            act(&mut next);
            out.push((format!("{name} {in_flight:?}"), next));
        };
        match &in_flight {
            InFlight::Block => {
                add("answered", false, &|w| w.step(PlannerInput::Block(Ok(w.info()))));
                add("lost", true, &|w| w.step(PlannerInput::Block(Err(unavailable()))));
            }
            InFlight::Account => add("answered", false, &|w| {
                let account = Account {
                    address: account(2),
                    pubkey: None,
                    number: 9,
                    sequence: w.sequence,
                };
                w.step(PlannerInput::Account(Ok(Some(account))));
            }),
            InFlight::Prices => add("answered", false, &|w| {
                w.step(PlannerInput::Prices(Ok(Vec::new())))
            }),
            InFlight::Simulate(id, draft) => {
                add("answered", false, &|w| {
                    let response = match w.would_fail(&draft.msgs) {
                        None => Simulation::Gas { used: 100_000 },
                        Some(number) => Simulation::Refused {
                            log: format!("market {number}"),
                        },
                    };
                    w.step(PlannerInput::Simulated(*id, Ok(response)));
                });
                add("lost", true, &|w| {
                    w.step(PlannerInput::Simulated(*id, Err(unavailable())))
                });
            }
            InFlight::Send(id, draft) => {
                add("answered", false, &|w| w.sent(*id, draft, true, true));
                add("lost on the way", true, &|w| w.sent(*id, draft, false, false));
                add("response lost of", true, &|w| w.sent(*id, draft, true, false));
                add("mempool full for", true, &|w| {
                    w.refuse(*id, draft, 20);
                });
            }
            InFlight::Find(id, draft) => {
                add("answered", false, &|w| {
                    w.step(PlannerInput::Found(*id, Ok(w.included(draft, 0))))
                });
                add("lagging", true, &|w| {
                    w.step(PlannerInput::Found(*id, Ok(w.included(draft, 1))))
                });
                add("lost", true, &|w| {
                    w.step(PlannerInput::Found(*id, Err(unavailable())))
                });
            }
            InFlight::FetchObject(id, msg) => {
                add("answered", false, &|w| {
                    w.step(PlannerInput::Object(*id, Ok(w.object_state(msg, 0))))
                });
                add("lagging", true, &|w| {
                    w.step(PlannerInput::Object(*id, Ok(w.object_state(msg, 1))))
                });
            }
        }
    }

    fn sent(&mut self, id: FlightId, draft: &Draft, arrives: bool, has_response: bool) {
        let response = arrives.then(|| self.arrive(draft));
        if has_response && let Some(Submission::Refused { code, .. }) = &response {
            return self.refuse(id, draft, code.number);
        }
        let response = response.filter(|_| has_response).ok_or_else(unavailable);
        self.step(PlannerInput::Sent(id, response));
    }

    fn refuse(&mut self, id: FlightId, draft: &Draft, number: u32) {
        // Only a refusal of the first attempt proves that no node has the draft.
        let first = self.planner.flights.get(&id).is_some_and(|f| !f.perhaps_sent);
        if let Some(sent) = self.sent.iter_mut().find(|s| s.draft == *draft) {
            sent.is_refused = first;
        }
        let response = Submission::Refused {
            code: Code::new("sdk", number),
            log: "refused".to_owned(),
        };
        self.step(PlannerInput::Sent(id, Ok(response)));
    }

    fn successors(&self) -> Vec<(String, Self)> {
        let mut out = Vec::new();
        if let Some((call, rest)) = self.script.split_first() {
            let mut next = self.clone();
            next.script = rest.to_vec();
            next.made.push(call.clone());
            let (ticket, msgs) = (self.made.len() as Ticket, call.clone());
            next.step(PlannerInput::Submit { ticket, msgs });
            out.push((format!("call {ticket}"), next));
        }
        for at in 0..self.in_flight.len() {
            self.responses(at, &mut out);
        }
        if self.blocks_left > 0 {
            let mut block = |name: &str, faults: u32, reported: bool, forgotten: bool| {
                if let Some(left) = self.faults_left.checked_sub(faults) {
                    let mut next = self.block(reported, forgotten);
                    (next.blocks_left, next.faults_left) = (self.blocks_left - 1, left);
                    out.push((name.to_owned(), next));
                }
            };
            block("block reported", 0, true, false);
            block("block not reported", 1, false, false);
            if !self.mempool.is_empty() {
                block("mempool lost", 1, true, true);
            }
            if self.planner.sequencer.is_ordered() && self.faults_left > 0 {
                let mut next = self.clone();
                next.faults_left -= 1;
                next.sequence += 1;
                out.push(("another program uses the key".to_owned(), next));
            }
        }
        out
    }

    /// Returns a problem if the planner waits for a response, but no call to the node is pending.
    fn missing_call(&self) -> Option<String> {
        use flight::{Check, FlightPhase};
        let planner = &self.planner;
        let needs = [InFlight::Block, InFlight::Account, InFlight::Prices];
        let needs = planner.chain.pending().into_iter().zip(needs).collect::<Vec<_>>();
        if let Some((_, need)) = needs
            .iter()
            .find(|(is_pending, in_flight)| *is_pending && !self.in_flight.contains(in_flight))
        {
            return Some(format!("waits for a response without a pending call: {need:?}"));
        }
        let is_waiting = |phase: &FlightPhase| match phase {
            FlightPhase::Estimating { is_pending, .. } | FlightPhase::Waiting { is_pending, .. } => {
                *is_pending
            }
            FlightPhase::Sending | FlightPhase::Explaining { .. } => true,
            FlightPhase::Ready { .. } => false,
            FlightPhase::Checking { step, .. } => *step != Check::Start,
        };
        let is_answer = |id: FlightId, phase: &FlightPhase, in_flight: &InFlight| match (phase, in_flight) {
            (FlightPhase::Estimating { .. }, InFlight::Simulate(of, _))
            | (FlightPhase::Sending, InFlight::Send(of, _))
            | (
                FlightPhase::Waiting { .. }
                | FlightPhase::Checking {
                    step: Check::Finding, ..
                },
                InFlight::Find(of, _),
            )
            | (
                FlightPhase::Explaining { .. }
                | FlightPhase::Checking {
                    step: Check::FetchingObject { .. },
                    ..
                },
                InFlight::FetchObject(of, _),
            ) => *of == id,
            _ => false,
        };
        let mut flights = planner.flights.iter();
        let (id, flight) = flights.find(|(id, flight)| {
            let in_flight = |in_flight: &InFlight| is_answer(**id, &flight.phase, in_flight);
            is_waiting(&flight.phase) && !self.in_flight.iter().any(in_flight)
        })?;
        Some(format!(
            "flight {id} waits for a response without a pending call: {:?}",
            flight.phase
        ))
    }

    fn violation(&self) -> Option<String> {
        if self.problem.is_some() {
            return self.problem.clone();
        }
        if let Some(problem) = self.missing_call() {
            return Some(problem);
        }
        for (ticket, reported) in &self.outcomes {
            let msg = self
                .made
                .get(usize::try_from(*ticket).unwrap())
                .and_then(|m| m.first())?;
            // Several calls may have the same message. One execution is the outcome of one call.
            let done = self.done.iter().filter(|(m, _)| m == msg).count();
            let committed = |(t, reported): (&Ticket, &Outcome)| {
                *reported == Outcome::Committed
                    && self
                        .made
                        .get(usize::try_from(*t).unwrap())
                        .is_some_and(|m| m.first() == Some(msg))
            };
            let reported_count = self.outcomes.iter().filter(|pair| committed(*pair)).count();
            let calls = self.made.iter().filter(|m| m.first() == Some(msg)).count();
            if reported_count > done {
                return Some(format!(
                    "call {ticket} is reported as committed, but not executed"
                ));
            }
            let certain_not = matches!(reported, Outcome::Error | Outcome::Rejected(_));
            if calls == 1 && certain_not && done > 0 {
                return Some(format!(
                    "call {ticket} is reported as {reported:?}, but is in a block"
                ));
            }
        }
        None
    }

    /// Runs the planner without further faults. Returns a problem if a call gets no reply.
    fn ends_well(&self) -> Option<String> {
        let mut world = self.clone();
        world.faults_left = 0;
        while !world.script.is_empty() || !world.in_flight.is_empty() {
            world = world.successors().into_iter().next()?.1;
        }
        for _ in 0..12 {
            world = world.block(true, false);
            let mut steps = 0;
            while !world.in_flight.is_empty() {
                let mut responses = Vec::new();
                world.responses(0, &mut responses);
                world = responses.into_iter().next()?.1;
                steps += 1;
                if steps > 500 {
                    return Some("endless queries without time progress".to_owned());
                }
            }
            if let Some(problem) = world.violation() {
                return Some(problem);
            }
        }
        let all = world.outcomes.len() == world.made.len() && world.planner.is_idle();
        (!all).then(|| format!("calls without a reply: {:?}", world.outcomes))
    }
}

fn explore(name: &str, start: World) -> usize {
    let mut seen: HashMap<World, Option<(std::rc::Rc<World>, String)>> =
        HashMap::from([(start.clone(), None)]);
    let mut queue = VecDeque::from([start]);
    let mut endings = 0;
    while let Some(state) = queue.pop_front() {
        let is_end = state.blocks_left == 0 && state.in_flight.is_empty();
        endings += usize::from(is_end);
        let problem = state
            .violation()
            .or_else(|| is_end.then(|| state.ends_well()).flatten());
        if let Some(problem) = problem {
            let mut steps = Vec::new();
            let mut at = &state;
            while let Some(Some((before, choice))) = seen.get(at) {
                steps.push(format!("  {choice}"));
                at = before;
            }
            steps.reverse();
            panic!("{name}: {problem}\n{}\n{state:#?}", steps.join("\n"));
        }
        let before = std::rc::Rc::new(state);
        for (choice, next) in before.successors() {
            if !seen.contains_key(&next) {
                seen.insert(next.clone(), Some((std::rc::Rc::clone(&before), choice)));
                queue.push_back(next);
            }
        }
        assert!(seen.len() < STATES_MAX, "{name}: too many states");
    }
    println!("explored {name}: {} states, {endings} of them final", seen.len());
    assert!(endings > 0, "{name}: no final state reached");
    seen.len()
}

#[test]
fn bid_has_one_nonce_and_one_reply_under_all_faults() {
    let states = explore("a bid", World::new(vec![bid(1)], 7, 2, |_| {}));
    assert!(states > 1_000, "{states}");
}

#[test]
fn sequence_is_corrected_without_duplicate_transactions() {
    let start = World::new(vec![bid(1)], 6, 2, |config| config.ordered = true);
    let states = explore("a bid with a sequence", start);
    assert!(states > 1_000, "{states}");
}

#[test]
fn withdrawals_of_one_deployment_never_share_a_block() {
    let states = explore(
        "withdrawals",
        World::new(vec![withdraw(1), withdraw(1)], 6, 1, |_| {}),
    );
    assert!(states > 500, "{states}");
}

#[test]
fn urgent_call_is_first_with_one_transaction_in_flight() {
    let script = vec![withdraw(3), bid(1), close(2)];
    let start = World::new(script, 5, 1, |config| config.flights_max = 1);
    let states = explore("priorities", start);
    assert!(states > 500, "{states}");
}

#[test]
fn exploration_detects_a_second_nonce() {
    // A planner that loses its state would send the call twice under one ticket.
    let mut world = World::new(vec![bid(1)], 3, 0, |_| {});
    let sent = |nanos| Draft {
        msgs: bid(1).into(),
        ordering: Ordering::Unordered { timeout_nanos: nanos },
        expiry: Expiry {
            time: BlockTime(nanos / 1_000_000),
            height: None,
        },
        price: GasConfig::default().price(1, Dec::ZERO),
        account_number: 9,
    };
    world.step(PlannerInput::Submit {
        ticket: 0,
        msgs: bid(1),
    });
    let later = (world.time.0 + 60_000) * 1_000_000;
    let request = world.planner.queue.pop_first().unwrap().1;
    let flight = Flight::new(vec![request], 1, flight::FlightPhase::Sending, None);
    world.planner.flights.insert(1, flight);
    world.sends(1, sent(later));
    assert_eq!(world.violation(), None);
    world.sends(1, sent(later + 1));
    assert!(world.violation().unwrap().contains("second nonce"));
}

//! Planner with a simulated node that accepts encoded transactions. Faults are drawn from a seed.
//!
//! Length: one scenario for each fault.

mod costs;

use super::*;
use crate::convert::to_any;
use crate::private_key::PrivateKey;
use crate::signer::{self, TxHash};
use crate::tx::fake::{CHAIN, Node};
use crate::tx::object_state::object_state;
use akash_provider_core::types::{BidId, TxError};
use futures::FutureExt;

/// Faults in a test. Probabilities are in percent of the requests.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    unanswered: u64,
    /// Percentage of simulations that get no response, in addition to the percentage `unanswered`.
    unsimulated: u64,
    /// Number of simulations that the node refuses before it has the order.
    missing_orders: u32,
    /// Gas that every simulation reports.
    reported_gas: Option<u64>,
    /// Number that the node adds to the heights in its responses, to simulate a false chain.
    higher: u64,
    lag: u64,
    owner: u64,
    restart: u64,
}

struct World {
    node: Node,
    planner: Planner,
    key: PrivateKey,
    now: u64,
    seed: u64,
    faults: Faults,
    /// Pending responses.
    due: Vec<(u64, PlannerInput)>,
    submitted: BTreeMap<Ticket, Vec<Msg>>,
    replies: BTreeMap<Ticket, Result<TxOutcome, Failure>>,
    sends: u32,
    /// Fee of each sent transaction.
    fees: Vec<u128>,
    simulations: u32,
    /// Number of received queries for the newest block.
    block_queries: u32,
}

fn key() -> PrivateKey {
    PrivateKey::from_bytes(&[7; 32]).unwrap()
}

fn unavailable() -> Failure {
    failure(ErrorKind::Unavailable, "no response".into())
}

impl World {
    fn new(seed: u64, faults: Faults, config: PlannerConfig) -> Self {
        let key = key();
        Self {
            node: Node::new(key.public()),
            planner: Planner::new(config, 7),
            key,
            now: 0,
            seed,
            faults,
            due: Vec::new(),
            submitted: BTreeMap::new(),
            replies: BTreeMap::new(),
            sends: 0,
            fees: Vec::new(),
            simulations: 0,
            block_queries: 0,
        }
    }

    fn calm() -> Self {
        Self::new(1, Faults::default(), PlannerConfig::new(CHAIN))
    }

    /// Returns a pseudorandom number below `below` (Splitmix64).
    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below.max(1)
    }

    fn strikes(&mut self, percent: u64) -> bool {
        self.draw(100) < percent
    }

    fn submit(&mut self, msgs: Vec<Msg>) -> Ticket {
        let ticket = self.submitted.len() as u64;
        self.submitted.insert(ticket, msgs.clone());
        self.step(PlannerInput::Submit { ticket, msgs });
        ticket
    }

    fn step(&mut self, input: PlannerInput) {
        for action in self.planner.step(Mono(self.now), input) {
            self.act(action);
        }
    }

    fn bytes(&self, draft: &Draft) -> Vec<u8> {
        let account = signer::SigningAccount {
            key: &self.key,
            number: draft.account_number,
            chain_id: CHAIN,
        };
        let msgs = draft.msgs.iter().map(to_any).collect();
        signer::sign(&account, msgs, draft.ordering, &draft.price).bytes
    }

    fn act(&mut self, action: PlannerAction) {
        let lost = self.strikes(self.faults.unanswered);
        let lag = self.draw(self.faults.lag + 1);
        let or_lost = |lost: bool| if lost { Err(unavailable()) } else { Ok(()) };
        let input = match action {
            PlannerAction::Reply(ticket, outcome) => {
                let before = self.replies.insert(ticket, outcome);
                assert!(before.is_none(), "two replies to call {ticket}");
                return;
            }
            PlannerAction::FetchBlock => {
                self.block_queries += 1;
                PlannerInput::Block(or_lost(lost).map(|()| {
                    let mut info = self.node.sync_info();
                    info.height -= lag.min(info.height - 1);
                    info.time = self.node.chain.market(|m| m.block_time(info.height)).unwrap();
                    info.height += self.faults.higher;
                    info
                }))
            }
            PlannerAction::FetchAccount => {
                PlannerInput::Account(or_lost(lost).map(|()| Some(self.node.account())))
            }
            PlannerAction::FetchPrices => PlannerInput::Prices(or_lost(lost).map(|()| self.node.prices())),
            PlannerAction::Simulate(id, draft) => {
                self.simulations += 1;
                let lost = lost || self.strikes(self.faults.unsimulated);
                let bytes = self.bytes(&draft);
                let simulation = if self.simulations <= self.faults.missing_orders {
                    let log = "order not found".to_owned();
                    Simulation::Refused { log }
                } else if let Some(used) = self.faults.reported_gas {
                    Simulation::Gas { used }
                } else {
                    self.node.simulate(&bytes)
                };
                PlannerInput::Simulated(id, or_lost(lost).map(|()| simulation))
            }
            PlannerAction::Send(id, draft) => {
                self.sends += 1;
                self.fees.push(draft.price.fee.amount);
                let bytes = self.bytes(&draft);
                // The transaction of a lost response may have arrived.
                let arrives = !lost || self.strikes(50);
                let response = arrives.then(|| self.node.broadcast(&bytes));
                PlannerInput::Sent(id, response.filter(|_| !lost).ok_or_else(unavailable))
            }
            PlannerAction::Find(id, draft) => {
                let hash = TxHash::new(&self.bytes(&draft));
                PlannerInput::Found(id, or_lost(lost).map(|()| self.node.find(&hash, lag)))
            }
            PlannerAction::FetchObject(id, msg) => {
                let response = object_state(&self.node.chain, &msg).now_or_never().unwrap();
                PlannerInput::Object(
                    id,
                    or_lost(lost).and_then(|()| response.map_err(|e| e.to_failure())),
                )
            }
        };
        let at = self.now + 10 + self.draw(400);
        self.due.push((at, input));
    }

    /// Advances the time. Responses arrive, blocks are completed and other programs use the key.
    fn run(&mut self, time: Duration) {
        let end = self.now + u64::try_from(time.as_millis()).unwrap();
        let mut block_at = self.now + 500 + self.draw(5_500);
        let mut block_began = self.now;
        while self.now < end {
            self.now += 50;
            let (ready, later) = std::mem::take(&mut self.due)
                .into_iter()
                .partition(|(at, _)| *at <= self.now);
            self.due = later;
            for (_, input) in ready {
                self.step(input);
            }
            if self.now >= block_at {
                if self.strikes(self.faults.owner) {
                    self.node.owner_sends();
                }
                if self.strikes(self.faults.restart) {
                    self.node.clear_mempool();
                }
                self.node.end_block(Duration::from_millis(self.now - block_began));
                block_began = self.now;
                block_at = self.now + 500 + self.draw(5_500);
            }
            if self.now.is_multiple_of(1_000) {
                self.step(PlannerInput::Tick);
            }
        }
    }

    fn landed(&self, msg: &Msg) -> usize {
        self.node.executed.iter().filter(|(m, _)| m == msg).count()
    }

    fn committed(&self, ticket: Ticket) -> u64 {
        match &self.replies[&ticket] {
            Ok(TxOutcome::Committed { height }) => *height,
            other => panic!("call {ticket}: {other:?}"),
        }
    }

    /// Checks that each call got one reply, and that the replies match the messages that the node executed.
    ///
    /// Call this method only after all transactions have expired.
    fn check(&self) {
        assert_eq!(self.replies.len(), self.submitted.len(), "a call without a reply");
        assert!(self.planner.is_idle());
        assert_eq!(
            self.node.panics, 0,
            "two withdrawals of one deployment in a block"
        );
        let mut expected: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for (ticket, msgs) in &self.submitted {
            for msg in msgs {
                let (least, most) = expected.entry(format!("{msg:?}")).or_default();
                match &self.replies[ticket] {
                    Ok(TxOutcome::Committed { .. }) => (*least, *most) = (*least + 1, *most + 1),
                    Ok(TxOutcome::Unknown { .. }) => *most += 1,
                    Ok(TxOutcome::Rejected { .. }) | Err(_) => {}
                }
            }
        }
        for msgs in self.submitted.values() {
            for msg in msgs {
                let (least, most) = expected[&format!("{msg:?}")];
                let landed = self.landed(msg);
                assert!(
                    (least..=most).contains(&landed),
                    "{msg:?} executed {landed} times, reported {least} to {most}"
                );
            }
        }
    }
}

#[test]
fn many_bids_are_included_in_one_block_in_separate_transactions() {
    let mut world = World::calm();
    let bids: Vec<Msg> = (1..=200).map(|d| world.node.bid(&world.node.order(d))).collect();
    world.run(Duration::from_secs(10));
    let tickets: Vec<_> = bids.into_iter().map(|b| world.submit(vec![b])).collect();
    world.run(Duration::from_secs(30));
    let heights: std::collections::BTreeSet<_> = tickets.iter().map(|t| world.committed(*t)).collect();
    assert!(heights.len() <= 2, "{heights:?}");
    assert!(
        world.simulations <= 20,
        "{} simulations for one shape",
        world.simulations
    );
    assert_eq!(world.sends, 200);
    world.check();
}

#[test]
fn bid_is_sent_if_simulations_get_no_response() {
    for unsimulated in [50, 100] {
        let faults = Faults {
            unsimulated,
            ..Faults::default()
        };
        let mut world = World::new(5, faults, PlannerConfig::new(CHAIN));
        // The bids have the same shape: the later ones wait for the result of the first one.
        let bids: Vec<Msg> = (1..=3).map(|d| world.node.bid(&world.node.order(d))).collect();
        let tickets: Vec<_> = bids.into_iter().map(|bid| world.submit(vec![bid])).collect();
        let began = world.node.sync_info().height;
        // Less than the maximum time of a call.
        world.run(Duration::from_secs(25));
        let last = tickets.iter().map(|ticket| world.committed(*ticket)).max();
        assert!(
            world.simulations > 0 && last.is_some_and(|at| at > began),
            "{last:?}"
        );
        world.check();
    }
}

#[test]
fn bid_refused_by_a_lagging_node_is_retried() {
    for (missing_orders, is_sent) in [(1, true), (3, true), (100, false)] {
        let faults = Faults {
            missing_orders: 1 + missing_orders,
            ..Faults::default()
        };
        let mut world = World::new(5, Faults::default(), PlannerConfig::new(CHAIN));
        // A transaction was sent before, so the chain supports unordered transactions.
        let first = world.node.lease(9);
        let first = world.submit(vec![Node::close(&first)]);
        world.run(Duration::from_secs(20));
        world.committed(first);
        assert_eq!(world.simulations, 1);
        world.faults = faults;
        let bid = world.node.bid(&world.node.order(1));
        let ticket = world.submit(vec![bid]);
        world.run(Duration::from_secs(20));
        let reply = &world.replies[&ticket];
        let (committed, refused) = (
            matches!(reply, Ok(TxOutcome::Committed { .. })),
            matches!(
                reply,
                Ok(TxOutcome::Rejected {
                    error: TxError::Other,
                    ..
                })
            ),
        );
        assert!(
            if is_sent { committed } else { refused },
            "{missing_orders}: {reply:?}"
        );
        world.check();
    }
}

#[test]
fn late_blocks_do_not_delay_queries_of_the_newest_block() {
    let mut world = World::calm();
    world.run(Duration::from_secs(20));
    let old = world.node.sync_info();
    world.run(Duration::from_secs(60));
    let bid = world.node.bid(&world.node.order(1));
    world.submit(vec![bid]);
    world.run(Duration::from_millis(450));
    let before = world.block_queries;
    assert!(before > 0);
    for n in 0..20 {
        let block = SyncInfo {
            height: old.height + n / 10,
            ..old.clone()
        };
        world.step(PlannerInput::ObservedBlock {
            block,
            is_newest: true,
            is_complete: true,
        });
        world.run(Duration::from_millis(450));
    }
    assert!(
        world.block_queries >= before + 5,
        "{} queries in 9 s",
        world.block_queries - before
    );
}

#[test]
fn transaction_sent_at_a_false_height_is_sent_again() {
    let mut world = World::calm();
    world.faults.higher = 900;
    let bid = world.node.bid(&world.node.order(1));
    let ticket = world.submit(vec![bid]);
    while world.sends == 0 {
        world.run(Duration::from_millis(50));
    }
    // The false chain ends, and the node loses its mempool.
    world.faults.higher = 0;
    world.node.clear_mempool();
    world.run(Duration::from_secs(30));
    world.committed(ticket);
    world.check();
}

#[test]
fn idle_planner_sends_no_queries() {
    let mut world = World::calm();
    world.run(Duration::from_secs(60));
    assert!(world.due.is_empty());
    assert_eq!(world.planner.next_deadline(), None);
    let bid = world.node.bid(&world.node.order(1));
    let ticket = world.submit(vec![bid]);
    world.run(Duration::from_secs(20));
    world.committed(ticket);
    assert_eq!(world.planner.next_deadline(), None);
    assert_eq!(world.planner.load(), (0, 0));
}

#[test]
fn sends_closes_before_bids_before_withdrawals() {
    let config = PlannerConfig {
        flights_max: 1,
        ..PlannerConfig::new(CHAIN)
    };
    let mut world = World::new(3, Faults::default(), config);
    let leases: Vec<BidId> = (1..=2).map(|d| world.node.lease(d)).collect();
    let order = world.node.order(3);
    world.run(Duration::from_secs(5));
    let msgs = [
        Msg::WithdrawLease {
            id: leases[0].clone(),
        },
        world.node.bid(&order),
        Node::close(&leases[1]),
    ];
    for msg in msgs.clone() {
        world.submit(vec![msg]);
    }
    world.run(Duration::from_secs(40));
    let at = |msg: &Msg| world.node.executed.iter().position(|(m, _)| m == msg).unwrap();
    assert!(
        at(&msgs[2]) < at(&msgs[1]) && at(&msgs[1]) < at(&msgs[0]),
        "{:?}",
        world.node.executed
    );
    world.check();
}

#[test]
fn withdrawals_share_a_transaction_and_fail_separately() {
    let mut world = World::calm();
    let leases: Vec<BidId> = (1..=5).map(|d| world.node.lease(d)).collect();
    world.run(Duration::from_secs(20));
    let tickets: Vec<_> = leases
        .iter()
        .map(|id| world.submit(vec![Msg::WithdrawLease { id: id.clone() }]))
        .collect();
    world.run(Duration::from_secs(20));
    let first: Vec<_> = tickets.iter().map(|t| world.committed(*t)).collect();
    assert!(
        first.windows(2).all(|w| w[0] == w[1]) && world.sends == 1,
        "{first:?}, {} sends",
        world.sends
    );

    world.node.close_by_tenant(leases[2].deployment());
    let again: Vec<_> = leases
        .iter()
        .map(|id| world.submit(vec![Msg::WithdrawLease { id: id.clone() }]))
        .collect();
    world.run(Duration::from_secs(40));
    for (at, ticket) in again.iter().enumerate() {
        if at == 2 {
            let reply = &world.replies[ticket];
            let inactive = TxError::LeaseNotActive;
            assert!(
                matches!(reply, Ok(TxOutcome::Rejected { error, .. }) if *error == inactive),
                "{reply:?}"
            );
        } else {
            world.committed(*ticket);
        }
    }
    world.check();
}

#[test]
fn withdrawals_of_one_deployment_are_sent_one_by_one() {
    let mut world = World::calm();
    let id = world.node.lease(1);
    world.run(Duration::from_secs(20));
    let msg = Msg::WithdrawLease { id };
    let tickets = [world.submit(vec![msg.clone()]), world.submit(vec![msg])];
    world.run(Duration::from_secs(40));
    assert!(world.committed(tickets[0]) < world.committed(tickets[1]));
    world.check();
}

#[test]
fn invalid_combinations_of_messages_are_refused() {
    let mut world = World::calm();
    let (one, two) = (
        world.node.bid(&world.node.order(1)),
        world.node.bid(&world.node.order(2)),
    );
    let id = world.node.lease(3);
    let withdraw = Msg::WithdrawLease { id };
    for msgs in [vec![], vec![one, two], vec![withdraw.clone(), withdraw]] {
        let ticket = world.submit(msgs);
        assert!(matches!(&world.replies[&ticket], Err(f) if f.kind == ErrorKind::Invalid && !f.transient));
    }
}

#[test]
fn refusals_have_a_typed_error() {
    let mut world = World::calm();
    let order = world.node.order(1);
    let bid = world.node.bid(&order);
    let first = world.submit(vec![bid.clone()]);
    world.run(Duration::from_secs(20));
    world.committed(first);
    let second = world.submit(vec![bid]);
    let closed = world.node.order(2);
    world.node.close_by_tenant(closed.deployment());
    let late = world.submit(vec![world.node.bid(&closed)]);
    world.run(Duration::from_secs(20));
    let error = |ticket: Ticket| match &world.replies[&ticket] {
        Ok(TxOutcome::Rejected { error, .. }) => *error,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (error(second), error(late)),
        (TxError::BidExists, TxError::OrderNotOpen)
    );
    world.check();
}

#[test]
fn uses_sequences_on_a_chain_without_unordered_transactions() {
    let mut world = World::calm();
    world.node.supports_unordered = false;
    let tickets: Vec<_> = (1..=20)
        .map(|d| world.submit(vec![world.node.bid(&world.node.order(d))]))
        .collect();
    world.run(Duration::from_secs(60));
    for ticket in tickets {
        world.committed(ticket);
    }
    assert_eq!(world.node.committed, 23);
    world.check();
}

#[test]
fn pays_a_higher_price_up_to_the_limit() {
    let mut world = World::calm();
    let first = world.submit(vec![world.node.bid(&world.node.order(1))]);
    world.run(Duration::from_secs(20));
    world.committed(first);
    world.node.price_scaled = 200_000_000_000_000_000;
    let second = world.submit(vec![world.node.bid(&world.node.order(2))]);
    world.run(Duration::from_secs(20));
    world.committed(second);
    world.node.price_scaled *= 100;
    let third = world.submit(vec![world.node.bid(&world.node.order(3))]);
    world.run(Duration::from_secs(20));
    assert!(
        matches!(&world.replies[&third], Err(f) if f.kind == ErrorKind::Denied),
        "{:?}",
        world.replies[&third]
    );
    world.check();
}

#[test]
fn without_a_node_the_call_fails_as_not_sent() {
    let faults = Faults {
        unanswered: 100,
        ..Faults::default()
    };
    let mut world = World::new(5, faults, PlannerConfig::new(CHAIN));
    let ticket = world.submit(vec![world.node.bid(&world.node.order(1))]);
    world.run(Duration::from_secs(70));
    assert!(matches!(&world.replies[&ticket], Err(f) if f.kind == ErrorKind::Unavailable && f.transient));
    world.check();
}

#[test]
fn stop_distinguishes_sent_from_unsent_calls() {
    let mut world = World::calm();
    let sent = world.submit(vec![world.node.bid(&world.node.order(1))]);
    while world.sends == 0 {
        world.run(Duration::from_millis(50));
    }
    let unsent = world.submit(vec![Node::close(&world.node.lease(2))]);
    world.step(PlannerInput::Stop);
    assert!(
        matches!(&world.replies[&sent], Ok(TxOutcome::Unknown { .. })),
        "{:?}",
        world.replies[&sent]
    );
    assert!(matches!(&world.replies[&unsent], Err(f) if f.kind == ErrorKind::Stopped));
    let late = world.submit(vec![Node::close(&world.node.lease(3))]);
    assert!(matches!(&world.replies[&late], Err(f) if f.kind == ErrorKind::Stopped));
}

#[test]
fn dropped_call_is_not_sent() {
    let mut world = World::calm();
    let ticket = world.submit(vec![world.node.bid(&world.node.order(1))]);
    world.step(PlannerInput::Cancel { ticket });
    world.run(Duration::from_secs(20));
    assert!(world.replies.is_empty() && world.node.executed.is_empty() && world.planner.is_idle());
}

fn campaign(seed: u64, faults: Faults, ordered: bool) -> (usize, usize) {
    let mut world = World::new(
        seed,
        faults,
        PlannerConfig {
            ordered,
            ..PlannerConfig::new(CHAIN)
        },
    );
    let leases: Vec<BidId> = (1..=4).map(|d| world.node.lease(d)).collect();
    for round in 0..6_u64 {
        for n in 0..3 {
            let order = world.node.order(100 + round * 10 + n);
            world.submit(vec![world.node.bid(&order)]);
            if world.strikes(20) {
                world.node.close_by_tenant(order.deployment());
            }
        }
        for id in &leases {
            if world.strikes(60) {
                world.submit(vec![Msg::WithdrawLease { id: id.clone() }]);
            }
        }
        if round == 3 {
            world.submit(vec![Node::close(&leases[0])]);
        }
        let pause = world.draw(15_000);
        world.run(Duration::from_millis(pause));
    }
    world.run(Duration::from_secs(400));
    world.check();
    let committed = world
        .replies
        .values()
        .filter(|r| matches!(r, Ok(TxOutcome::Committed { .. })))
        .count();
    (committed, world.replies.len())
}

#[test]
fn reported_outcomes_are_true_under_all_faults() {
    let (mut committed, mut all) = (0, 0);
    for seed in 0..60 {
        let faults = Faults {
            unanswered: seed % 40,
            lag: seed % 4,
            restart: seed % 15,
            ..Faults::default()
        };
        let (c, a) = campaign(seed, faults, false);
        (committed, all) = (committed + c, all + a);
    }
    println!("{committed} of {all} committed");
    assert!(committed * 10 > all * 6, "{committed} of {all}");
}

#[test]
fn reported_outcomes_are_true_with_sequences_and_a_shared_key() {
    let (mut committed, mut all) = (0, 0);
    for seed in 0..40 {
        let faults = Faults {
            unanswered: seed % 20,
            lag: seed % 4,
            owner: seed % 30,
            restart: seed % 8,
            ..Faults::default()
        };
        let (c, a) = campaign(1_000 + seed, faults, true);
        (committed, all) = (committed + c, all + a);
    }
    println!("{committed} of {all} committed");
    assert!(committed * 10 > all * 6, "{committed} of {all}");
}

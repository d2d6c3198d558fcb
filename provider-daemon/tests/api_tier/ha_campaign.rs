//! Fail-overs between two providers of one account under a stream of orders. The leader is killed, stopped,
//! paused, or cut off from the network in one or both directions. The clocks of the two providers differ by
//! minutes. Both providers have only the rights of `deploy/rbac`.
//!
//! The test command runs a short form, and `cargo xtask campaign ha` runs the long form. `HA_SEED` determines
//! the order of fail-overs. `HA_STORE` selects the store of the election (`kubernetes` or `redis`).
//! `HA_LEASE_S` is the duration of the election lease in seconds.

#[path = "ha_campaign/audit.rs"]
mod audit;
#[path = "ha_campaign/crowd.rs"]
pub(crate) mod crowd;
#[path = "ha_campaign/facts.rs"]
mod facts;
#[path = "ha_campaign/node.rs"]
mod node;
#[path = "ha_campaign/record.rs"]
mod record;
#[path = "ha_campaign/room.rs"]
mod room;
#[path = "ha_campaign/suspended.rs"]
mod suspended;
#[path = "ha_campaign/world.rs"]
mod world;

use crate::landed::landed;
use crate::stage::{Running, Stage, until};
use akash_provider_core::types::Msg;
use audit::Audit;
use crowd::{Crowd, Deployment, wrongly_closed};
use nix::sys::signal::Signal;
pub(crate) use node::LargeNode;
use record::{Away, Judged, judged};
use room::{Sent, To};
use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Component, Testbed, Tier};
pub(crate) use world::World;

/// Default name of the election Lease.
const LEASE: &str = "akash-provider";
const NAMES: [&str; 2] = ["a", "b"];
/// Seconds by which the clock of an instance is ahead.
const CLOCKS: [i64; 3] = [0, 420, -240];

/// Fault that ends the leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Kill,
    Term,
    /// The process is suspended for longer than the election lease.
    Pause,
    /// The daemon's link is down in both directions.
    Cut,
    /// Only packets to the daemon are dropped.
    Deaf,
}

const WAYS: [Way; 5] = [Way::Kill, Way::Term, Way::Pause, Way::Cut, Way::Deaf];

/// State of a random number generator (splitmix64).
struct Lots(u64);

impl Lots {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }

    /// Returns `count` faults in random order, all kinds about equally often.
    fn ways(&mut self, count: usize) -> Vec<Way> {
        let mut all = Vec::new();
        while all.len() < count {
            let mut left = WAYS.to_vec();
            while !left.is_empty() {
                all.push(left.swap_remove(self.below(left.len())));
            }
        }
        all.truncate(count);
        all
    }
}

fn setting(name: &str, small: u64) -> u64 {
    std::env::var(name).map_or(small, |text| {
        text.parse().expect("a setting of this test is a number")
    })
}

/// Returns true if the last printed leadership event has the role `leader`.
pub(crate) fn leads(one: &Running) -> bool {
    let output = one.output();
    let last = output
        .lines()
        .rfind(|line| line.contains("\"event\":\"leadership\""));
    last.is_some_and(|line| line.contains("\"role\":\"leader\""))
}

/// Two daemons, one of them the leader, with the results of fail-overs.
struct Pair<'a> {
    world: World<'a>,
    all: [Running; 2],
    leader: usize,
    lots: Lots,
    away: Vec<Away>,
    by_way: BTreeMap<Way, (u32, Duration)>,
    clocks_apart: u32,
}

impl<'a> Pair<'a> {
    fn new(mut world: World<'a>, mut lots: Lots) -> Self {
        let first = world.start(0, CLOCKS[lots.below(CLOCKS.len())]);
        until("one instance is the leader", || first.dump(), || leads(&first));
        let second = world.start(1, CLOCKS[lots.below(CLOCKS.len())]);
        let pair = Self {
            world,
            all: [first, second],
            leader: 0,
            lots,
            away: Vec::new(),
            by_way: BTreeMap::new(),
            clocks_apart: 0,
        };
        pair.is_warm(1);
        pair
    }

    fn dump(&self) -> String {
        format!("{}\n---\n{}", self.all[0].dump(), self.all[1].dump())
    }

    fn tell(&self) {
        for (way, (times, most)) in &self.by_way {
            println!("{way:?}: {times} fail-overs, the longest took {most:?}");
        }
        println!(
            "{} fail-overs, {} of them between instances with different clocks",
            self.by_way.values().map(|(times, _)| times).sum::<u32>(),
            self.clocks_apart,
        );
    }

    /// Asserts that every fail-over took at most 1.25 lease durations. For a lease below 12 s, the limit is
    /// the lease duration plus 3 s.
    fn is_in_time(&self, lease: Duration) {
        let most = lease + (lease / 4).max(Duration::from_secs(3));
        for (way, (_, took)) in &self.by_way {
            assert!(
                *took <= most,
                "fail-over after {way:?} took {took:?}\n{}",
                self.dump()
            );
        }
    }

    /// Asserts that enough writes to the chain, the cluster and the bus were recorded.
    fn writes_were_seen(&self, sent: &[Sent], orders: usize) {
        for to in self.world.written_to() {
            let count = sent.iter().filter(|sent| sent.to == to).count();
            assert!(count >= orders / 2, "only {count} recorded writes to the {to:?}");
        }
    }

    fn is_warm(&self, who: usize) {
        let one = &self.all[who];
        until(
            "the instance is a standby that is ready to take over",
            || self.dump(),
            || one.output().contains("this instance is a standby"),
        );
    }

    fn hand_over(&mut self, way: Way) {
        sleep(Duration::from_millis(300 + self.lots.below(1_200) as u64));
        let (old, new) = (self.leader, 1 - self.leader);
        self.clocks_apart += u32::from(self.world.clocks[0] != self.world.clocks[1]);
        let begun = Instant::now();
        match way {
            Way::Kill => self.all[old].kill(),
            Way::Term => self.all[old].signal(Signal::SIGTERM),
            Way::Pause => self.all[old].signal(Signal::SIGSTOP),
            Way::Cut => self.world.room.cut(old),
            Way::Deaf => self.world.room.deafen(old),
        }
        until(
            "the other instance is the leader",
            || format!("{way:?}\n{}", self.dump()),
            || leads(&self.all[new]),
        );
        let counted = self.by_way.entry(way).or_default();
        *counted = (counted.0 + 1, counted.1.max(begun.elapsed()));
        self.leader = new;
        if matches!(way, Way::Kill | Way::Term) {
            if way == Way::Term {
                assert_eq!(self.all[old].ended(), Some(0), "{}", self.dump());
            }
            let clock = CLOCKS[self.lots.below(CLOCKS.len())];
            let again = self.world.start(old, clock);
            drop(std::mem::replace(&mut self.all[old], again));
            self.is_warm(old);
            return;
        }
        sleep(Duration::from_millis(self.lots.below(1_500) as u64));
        match way {
            Way::Kill | Way::Term => {}
            Way::Pause => self.all[old].signal(Signal::SIGCONT),
            Way::Cut => self.world.room.mend(old),
            Way::Deaf => self.world.room.hear(old),
        }
        self.away.push(Away {
            who: old,
            way,
            from: begun,
            until: Instant::now(),
        });
        until(
            "the old leader reports that it lost the leadership",
            || self.dump(),
            || !leads(&self.all[old]),
        );
    }
}

/// Returns the number of orders with several bids, and the number of refused bids.
fn bids_again(stage: &Stage) -> (usize, usize) {
    let height = stage.chain.market(|market| market.height());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let all = runtime.block_on(landed(&stage.url(), "devnet", height));
    let mut by_order: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for tx in &all {
        for msg in &tx.msgs {
            if let Msg::CreateBid { id, .. } = msg {
                let counted = by_order.entry(id.to_string()).or_default();
                *counted = (
                    counted.0 + usize::from(tx.code == 0),
                    counted.1 + usize::from(tx.code != 0),
                );
            }
        }
    }
    let double = by_order.values().filter(|(done, _)| *done > 1).count();
    (double, by_order.values().map(|(_, refused)| refused).sum())
}

fn tell_of_orders(all: &[Deployment], double: usize, refused: usize) {
    let answers = all.iter().filter_map(|one| one.time_to_bid);
    println!(
        "{} orders, {} without a bid, longest wait for a bid {:?}; {} orders with two bids, {refused} repeated bids that the chain refused",
        all.len(),
        all.iter().filter(|one| one.time_to_bid.is_none()).count(),
        answers.max().unwrap_or_default(),
        double,
    );
}

fn accepted(all: &[Deployment]) -> BTreeSet<u64> {
    let accepted = all.iter().filter(|one| one.accepted);
    accepted.map(|one| one.id.dseq).collect()
}

fn counted(sent: &[Sent], judged: &Judged) -> String {
    let count = |to| sent.iter().filter(|sent| sent.to == to).count();
    let (chain, cluster, bus) = (count(To::Chain), count(To::Cluster), count(To::Bus));
    format!(
        "{chain} writes to the chain, {cluster} to the cluster, {bus} to the bus; {} of them late, {} moments with two \
         writers",
        judged.late,
        judged.two_writers.len(),
    )
}

/// Returns true if the Lease holder `holder` is the daemon `who`.
fn is(who: usize, holder: &str) -> bool {
    holder
        .strip_prefix(NAMES[who])
        .is_some_and(|rest| rest.starts_with('_'))
}

fn dump_all(crowd: &Crowd, pair: &Pair<'_>) -> String {
    let refusal = crowd.refusal.lock().unwrap().clone();
    format!("{:?}\n{refusal}\n{}", crowd.deployments(), pair.dump())
}

fn close_all(stage: &Stage, all: &[Deployment]) {
    for one in all.iter().filter(|one| !one.closed) {
        let id = one.id.clone();
        stage.close(id);
    }
}

#[test]
fn hand_overs_under_a_stream_of_orders_leave_one_writer_and_every_order_answered_once() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let (count, seed) = (setting("HA_HAND_OVERS", 5), setting("HA_SEED", 1));
    println!("fail-overs of seed {seed}: HA_SEED={seed} HA_HAND_OVERS={count}");
    let mut lots = Lots(seed);
    let ways = lots.ways(usize::try_from(count).unwrap());
    let _node = LargeNode::new(&cluster);
    let lease = Duration::from_secs(setting("HA_LEASE_S", 4));
    let world = World::new(&cluster, lease, true);
    let watch = world.watch();
    let facts = world.facts();
    let audit = Audit::start(&cluster, &world.tokens);
    let mut pair = Pair::new(world, lots);
    let crowd = Crowd::start(pair.world.tenant());
    for way in ways {
        pair.hand_over(way);
    }
    crowd.orders_no_more();
    let dump = || dump_all(&crowd, &pair);
    until(
        "every order has a bid, and every manifest is accepted",
        dump,
        || crowd.is_served(),
    );
    crowd.stop();
    let all = crowd.deployments();
    let accepted = accepted(&all);
    until("every accepted manifest is deployed", dump, || {
        accepted.is_subset(&pair.world.deployed())
    });
    let closed = wrongly_closed(&pair.world.stage, &all);
    let (double, refused) = bids_again(&pair.world.stage);
    let mut sent = pair.world.room.sent.lock().unwrap().clone();
    sent.extend(audit.sent());
    let observed = watch.observed();
    let judged = judged(&observed, &sent, &pair.away, is);
    pair.tell();
    println!(
        "the election record had {} holders",
        observed.iter().filter(|one| !one.holder.is_empty()).count()
    );
    tell_of_orders(&all, double, refused);
    println!(
        "{} manifests accepted and deployed, {closed} leases and bids closed without a tenant's request",
        accepted.len()
    );
    println!("{}", counted(&sent, &judged));
    if let Some(facts) = facts {
        facts::judge(&facts, &all);
    }
    pair.is_in_time(lease);
    assert!(
        judged.two_writers.is_empty(),
        "{:?}\n{observed:?}\n{}",
        judged.two_writers,
        dump()
    );
    assert_eq!((double, closed), (0, 0), "{}", dump());
    assert!(!accepted.is_empty(), "{}", dump());
    pair.writes_were_seen(&sent, all.len());
    assert_eq!(watch.last().map(|last| is(pair.leader, &last.holder)), Some(true));
    close_all(&pair.world.stage, &all);
    // Deleting the namespaces requires the controllers, which were paused.
    cluster.resume(Component::ControllerManager).unwrap();
    until("all workloads are deleted", dump, || {
        pair.world.deployed().is_empty()
    });
}

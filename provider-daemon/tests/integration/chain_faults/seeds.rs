//! Any fault at any moment, from a seed.

use crate::chain_faults::bidder::Bidder;
use crate::chain_faults::judge::{self, Oracle};
use crate::chain_faults::setting;
use crate::chain_faults::world::{
    CHAIN, authority, bid_id, chain, devnet, height, impatient, order, start, until, us,
};
use crate::landed::landed;
use akash_provider_core::chain::{ChainQuery, MemoryChain};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{BidId, BidState, CloseReason, Msg, OrderState};
use akash_provider_devnet::Devnet;
use fault_proxy::{Faults, Pipe, Proxy};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const BLOCK: Duration = Duration::from_millis(200);
/// How long a seed's faults go on.
const STORM: Duration = Duration::from_secs(12);
/// After it everything is settled within this: less than what a call may wait to be sent, so that one which nobody
/// works on any more is not taken for one that takes its time.
const SETTLING: Duration = Duration::from_secs(45);

/// Splitmix64.
struct Dice(u64);

impl Dice {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below.max(1)
    }
}

/// One of them, with its name.
fn fault(dice: &mut Dice) -> (&'static str, Faults) {
    let some = dice.draw(3) + 1;
    match dice.draw(13) {
        kind @ ..6 => fault_of_a_node(kind, some),
        kind => fault_of_answers(kind, some),
    }
}

fn fault_of_a_node(kind: u64, some: u64) -> (&'static str, Faults) {
    let none = Faults::default();
    match kind {
        0 => ("down", Faults { down: true, ..none }),
        1 => ("frozen", Faults { frozen: true, ..none }),
        2 => ("lag", Faults { lag: some, ..none }),
        3 => ("scatter", Faults { scatter: 3, ..none }),
        4 => (
            "catching up",
            Faults {
                catching_up: true,
                ..none
            },
        ),
        _ => (
            "other versions",
            Faults {
                other_versions: true,
                // What a node offers is asked for anew after an outage.
                truncate: 15 * some,
                ..none
            },
        ),
    }
}

fn fault_of_answers(kind: u64, some: u64) -> (&'static str, Faults) {
    let none = Faults::default();
    match kind {
        6 => (
            "refused",
            Faults {
                refused: true,
                ..none
            },
        ),
        7 => (
            "delay",
            Faults {
                delay_ms: 100 * some,
                ..none
            },
        ),
        8 => (
            "lost events",
            Faults {
                lose_events: 30 * some,
                ..none
            },
        ),
        9 => (
            "doubled events",
            Faults {
                repeat_events: 30 * some,
                ..none
            },
        ),
        10 => (
            "pruned",
            Faults {
                keep_blocks: some,
                lose_events: 60,
                ..none
            },
        ),
        11 => (
            "broken answers",
            Faults {
                truncate: 15 * some,
                ..none
            },
        ),
        _ => (
            "swallowed answers",
            Faults {
                swallow: 15 * some,
                ..none
            },
        ),
    }
}

/// The ways to a node, each with faults of its own.
struct Ways {
    /// With what holds also while nothing else does.
    proxies: Vec<(Proxy, Faults)>,
    pipe: Option<Pipe>,
}

impl Ways {
    /// One or two nodes, by their JSON-RPC. Every second seed asks over gRPC, every third has one more node of which
    /// the proxy sees bytes alone.
    async fn of(seed: u64, net: &Devnet) -> Self {
        let (rpc, grpc) = (authority(&net.rpc_url()), authority(&net.grpc_url()));
        let asks_grpc = !seed.is_multiple_of(2);
        let usual = Faults {
            // The faster one is asked.
            delay_ms: if asks_grpc { 100 } else { 0 },
            ..Faults::default()
        };
        let mut proxies = Vec::new();
        for at in 0..if seed.is_multiple_of(4) { 2 } else { 1 } {
            let proxy = Proxy::start(&rpc, seed * 10 + at).await.unwrap();
            proxies.push((proxy, usual));
        }
        if asks_grpc {
            let proxy = Proxy::start_grpc(&grpc, seed * 10 + 9).await.unwrap();
            proxies.push((proxy, Faults::default()));
        }
        let pipe = match seed % 3 {
            0 => Some(Pipe::start(&grpc, seed).await.unwrap()),
            _ => None,
        };
        let ways = Self { proxies, pipe };
        ways.calm();
        ways
    }

    fn nodes(&self) -> Vec<String> {
        let pipe = self.pipe.iter().map(|pipe| format!("grpc://{}", pipe.address()));
        self.proxies
            .iter()
            .map(|(proxy, _)| proxy.url())
            .chain(pipe)
            .collect()
    }

    /// Questions over gRPC.
    fn grpc_questions(&self) -> u64 {
        let grpc = self
            .proxies
            .iter()
            .filter(|(proxy, _)| proxy.url().starts_with("grpc"));
        grpc.map(|(proxy, _)| proxy.stats().questions).sum()
    }

    fn calm(&self) {
        self.proxies.iter().for_each(|(proxy, usual)| proxy.set(*usual));
        self.pipe.iter().for_each(|pipe| pipe.set(Faults::default()));
    }

    /// Switches faults, and cuts, until the time is over. The last of each kind is gone at the end.
    async fn storm(&self, seed: u64) -> Vec<&'static str> {
        let mut dice = Dice(seed);
        let mut names = Vec::new();
        let began = Instant::now();
        while began.elapsed() < STORM {
            for (proxy, _) in &self.proxies {
                let (name, faults) = fault(&mut dice);
                names.push(name);
                proxy.set(faults);
                if dice.draw(4) == 0 {
                    proxy.cut();
                }
            }
            if let Some(pipe) = &self.pipe {
                pipe.set(fault(&mut dice).1);
            }
            tokio::time::sleep(Duration::from_millis(200 + dice.draw(1500))).await;
            if dice.draw(2) == 0 {
                self.calm();
                tokio::time::sleep(Duration::from_millis(dice.draw(600))).await;
            }
        }
        self.calm();
        names
    }
}

/// Tenants come, take bids, and go; now and then we close or are paid.
async fn life(seed: u64, chain: &MemoryChain, bidder: &Bidder) {
    let mut dice = Dice(seed ^ 0xabcd);
    let began = Instant::now();
    let mut dseq = 0;
    while began.elapsed() < STORM {
        for _ in 0..=dice.draw(4) {
            dseq += 1;
            order(chain, dseq);
        }
        let bids: Vec<(BidId, BidState)> =
            chain.market(|market| market.bids().map(|bid| (bid.id.clone(), bid.state)).collect());
        let of = |state: BidState, dice: &mut Dice| {
            let some: Vec<&BidId> = bids
                .iter()
                .filter(|(_, s)| *s == state)
                .map(|(id, _)| id)
                .collect();
            let at = usize::try_from(dice.draw(some.len() as u64)).unwrap();
            some.get(at).map(|id| (*id).clone())
        };
        // What the chain refuses does nothing.
        if let Some(bid) = of(BidState::Open, &mut dice) {
            drop(chain.tenant(TenantMsg::CreateLease { bid }));
        }
        if let Some(id) = of(BidState::Active, &mut dice) {
            let msg = match dice.draw(4) {
                0 => Some(Msg::CloseBid {
                    id,
                    reason: CloseReason::Unspecified,
                }),
                1 => Some(Msg::WithdrawLease { id }),
                2 => {
                    let id = id.deployment().clone();
                    drop(chain.tenant(TenantMsg::CloseDeployment { id }));
                    None
                }
                _ => None,
            };
            if let Some(msg) = msg {
                let bidder = bidder.clone();
                tokio::spawn(async move { bidder.send(msg).await });
            }
        }
        tokio::time::sleep(Duration::from_millis(100 + dice.draw(500))).await;
    }
}

/// What the client reads of us is what the market has; the number of our bids.
async fn same_market(name: &str, bidder: &Bidder, chain: &MemoryChain) -> usize {
    // Nobody does anything any more, so one block is as good as the next.
    let mut told = bidder.client.snapshot(&us()).await.unwrap();
    let mut there = chain.market(|market| market.snapshot(&us()));
    told.bids.sort_by(|a, b| a.id.cmp(&b.id));
    there.bids.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(told.bids, there.bids, "{name}: our bids are the market's");
    let leases = |snapshot: &akash_provider_core::types::Snapshot| {
        let mut leases: Vec<String> = snapshot
            .leases
            .iter()
            .map(|lease| format!("{:?}", lease.lease))
            .collect();
        leases.sort();
        leases
    };
    assert_eq!(
        leases(&told),
        leases(&there),
        "{name}: our leases are the market's"
    );

    there.bids.len()
}

async fn seed(seed: u64) {
    let name = format!("CHAIN_SEED={seed}");
    let chain = chain();
    let net = devnet(&chain, Some(BLOCK)).await;
    let oracle = Oracle::of(&chain);
    let ways = Ways::of(seed, &net).await;
    let stop = CancellationToken::new();
    let bidder = Bidder::new(start(impatient(ways.nodes()), &stop));
    let listening = tokio::spawn(bidder.clone().run());
    let (faults, ()) = tokio::join!(ways.storm(seed), life(seed, &chain, &bidder));

    let settled = |bidder: &Bidder| {
        let goal = chain.market(|market| {
            let open = market.orders().filter(|order| order.state == OrderState::Open);
            open.map(|order| bid_id(&order.id)).collect::<Vec<_>>()
        });
        let all = chain.market(|market| goal.iter().all(|id| market.bid(id).is_some()));
        all && bidder.book().under_way == 0
    };
    let began = Instant::now();
    while !settled(&bidder) {
        let status = bidder.client.status();
        assert!(
            began.elapsed() < SETTLING,
            "{name}: not settled: {:?} under way, {status:#?}",
            bidder.book().under_way
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let settled_in = began.elapsed();
    let goal = height(&chain) + 2;
    until(&format!("{name}: the follower is there"), || {
        bidder.told() >= goal
    })
    .await;

    let judged = judge::blocks(&name, &bidder, &oracle);
    let landed = landed(&net.rpc_url(), CHAIN, height(&chain)).await;
    judge::transactions(&name, &bidder, &landed);
    let bids = same_market(&name, &bidder, &chain).await;
    let status = bidder.client.status().reader.follower;
    println!(
        "{name}: {judged} blocks, {} fetched, {} resyncs, {bids} bids, calls {:?}, {} questions over gRPC, settled in \
         {settled_in:?}, faults {faults:?}",
        status.fetched,
        status.resyncs,
        bidder.tally(),
        ways.grpc_questions(),
    );
    stop.cancel();
    listening.abort();
    net.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_every_block_is_told_once_and_every_bid_is_sent_once() {
    let (first, count) = (setting("CHAIN_SEED", 1), setting("CHAIN_SEEDS", 6));
    let together = setting("CHAIN_TOGETHER", 3).max(1);
    let mut next = first;
    while next < first + count {
        let until = (next + together).min(first + count);
        let seeds: Vec<_> = (next..until).map(|s| tokio::spawn(seed(s))).collect();
        for task in seeds {
            task.await.unwrap();
        }
        next = until;
    }
}

//! Random faults at random times, from a seed.

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
use fault_proxy::{Faults, Proxy, TlsProxy};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const BLOCK: Duration = Duration::from_millis(200);
/// Time for which faults are injected, for each seed.
const STORM: Duration = Duration::from_secs(12);
/// Maximum time from the last fault to the end of all calls. The time is shorter than the timeout of a call,
/// so the test detects calls that do not end.
const SETTLING: Duration = Duration::from_secs(45);

/// Random numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below.max(1)
    }
}

fn fault(random: &mut Random) -> (&'static str, Faults) {
    let some = random.draw(3) + 1;
    match random.draw(13) {
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
                // The client reads the versions of a node again after an outage.
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
            "truncated responses",
            Faults {
                truncate: 15 * some,
                ..none
            },
        ),
        _ => (
            "dropped responses",
            Faults {
                swallow: 15 * some,
                ..none
            },
        ),
    }
}

/// Proxies in front of the nodes, each with its own faults.
struct Endpoints {
    /// Proxies, with the faults that apply outside of the time `STORM`.
    proxies: Vec<(Proxy, Faults)>,
    pipe: Option<TlsProxy>,
}

impl Endpoints {
    /// Creates one or two JSON-RPC proxies. Every second seed also has a faster gRPC proxy. Every third seed
    /// also has a proxy that only forwards bytes.
    async fn from_seed(seed: u64, net: &Devnet) -> Self {
        let (rpc, grpc) = (authority(&net.rpc_url()), authority(&net.grpc_url()));
        let asks_grpc = !seed.is_multiple_of(2);
        let usual = Faults {
            // The client queries the faster node.
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
            0 => Some(TlsProxy::start(&grpc, seed).await.unwrap()),
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

    fn grpc_requests(&self) -> u64 {
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

    /// Injects faults for the time `STORM`, then restores the usual faults. Returns the names of the faults.
    async fn storm(&self, seed: u64) -> Vec<&'static str> {
        let mut random = Random(seed);
        let mut names = Vec::new();
        let began = Instant::now();
        while began.elapsed() < STORM {
            for (proxy, _) in &self.proxies {
                let (name, faults) = fault(&mut random);
                names.push(name);
                proxy.set(faults);
                if random.draw(4) == 0 {
                    proxy.cut();
                }
            }
            if let Some(pipe) = &self.pipe {
                pipe.set(fault(&mut random).1);
            }
            tokio::time::sleep(Duration::from_millis(200 + random.draw(1500))).await;
            if random.draw(2) == 0 {
                self.calm();
                tokio::time::sleep(Duration::from_millis(random.draw(600))).await;
            }
        }
        self.calm();
        names
    }
}

/// Sends random transactions for the time `STORM`.
async fn life(seed: u64, chain: &MemoryChain, bidder: &Bidder) {
    let mut random = Random(seed ^ 0xabcd);
    let began = Instant::now();
    let mut dseq = 0;
    while began.elapsed() < STORM {
        for _ in 0..=random.draw(4) {
            dseq += 1;
            order(chain, dseq);
        }
        let bids: Vec<(BidId, BidState)> =
            chain.market(|market| market.bids().map(|bid| (bid.id.clone(), bid.state)).collect());
        let of = |state: BidState, random: &mut Random| {
            let some: Vec<&BidId> = bids
                .iter()
                .filter(|(_, s)| *s == state)
                .map(|(id, _)| id)
                .collect();
            let at = usize::try_from(random.draw(some.len() as u64)).unwrap();
            some.get(at).map(|id| (*id).clone())
        };
        // A refused transaction has no effect.
        if let Some(bid) = of(BidState::Open, &mut random) {
            drop(chain.tenant(TenantMsg::CreateLease { bid }));
        }
        if let Some(id) = of(BidState::Active, &mut random) {
            let msg = match random.draw(4) {
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
        tokio::time::sleep(Duration::from_millis(100 + random.draw(500))).await;
    }
}

/// Asserts that the client's snapshot has the bids and leases of the chain. Returns the number of bids.
async fn same_market(name: &str, bidder: &Bidder, chain: &MemoryChain) -> usize {
    // No further transactions, so any block is suitable.
    let mut snapshot = bidder.client.snapshot(&us()).await.unwrap();
    let mut there = chain.market(|market| market.snapshot(&us()));
    snapshot.bids.sort_by(|a, b| a.id.cmp(&b.id));
    there.bids.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(
        snapshot.bids, there.bids,
        "{name}: the bids equal those of the market"
    );
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
        leases(&snapshot),
        leases(&there),
        "{name}: the leases equal those of the market"
    );

    there.bids.len()
}

async fn seed(seed: u64) {
    let name = format!("CHAIN_SEED={seed}");
    let chain = chain();
    let net = devnet(&chain, Some(BLOCK)).await;
    let oracle = Oracle::for_chain(&chain);
    let ways = Endpoints::from_seed(seed, &net).await;
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
        all && bidder.record().under_way == 0
    };
    let began = Instant::now();
    while !settled(&bidder) {
        let status = bidder.client.status();
        assert!(
            began.elapsed() < SETTLING,
            "{name}: calls without an outcome: {:?}, {status:#?}",
            bidder.record().under_way
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let settled_in = began.elapsed();
    let goal = height(&chain) + 2;
    until(&format!("{name}: the follower is current"), || {
        bidder.last_height() >= goal
    })
    .await;

    let judged = judge::blocks(&name, &bidder, &oracle);
    let landed = landed(&net.rpc_url(), CHAIN, height(&chain)).await;
    judge::transactions(&name, &bidder, &landed);
    let bids = same_market(&name, &bidder, &chain).await;
    let status = bidder.client.status().reader.follower;
    println!(
        "{name}: {judged} blocks, {} fetched, {} resyncs, {bids} bids, calls {:?}, {} gRPC requests, settled in \
         {settled_in:?}, faults {faults:?}",
        status.fetched(),
        status.resyncs,
        bidder.tally(),
        ways.grpc_requests(),
    );
    stop.cancel();
    listening.abort();
    net.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_block_is_received_once_and_every_bid_sent_once_under_any_fault() {
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

//! Whether anything of a client piles up before a node that answers late: its process, beside the network's, is
//! watched from outside.

use super::{Scene, bid, client as start, create, figure, key, wait_for_block};
use akash_provider_core::chain::{ChainEvents, ChainQuery, ChainTx};
use akash_provider_core::types::ChainEvent;
use anyhow::{Context, ensure};
use fault_proxy::{Faults, Proxy};
use futures::StreamExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Tells the process that it is the client, and of which node.
pub(crate) const NODE: &str = "CHAIN_BENCH_NODE";

const BLOCK: Duration = Duration::from_millis(200);
/// Most by which an answer or a pushed block is late: several blocks.
const LATE: Duration = Duration::from_millis(1500);
/// Until connections, caches and the allocator have what they need.
const WARM_UP: Duration = Duration::from_secs(40);
const WATCHED: Duration = Duration::from_secs(60);
/// Bids that a provider has under way; more orders are let go, as one lets go that runs into its time limits.
const UNDER_WAY: usize = 64;
/// Looks at the memory, of which the middle one counts.
const LOOKS: usize = 9;

/// The client: it asks about every order and bids on it.
pub(crate) async fn client(node: String) -> anyhow::Result<()> {
    let us = key()?.address().clone();
    let client = start(node, &CancellationToken::new())?;
    let places = Arc::new(Semaphore::new(UNDER_WAY));
    let mut events = client.subscribe(&us);
    while let Some(event) = events.next().await {
        let (Ok(ChainEvent::OrderCreated { id }), Ok(place)) =
            (event, Arc::clone(&places).try_acquire_owned())
        else {
            continue;
        };
        let (client, us) = (client.clone(), us.clone());
        tokio::spawn(async move {
            // Whatever comes of it.
            drop(client.group(&id.group).await);
            drop(client.broadcast_msgs(vec![bid(&us, &id)]).await);
            drop(place);
        });
    }
    Ok(())
}

/// Ends with the bench, however that ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Process {
    fn rss_kib(&self) -> anyhow::Result<u32> {
        let path = format!("/proc/{}/status", self.0.id());
        let status = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.context("VmRSS")?.parse()?)
    }

    /// The middle of several looks: answers on their way come and go.
    async fn usual_rss_kib(&self) -> anyhow::Result<u32> {
        let mut looks = Vec::new();
        for _ in 0..LOOKS {
            looks.push(self.rss_kib()?);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        looks.sort_unstable();
        Ok(looks[LOOKS / 2])
    }
}

/// By how much it grows in a minute.
pub(crate) async fn growth() -> anyhow::Result<()> {
    if !std::path::Path::new("/proc/self/status").exists() {
        println!("skipped: the memory of a process is read from /proc, which is absent");
        return Ok(());
    }
    let scene = Scene::new(Some(BLOCK)).await?;
    let proxy = Proxy::start(scene.net.rpc_url().trim_start_matches("http://"), 1).await?;
    let process = Command::new(std::env::current_exe()?)
        .env(NODE, proxy.url())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let process = Process(process);
    // A tenant orders once a block, heard from the chain itself.
    let (chain, tenant) = (scene.chain.clone(), scene.tenant.clone());
    let mut blocks = chain.subscribe(&scene.us);
    let ordering = tokio::spawn(async move {
        for dseq in 1.. {
            wait_for_block(&mut blocks).await?;
            chain.tenant(create(&tenant, dseq).0)?;
        }
        anyhow::Ok(())
    });
    let until = Instant::now() + super::PATIENCE;
    while proxy.stats().broadcasts == 0 {
        ensure!(Instant::now() < until, "the client bids: {:?}", proxy.stats());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let late = u64::try_from(LATE.as_millis())?;
    proxy.set(Faults {
        delay_ms: late,
        ..Faults::default()
    });
    tokio::time::sleep(WARM_UP).await;
    let bids = || scene.chain.market(|market| market.bids().count());
    let (before, bids_before, asked_before) =
        (process.usual_rss_kib().await?, bids(), proxy.stats().questions);
    tokio::time::sleep(WATCHED).await;
    let (after, bids_after, asked_after) = (process.usual_rss_kib().await?, bids(), proxy.stats().questions);
    ensure!(!ordering.is_finished(), "tenants order to the end");
    // A client that hangs does not grow either.
    ensure!(
        bids_after >= bids_before + 50 && asked_after >= asked_before + 50,
        "the client works: {bids_before} bids, then {bids_after}; {asked_before} questions, then {asked_after}"
    );
    figure(
        "chain_slow_endpoint_growth_kib",
        f64::from(after) - f64::from(before),
        "KiB/min",
    );
    figure("chain_slow_endpoint_rss_kib", f64::from(after), "KiB");
    ordering.abort();
    drop(process);
    scene.end().await;
    Ok(())
}

//! Whether anything of a client piles up before a node that answers late: its process, beside the network's, is
//! watched from outside.

use super::{Scene, bid, client as start, create, figure, key, wait_for_block};
use akash_provider_core::chain::{ChainEvents, ChainQuery, ChainTx};
use akash_provider_core::types::ChainEvent;
use anyhow::{Context, ensure};
use fault_proxy::{Faults, Proxy};
use futures::StreamExt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Tells the process that it is the client, and of which node.
pub(crate) const NODE: &str = "CHAIN_BENCH_NODE";

const BLOCK: Duration = Duration::from_millis(200);
/// Most by which an answer or a pushed block is late: several blocks.
const LATE: Duration = Duration::from_millis(1500);
const MINUTE: Duration = if cfg!(debug_assertions) {
    Duration::from_secs(2)
} else {
    Duration::from_secs(60)
};
/// The first is for connections and caches to get what they need; what is there after it is compared with the end.
const MINUTES: u32 = if cfg!(debug_assertions) { 2 } else { 4 };
/// How many instead, for who wants to see more of them.
const MINUTES_SETTING: &str = "CHAIN_BENCH_MINUTES";
/// Bids that a provider has under way; more orders are let go, as one lets go that runs into its time limits.
const UNDER_WAY: usize = 64;
/// Bids in a minute of a client that goes on.
const BIDS_MIN: usize = if cfg!(debug_assertions) { 1 } else { 50 };
/// Looks at the memory, of which the middle one counts.
const LOOKS: usize = if cfg!(debug_assertions) { 3 } else { 21 };
const TOLD_EVERY: Duration = Duration::from_millis(250);

/// The client: it asks about every order and bids on it.
pub(crate) async fn client(node: String) -> anyhow::Result<()> {
    let us = key()?.address().clone();
    let client = start(node, &CancellationToken::new())?;
    tokio::spawn(tell());
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

/// Says how much it holds, in bytes, a line each time.
async fn tell() {
    let mut out = std::io::stdout();
    loop {
        let allocated = super::ALLOCATED.stats();
        let live = allocated.bytes_allocated - allocated.bytes_deallocated;
        // Nobody reads any more: the bench is over.
        if writeln!(out, "{live}").and_then(|()| out.flush()).is_err() {
            return;
        }
        tokio::time::sleep(TOLD_EVERY).await;
    }
}

/// Ends with the bench, however that ends.
struct Process {
    child: Child,
    live: Arc<AtomicU64>,
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What a process holds, in KiB.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Allocated and not freed.
    live: f64,
    /// What the system counts.
    rss: f64,
}

impl Process {
    fn start(node: String) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(NODE, node)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().context("its output")?;
        let live = Arc::<AtomicU64>::default();
        let heard = Arc::clone(&live);
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if let Ok(bytes) = line.parse() {
                    heard.store(bytes, Ordering::Relaxed);
                }
            }
        });
        Ok(Self { child, live })
    }

    #[expect(clippy::cast_precision_loss, reason = "less than 2^52 bytes")]
    fn size(&self) -> anyhow::Result<Size> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(Size {
            live: self.live.load(Ordering::Relaxed) as f64 / 1024.0,
            rss: number.context("VmRSS")?.parse()?,
        })
    }

    /// The middle of several looks: answers on their way come and go.
    async fn usual_size(&self) -> anyhow::Result<Size> {
        let mut looks = Vec::new();
        for _ in 0..LOOKS {
            looks.push(self.size()?);
            tokio::time::sleep(TOLD_EVERY).await;
        }
        let middle = |of: fn(&Size) -> f64| {
            let mut all: Vec<f64> = looks.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[LOOKS / 2]
        };
        Ok(Size {
            live: middle(|size| size.live),
            rss: middle(|size| size.rss),
        })
    }
}

/// By how much it grows after its first minute.
pub(crate) async fn growth() -> anyhow::Result<()> {
    if !std::path::Path::new("/proc/self/status").exists() {
        println!("skipped: the memory of a process is read from /proc, which is absent");
        return Ok(());
    }
    let scene = Scene::new(Some(BLOCK)).await?;
    let proxy = Proxy::start(scene.net.rpc_url().trim_start_matches("http://"), 1).await?;
    let process = Process::start(proxy.url())?;
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
    let minutes = std::env::var(MINUTES_SETTING).map_or(Ok(MINUTES), |text| text.parse())?;
    let mut sizes = Vec::new();
    let mut bids_before = 0;
    let began = Instant::now();
    for minute in 1..=minutes {
        let end = MINUTE * minute;
        tokio::time::sleep(end.saturating_sub(began.elapsed())).await;
        let size = process.usual_size().await?;
        let bids = scene.chain.market(|market| market.bids().count());
        eprintln!(
            "after {minute} min: {:.0} KiB allocated, {:.0} KiB resident, {bids} bids, {:?}",
            size.live,
            size.rss,
            proxy.stats()
        );
        ensure!(!ordering.is_finished(), "tenants order to the end");
        // A client that hangs does not grow either.
        ensure!(
            bids >= bids_before + BIDS_MIN,
            "the client bids: {bids_before}, a minute later {bids}"
        );
        bids_before = bids;
        sizes.push(size);
    }
    let (Some(first), Some(last)) = (sizes.first(), sizes.last()) else {
        return Ok(());
    };
    figure("chain_slow_endpoint_growth_kib", last.live - first.live, "KiB");
    figure("chain_slow_endpoint_live_kib", last.live, "KiB");
    figure("chain_slow_endpoint_rss_kib", last.rss, "KiB");
    ordering.abort();
    drop(process);
    scene.end().await;
    Ok(())
}

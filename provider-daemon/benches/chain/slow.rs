//! Memory of a client with a node that responds late. The client runs in a separate process, and this process
//! measures its memory.

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

/// Environment variable with the URL of the node, set in the process of the client.
pub(crate) const NODE: &str = "CHAIN_BENCH_NODE";

const BLOCK: Duration = Duration::from_millis(200);
/// Maximum delay of a response or a pushed block.
const LATE: Duration = Duration::from_millis(1500);
const MINUTE: Duration = if cfg!(debug_assertions) {
    Duration::from_secs(2)
} else {
    Duration::from_secs(60)
};
/// Duration of the measurement, in minutes. The growth in the first minute is not counted, because the client
/// opens connections and fills caches in this minute.
const MINUTES: u32 = if cfg!(debug_assertions) { 2 } else { 4 };
const MINUTES_SETTING: &str = "CHAIN_BENCH_MINUTES";
/// Maximum number of bids in flight. Above this number, the client ignores orders, like an overloaded
/// provider.
const UNDER_WAY: usize = 64;
/// Minimum number of bids per minute for a valid measurement.
const BIDS_MIN: usize = if cfg!(debug_assertions) { 1 } else { 50 };
/// Number of memory measurements. The result is their median.
const LOOKS: usize = if cfg!(debug_assertions) { 3 } else { 21 };
const TOLD_EVERY: Duration = Duration::from_millis(250);

/// Runs the client, which queries the group of every order and bids on the order.
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
            // Failures are ignored.
            drop(client.group(&id.group).await);
            drop(client.broadcast_msgs(vec![bid(&us, &id)]).await);
            drop(place);
        });
    }
    Ok(())
}

/// Prints the number of allocated bytes periodically, one per line.
async fn tell() {
    let mut out = std::io::stdout();
    loop {
        let allocated = super::ALLOCATED.stats();
        let live = allocated.bytes_allocated - allocated.bytes_deallocated;
        // The reader closed the pipe, so the benchmark is over.
        if writeln!(out, "{live}").and_then(|()| out.flush()).is_err() {
            return;
        }
        tokio::time::sleep(TOLD_EVERY).await;
    }
}

/// Client process, killed on drop.
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

/// Memory of a process, in KiB.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Memory that was allocated and not freed.
    live: f64,
    /// Resident memory.
    rss: f64,
}

impl Process {
    fn start(node: String) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(NODE, node)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().context("the client process has no stdout")?;
        let live = Arc::<AtomicU64>::default();
        let received_bytes = Arc::clone(&live);
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if let Ok(bytes) = line.parse() {
                    received_bytes.store(bytes, Ordering::Relaxed);
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
            rss: number.context("/proc status has no VmRSS")?.parse()?,
        })
    }

    /// Returns the median of several measurements, because responses in flight change the size.
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

/// Measures the memory growth of the client after the first minute.
pub(crate) async fn growth() -> anyhow::Result<()> {
    if !std::path::Path::new("/proc/self/status").exists() {
        println!("skipped: this system has no /proc, from which the memory of a process is read");
        return Ok(());
    }
    let scene = Scene::new(Some(BLOCK)).await?;
    let proxy = Proxy::start(scene.net.rpc_url().trim_start_matches("http://"), 1).await?;
    let process = Process::start(proxy.url())?;
    // A tenant creates one order per block. It receives the blocks directly from the chain.
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
        ensure!(
            Instant::now() < until,
            "the client has sent no bid in time: {:?}",
            proxy.stats()
        );
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
        ensure!(!ordering.is_finished(), "the task of the tenant ended too early");
        // The memory of a client that hangs does not grow either, so the bids are checked.
        ensure!(
            bids >= bids_before + BIDS_MIN,
            "the client bids too slowly: {bids_before} bids, a minute later {bids}"
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

//! Throughput, latency and memory of the gateway. Figures go to standard output, one JSON object per line.
//!
//! `cargo bench -p akash-provider-gateway --bench gateway [-- NAME…]`
//!
//! ```text
//!  this process: the load           the same program again, with `serve`: the daemon
//!  connections, requests    ──TLS 1.3──►  gateway ─► provider ─► cluster and chain in memory, 68 leases
//!  counts its own CPU       ◄─ /proc ──  its CPU and its memory
//! ```
//! Each figure has a new daemon process.

#[path = "../src/tests/any_certificate.rs"]
mod any_certificate;
#[path = "gateway/cluster.rs"]
mod cluster;
#[path = "gateway/daemon.rs"]
mod daemon;
#[path = "gateway/idle.rs"]
mod idle;
#[path = "gateway/load.rs"]
mod load;
#[path = "gateway/logs.rs"]
mod logs;
#[path = "gateway/requests.rs"]
mod requests;
#[path = "gateway/serve.rs"]
mod serve;
#[path = "gateway/storm.rs"]
mod storm;

use std::future::Future;

/// Argument that starts this program as the daemon.
const SERVE: &str = "serve";
/// Number of tenants, each with one deployment and one lease.
const TENANTS: u8 = 68;
const DSEQ: u64 = 1;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    more_files()?;
    if words.iter().any(|word| word == SERVE) {
        return serve::run();
    }
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let measure = |name, measured: &mut dyn FnMut() -> anyhow::Result<()>| {
        if is_wanted(name) { measured() } else { Ok(()) }
    };
    measure("status", &mut || on(&runtime, requests::status()))?;
    measure("lease", &mut || on(&runtime, requests::lease_status()))?;
    measure("memory", &mut || on(&runtime, requests::memory()))?;
    measure("logs", &mut || on(&runtime, logs::one_stream()))?;
    measure("idle", &mut || on(&runtime, idle::websockets()))?;
    // The tenant that is measured has a thread of its own.
    measure("storm", &mut storm::strangers)
}

fn on(
    runtime: &tokio::runtime::Runtime,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    runtime.block_on(work)
}

fn figure(name: &str, value: f64, unit: &str) {
    println!(r#"{{"name":"{name}","value":{value},"unit":"{unit}"}}"#);
}

/// Raises the limit of open files for ten thousand websockets.
fn more_files() -> anyhow::Result<()> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    Ok(())
}

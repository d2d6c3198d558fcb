//! Benchmark of the operators on a large cluster. Prints one JSON object per line: `{"name", "value",
//! "unit"}`.
//!
//! Each operator is the release build in its own process, with the ServiceAccount and the rights of
//! `deploy/operators`. The API server counts the requests of the ServiceAccount. The cluster is deleted
//! afterwards. Its controllers are paused, so that nodes without a kubelet are not treated as lost.
//!
//! The benchmark is a binary and not a Cargo bench. Cargo builds benches with the dependencies of tests, so
//! that everything would be built twice.

mod addresses;
#[path = "../../../akash-provider-k8s/benches/support/counted.rs"]
mod counted;
mod hostnames;
mod inventory;
#[path = "../../../akash-provider-k8s/benches/support/lease.rs"]
mod lease;
#[path = "../../../akash-provider-k8s/benches/support/load.rs"]
mod load;
mod program;

use clap::Parser;
use counted::{Account, Server};
use program::MeasuredProcess;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::sleep;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Folder with the manifests that every cluster needs.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
const CRDS: [&str; 3] = [
    "crds/manifests.yaml",
    "crds/providerhosts.yaml",
    "crds/providerleasedips.yaml",
];
const RIGHTS: [&str; 3] = [
    "operators/hostname.yaml",
    "operators/ip.yaml",
    "operators/inventory.yaml",
];
/// Namespace of the Manifest, ProviderHost and ProviderLeasedIP objects.
const RECORDS: &str = "lease";
/// Duration for which idle operators are measured.
const REST: Duration = Duration::from_secs(pick(1, 120));

/// Returns `small` in debug builds, and `large` in release builds.
pub(crate) const fn pick<T: Copy>(small: T, large: T) -> T {
    if cfg!(debug_assertions) { small } else { large }
}

/// Measures the operators on a cluster that is deleted afterwards
#[derive(Debug, Parser)]
struct Args {
    /// Kubeconfig of the cluster
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Path of the program whose operators are measured
    #[arg(long)]
    program: PathBuf,
    /// Folder for temporary files
    #[arg(long)]
    scratch: PathBuf,
    /// Parts to measure [default: all]
    #[arg(value_parser = ["hostname", "ip", "inventory", "rest"])]
    parts: Vec<String>,
}

/// Benchmark arguments, and the API server of the operators.
struct Bench {
    args: Args,
    server: Server,
}

/// Operator to measure, with its ServiceAccount and flags.
struct MeasuredOperator<'a> {
    bench: &'a Bench,
    name: &'static str,
    account: Account,
    flags: Vec<String>,
}

fn main() -> Result<(), Failed> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(measure(args))
}

async fn measure(args: Args) -> Result<(), Failed> {
    let server = Server::open(&args.kubeconfig, &CRDS).await?;
    for name in [RECORDS, "akash-services"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.put(&namespace).await?;
    }
    server.apply(&RIGHTS).await?;
    let bench = Bench { args, server };
    let mut running: Vec<(MeasuredOperator<'_>, MeasuredProcess)> = Vec::new();
    if bench.is_wanted("hostname") {
        running.push(hostnames::measure(&bench).await?);
    }
    if bench.is_wanted("ip") {
        running.push(addresses::measure(&bench).await?);
    }
    if bench.is_wanted("inventory") {
        running.push(inventory::measure(&bench).await?);
    }
    if bench.is_wanted("rest") {
        rest(&running).await?;
    }
    for (_, program) in running {
        program.stop().await?;
    }
    Ok(())
}

/// For each idle operator, prints the requests per minute and the CPU time per minute. Lease renewals and
/// watch restarts are not counted.
async fn rest(running: &[(MeasuredOperator<'_>, MeasuredProcess)]) -> Result<(), Failed> {
    // Wait until the work of the last part is done.
    sleep(Duration::from_secs(pick(1, 10))).await;
    let mut before = Vec::new();
    for (operator, program) in running {
        before.push((operator.account.calls().await?, program.cpu()?));
    }
    sleep(REST).await;
    let minutes = REST.as_secs_f64() / 60.0;
    for ((operator, program), (calls, cpu)) in running.iter().zip(before) {
        let calls = operator.account.since(calls).await?;
        let name = format!("{}_idle_calls_per_min", operator.name);
        print(&name, (calls.writes + calls.reads) / minutes, "calls");
        let used = (program.cpu()? - cpu).as_secs_f64() * 1e3 / minutes;
        print(&format!("{}_idle_cpu_ms_per_min", operator.name), used, "ms");
        eprintln!(
            "{} for {REST:?}: {calls:?}, {} in all; {:.1} MiB",
            operator.name,
            calls.all(),
            program.memory()?.now
        );
    }
    Ok(())
}

impl Bench {
    fn is_wanted(&self, part: &str) -> bool {
        self.args.parts.is_empty() || self.args.parts.iter().any(|named| named == part)
    }

    async fn operator(
        &self,
        name: &'static str,
        namespace: &str,
        flags: &[&str],
    ) -> Result<MeasuredOperator<'_>, Failed> {
        let account = format!("akash-operator-{name}");
        let account = self.server.account(namespace, &account).await?;
        Ok(MeasuredOperator {
            bench: self,
            name,
            account,
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        })
    }
}

impl MeasuredOperator<'_> {
    async fn start(&self, more: &[&str]) -> Result<MeasuredProcess, Failed> {
        let kubeconfig = self.bench.args.scratch.join(format!("{}.kubeconfig", self.name));
        std::fs::write(&kubeconfig, self.account.kubeconfig.to_string())?;
        let flags = self.flags.iter().map(String::as_str).chain(more.iter().copied());
        MeasuredProcess::start(&self.bench.args.program, self.name, &kubeconfig, flags).await
    }
}

fn print(name: &str, value: f64, unit: &str) {
    println!("{}", json!({"name": name, "value": value, "unit": unit}));
}

fn percentile(samples: &mut [f64], percent: usize) -> f64 {
    samples.sort_by(f64::total_cmp);
    let at = (samples.len() * percent / 100).min(samples.len().saturating_sub(1));
    samples.get(at).copied().unwrap_or(f64::NAN)
}

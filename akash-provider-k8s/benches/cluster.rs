//! Benchmark of leases on a real API server with its controllers. Prints one JSON object per line, `{"name",
//! "value", "unit"}`. `--kubeconfig FILE` selects a disposable cluster, which needs no nodes. Without this
//! option, the benchmark uses the cluster of the tests in `tests/api_tier`. The test stage of these tests
//! also runs this benchmark, with fewer leases and in a build without optimization.
//!
//! The ServiceAccount of the provider has the rights of `deploy/rbac`. The API server counts the calls of this
//! ServiceAccount.

#[path = "cluster/adopt.rs"]
mod adopt;
#[path = "support/counted.rs"]
mod counted;
#[path = "cluster/deploy.rs"]
mod deploy;
#[path = "support/lease.rs"]
mod lease;

use counted::{Account, Server};
use serde_json::json;
use std::path::PathBuf;
use testbed::{ClusterLock, Testbed, Tier};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Folder with the objects that every cluster needs.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");
const FILES: [&str; 6] = [
    "crds/manifests.yaml",
    "crds/providerhosts.yaml",
    "crds/providerleasedips.yaml",
    "rbac/lease.yaml",
    "rbac/provider.yaml",
    "rbac/confined.yaml",
];

struct Bench {
    server: Server,
    provider: Account,
}

/// Returns `small` in the test build without optimization, and `large` in the benchmark.
const fn pick<T: Copy>(small: T, large: T) -> T {
    if cfg!(debug_assertions) { small } else { large }
}

/// Cluster of the tests in `tests/api_tier`. On drop, the objects of all leases are deleted.
struct Borrowed {
    cluster: Testbed,
    _hold: ClusterLock,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let leases = [
            "delete",
            "namespaces",
            "--selector=akash.network=true",
            "--wait=false",
        ];
        let records = ["delete", "manifests.akash.network", "--namespace=lease", "--all"];
        for arguments in [leases, records] {
            drop(self.cluster.kubectl(&arguments));
        }
    }
}

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip_while(|a| a != "--kubeconfig").skip(1);
    let named = arguments.next().map(PathBuf::from);
    let borrowed = match named {
        Some(_) => None,
        None => {
            Testbed::exclusive_from_env(Tier::Api)?.map(|(cluster, hold)| Borrowed { cluster, _hold: hold })
        }
    };
    let Some(file) = named.or_else(|| Some(borrowed.as_ref()?.cluster.kubeconfig())) else {
        return Ok(());
    };
    if std::env::var_os("RUST_LOG").is_some() {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .init();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let server = Server::open(&file, &FILES).await?;
        let provider = server.account("lease", "akash-provider").await?;
        let bench = Bench { server, provider };
        deploy::measure(&bench).await?;
        adopt::measure(&bench).await
    })
}

fn print(name: &str, value: f64, unit: &str) {
    println!("{}", json!({"name": name, "value": value, "unit": unit}));
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

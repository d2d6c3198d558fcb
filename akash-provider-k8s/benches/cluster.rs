//! Leases on a real API server with its controllers, as figures: one JSON object a line, `{"name", "value",
//! "unit"}`. `--kubeconfig FILE` names a cluster of the api tier that is thrown away afterwards; without it nothing
//! is measured, and that is said.
//!
//! The provider's account has the rights of `deploy/rbac`. Its calls are counted by the API server.

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
use std::path::Path;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Where the objects are that every cluster needs.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");
const FILES: [&str; 6] = [
    "crds/manifests.yaml",
    "crds/providerhosts.yaml",
    "crds/providerleasedips.yaml",
    "rbac/lease.yaml",
    "rbac/provider.yaml",
    "rbac/confined.yaml",
];

/// An API server, and the provider's account.
struct Bench {
    server: Server,
    provider: Account,
}

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip_while(|a| a != "--kubeconfig").skip(1);
    let Some(file) = arguments.next() else {
        println!("skipped: --kubeconfig names no cluster to measure on");
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
        let server = Server::open(Path::new(&file), &FILES).await?;
        let provider = server.account("lease", "akash-provider").await?;
        let bench = Bench { server, provider };
        deploy::measure(&bench).await?;
        adopt::measure(&bench).await
    })
}

/// Prints a figure.
fn print(name: &str, value: f64, unit: &str) {
    println!("{}", json!({"name": name, "value": value, "unit": unit}));
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

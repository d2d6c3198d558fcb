//! Leases on a real API server with its controllers, as figures: one JSON object a line, `{"name", "value",
//! "unit"}`. `--kubeconfig FILE` names a cluster of the api tier that is thrown away afterwards; without it nothing
//! is measured, and that is said.
//!
//! The provider's account has the rights of `deploy/rbac`. Calls are counted by the API server: two flow schemas
//! are for that account alone, one for writes and one for reads, and the server's metrics say how many requests it
//! dispatched for each. Nothing else on the cluster counts there.

#[path = "cluster/adopt.rs"]
mod adopt;
#[path = "cluster/deploy.rs"]
mod deploy;
#[path = "cluster/server.rs"]
mod server;

use serde_json::json;
use server::Server;
use std::path::Path;
use std::time::Duration;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The API server counts in its own time.
const SETTLE: Duration = Duration::from_secs(2);

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
        let server = Server::open(Path::new(&file)).await?;
        deploy::measure(&server).await?;
        adopt::measure(&server).await
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

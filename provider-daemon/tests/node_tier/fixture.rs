//! Cluster and market of a test.

use crate::network::CHAIN;
use akash_provider_cli::flags::Output;
use akash_provider_core::types::{BidState, CloseReason};
use akash_provider_dev::World;
use akash_provider_dev::args::DevArgs;
use akash_provider_service::backend::remove_leftovers;
use akash_provider_service::printer::Printer;
use clap::Parser;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use provider_daemon::args::{Cli, Command};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testbed::{ClusterLock, Testbed, Tier};
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

/// Returns the maximum wait for a condition, with time to recover from an outage.
pub(crate) fn wait_limit() -> Duration {
    Duration::from_secs(90) + outage() * 2
}

/// Object kinds with a chain ID annotation, in deletion order.
const CHAIN_KINDS: [&str; 4] = [
    "namespaces",
    "providerhosts.akash.network",
    "providerleasedips.akash.network",
    "manifests.akash.network",
];
const LABELLED: [&str; 3] = ["get", "namespaces", "--selector=akash.network=true"];

/// Cluster to which no other test has access.
pub(crate) struct Stage {
    pub(crate) testbed: Testbed,
    _alone: ClusterLock,
}

/// Embedded market of `dev`, and a provider with leases on the test cluster.
pub(crate) struct MarketFixture {
    pub(crate) testbed: Testbed,
    pub(crate) world: Arc<World>,
    shutdown: CancellationToken,
    _alone: ClusterLock,
}

/// Returns the number in the environment variable `name`, or `small` if the variable is not set.
pub(crate) fn number(name: &str, small: u64) -> u64 {
    std::env::var(name).map_or(small, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number"))
    })
}

pub(crate) fn outage() -> Duration {
    Duration::from_secs(number("K8S_OUTAGE_S", 10))
}

impl Stage {
    /// Takes exclusive access to a cluster and deletes its leases; `None` without a cluster.
    pub(crate) fn take() -> Option<Self> {
        let (testbed, alone) = Testbed::exclusive_from_env(Tier::Node).unwrap()?;
        let stage = Self {
            testbed,
            _alone: alone,
        };
        let class = "akash.network/capabilities.storage.class.beta2=1";
        stage
            .testbed
            .kubectl(&["label", "node", "--all", "--overwrite", class])
            .unwrap();
        stage.clear();
        Some(stage)
    }

    /// Returns the namespaces with the label `akash.network=true`.
    pub(crate) fn labelled(&self) -> String {
        let names = ["--output", "jsonpath={.items[*].metadata.name}"];
        self.testbed.kubectl(&[&LABELLED[..], &names].concat()).unwrap()
    }

    /// Deletes the lease objects of earlier tests, and waits until the node accepts pods.
    fn clear(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let embedded = self
            .chains()
            .into_iter()
            .filter(|chain| chain.starts_with("dev-"));
        for chain in embedded {
            let args = self.args(&[]);
            let kubeconfig = self.testbed.kubeconfig();
            let removed = remove_leftovers(&kubeconfig, &args.kubernetes, &chain);
            runtime.block_on(removed).unwrap();
        }
        self.clear_chain(CHAIN);
        until("the cluster has no leases of other chains", || {
            self.labelled().is_empty()
        });
        // After an outage of the API server the node counts as unreachable for a while.
        let taints = ["get", "nodes", "--output", "jsonpath={.items[*].spec.taints}"];
        until("the node accepts pods", || {
            self.testbed.kubectl(&taints).unwrap().trim().is_empty()
        });
    }

    fn chains(&self) -> BTreeSet<String> {
        let path = "jsonpath={range .items[*]}{.metadata.annotations.provider\\.akash\\.network/chain-id}{\"\\n\"}{end}";
        let chains = self
            .testbed
            .kubectl(&[&LABELLED[..], &["--output", path]].concat());
        chains.unwrap().lines().map(str::to_owned).collect()
    }

    fn clear_chain(&self, chain: &str) {
        let path = format!(
            "jsonpath={{.items[?(@.metadata.annotations.provider\\.akash\\.network/chain-id==\"{chain}\")].metadata.name}}"
        );
        for kind in CHAIN_KINDS {
            let place = ["--namespace=lease", "--selector=akash.network=true"];
            let listed = [&["get", kind, "--output", &path][..], &place].concat();
            let names = self.testbed.kubectl(&listed).unwrap();
            let names: Vec<&str> = names.split_whitespace().collect();
            if !names.is_empty() {
                let delete = [
                    "delete",
                    kind,
                    "--namespace=lease",
                    "--wait=false",
                    "--ignore-not-found",
                ];
                self.testbed.kubectl(&[&delete[..], &names].concat()).unwrap();
            }
        }
    }

    pub(crate) fn args(&self, more: &[&str]) -> DevArgs {
        let kubeconfig = self.testbed.kubeconfig();
        let fixed = [
            "provider-daemon",
            "dev",
            "--accept-any",
            "--block-time=200ms",
            "--storage-class=beta2=1Gi",
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
        ];
        match Cli::parse_from(fixed.iter().chain(more)).command {
            Command::Dev(args) => *args,
            other => panic!("{other:?}"),
        }
    }
}

/// Runs a test with a provider that offers the resources of the SDLs. Then asserts that no lease object
/// remains, and that the provider closed no lease.
pub(crate) fn run(sdls: &[&str], test: impl for<'a> FnOnce(&'a MarketFixture) -> BoxFuture<'a, ()>) {
    run_with(&[], sdls, test);
}

pub(crate) fn run_with(
    flags: &[&str],
    sdls: &[&str],
    test: impl for<'a> FnOnce(&'a MarketFixture) -> BoxFuture<'a, ()>,
) {
    let Some(stage) = Stage::take() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let fixture = MarketFixture::open(stage, flags, sdls).await;
        let outcome = AssertUnwindSafe(test(&fixture)).catch_unwind().await;
        match outcome {
            Ok(()) => fixture.close().await,
            Err(panic) => {
                fixture.shutdown.cancel();
                resume_unwind(panic)
            }
        }
    });
}

impl MarketFixture {
    async fn open(stage: Stage, flags: &[&str], sdls: &[&str]) -> Self {
        let args = stage.args(flags);
        let sdls: Vec<_> = sdls
            .iter()
            .map(|text| (String::new(), akash_provider_core::sdl::parse(text).unwrap()))
            .collect();
        let printer = Arc::new(Printer::new(Output::Text));
        let shutdown = CancellationToken::new();
        let abort = CancellationToken::new();
        let world = World::start(&args, &sdls, &printer, shutdown.clone(), abort).await;
        Self {
            world: Arc::new(world.unwrap()),
            testbed: stage.testbed,
            shutdown,
            _alone: stage._alone,
        }
    }

    async fn close(self) {
        let began = Instant::now();
        let mut left = self.world.leftovers().await;
        while !left.is_empty() && began.elapsed() < wait_limit() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            left = self.world.leftovers().await;
        }
        assert_eq!(left, Vec::<String>::new());
        self.world.chain.market(|market| closed_by_tenants(market));
        self.shutdown.cancel();
        let world = Arc::try_unwrap(self.world).unwrap();
        world.stop().await.unwrap();
    }

    /// Returns inventory and placements as text, for an exact comparison.
    pub(crate) async fn capacity(&self) -> String {
        let first = self.world.inventory().watch().next().await;
        let update = first.unwrap().unwrap();
        format!("{:?} {:?}", update.inventory, update.placements)
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        block_in_place(|| self.testbed.kubectl(args)).unwrap()
    }
}

#[test]
fn leftovers_of_a_killed_test_are_deleted() {
    let Some(stage) = Stage::take() else { return };
    let left = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": "left-behind", "labels": {"akash.network": "true"},
            "annotations": {"provider.akash.network/chain-id": CHAIN},
        },
    });
    let applied = stage
        .testbed
        .kubectl_input(&["apply", "--filename", "-"], &left.to_string());
    applied.unwrap();
    assert_eq!(stage.labelled(), "left-behind");
    stage.clear();
    assert_eq!(stage.labelled(), "");
}

/// Asserts that only tenants closed leases, and that every closed bid has a lease.
pub(crate) fn closed_by_tenants(market: &akash_provider_core::market::Market) {
    let mut leases = 0;
    for record in market.leases() {
        let reason = record.lease.reason;
        assert!(
            matches!(reason, None | Some(CloseReason::Owner)),
            "{}: {reason:?}",
            record.lease.id
        );
        leases += 1;
    }
    let unsold = |id| !market.leases().any(|l| l.lease.id == id);
    let closed = market.bids().filter(|b| b.state == BidState::Closed);
    let ours: Vec<_> = closed.filter(|b| unsold(b.id.clone())).map(|b| &b.id).collect();
    assert!(ours.is_empty(), "the provider closed these bids: {ours:?}");
    println!("{leases} lease(s), closed by the provider: 0, closed bids: 0");
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(
            began.elapsed() < wait_limit(),
            "condition not reached in time: {what}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits for an asynchronous condition.
pub(crate) async fn eventually<F>(what: &str, mut is_so: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let began = Instant::now();
    while !is_so().await {
        assert!(
            began.elapsed() < wait_limit(),
            "condition not reached in time: {what}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) fn get(address: &str, port: u16) -> std::io::Result<String> {
    let to: SocketAddr = format!("{address}:{port}").parse().unwrap();
    let limit = Duration::from_secs(3);
    let mut stream = TcpStream::connect_timeout(&to, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    if head.starts_with("HTTP/1.0 200") || head.starts_with("HTTP/1.1 200") {
        return Ok(body.trim().to_owned());
    }
    Err(std::io::Error::other(head.to_owned()))
}

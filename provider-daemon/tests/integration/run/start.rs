//! A start with an unusable node or cluster: the provider serves what it can, places no bid, reports which
//! part it waits for, and recovers automatically.

use crate::http::curl;
use crate::run::tenant::url;
use crate::stage::{ADDRESS, Running, Stage, until};
use fault_proxy::Faults;
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Maximum number of blocks until a healthy provider has sent its bid.
const BLOCKS: u64 = 8;
/// Maximum time until the status reports an unresponsive node. A connection fails after 12 s, and an outage
/// starts 2 s later.
const NOTICED: Duration = Duration::from_secs(22);

fn certified(stage: &Stage) {
    let (code, _, err) = stage.ran(&["tx", "cert", "generate", "server", "localhost"]);
    assert_eq!(code, 0, "{err}");
}

fn start(stage: &Stage, more: &[&str]) -> Running {
    let gateway = ["--gateway-listen-address=127.0.0.1:0", "--output=json"];
    stage.provider("provider", &[&gateway[..], more].concat())
}

fn is_served_and_not_bidding(stage: &Stage, provider: &Running, dseq: u64) {
    if let Some((status, body)) = curl(&[&format!("{}/status", url(provider))]) {
        assert!(status == 200 && body.contains(ADDRESS), "{status} {body}");
    }
    let id = stage.order(dseq);
    let height = || stage.chain.market(|market| market.height());
    let before = height();
    until("some blocks", || provider.dump(), || height() > before + BLOCKS);
    assert!(stage.bids(&id).is_empty(), "{}", provider.dump());
    assert!(
        !provider.output().contains("\"is_ready\":true"),
        "{}",
        provider.dump()
    );
}

#[test]
fn unusable_node_at_start_is_reported_and_awaited() {
    let none = Faults::default();
    let troubles = [
        (
            Faults {
                refused: true,
                ..none
            },
            "responded with HTTP status 502",
        ),
        (
            Faults {
                catching_up: true,
                ..none
            },
            "is catching up at height",
        ),
        (
            Faults {
                other_versions: true,
                ..none
            },
            "offers the versions v9",
        ),
        (Faults { frozen: true, ..none }, "no response within"),
    ];
    for (dseq, (faults, message)) in (1..).zip(troubles) {
        let mut stage = Stage::new(&format!("start-{dseq}"), true);
        stage.start_node(FAST);
        certified(&stage);
        let proxy = stage.proxy();
        proxy.set(faults);
        let mut provider = start(&stage, &["--node", &proxy.url()]);
        provider.says(message);
        is_served_and_not_bidding(&stage, &provider, dseq);
        proxy.set(none);
        provider.says("\"is_ready\":true");
        let bids = || stage.chain.market(|market| market.bids().count());
        until(
            "the pending order gets its bid",
            || provider.dump(),
            || bids() == 1,
        );
        provider.signal(Signal::SIGTERM);
        assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
    }
}

/// The cluster is unavailable for the whole test.
#[test]
fn provider_without_cluster_serves_and_waits() {
    let mut stage = Stage::new("start-cluster", true);
    stage.start_node(FAST);
    certified(&stage);
    let kubeconfig = stage.path("kubeconfig");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: k\n  cluster:\n    server: \
                http://127.0.0.1:1\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\nusers:\n- name: u\n  \
                user: {}\n";
    std::fs::write(&kubeconfig, text).unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let mut provider = start(&stage, &["--cluster-k8s", "--kubeconfig", kubeconfig]);
    provider.says("the cluster: cannot read the addresses of nodes and API servers");
    is_served_and_not_bidding(&stage, &provider, 1);
    assert!(
        !provider.output().contains("the inventory of the cluster"),
        "the awaited cluster is reported twice: {}",
        provider.output()
    );
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
}

#[test]
fn silent_node_is_reported_soon_with_its_duration() {
    let mut stage = Stage::new("silent", true);
    stage.start_node(FAST);
    let proxy = stage.proxy();
    let provider = stage.provider("provider", &["--node", &proxy.url()]);
    provider.says("ready: bidding");
    let began = Instant::now();
    proxy.set(Faults {
        frozen: true,
        ..Faults::default()
    });
    provider.says("(since 20");
    assert!(
        began.elapsed() < NOTICED,
        "{:?}: {}",
        began.elapsed(),
        provider.dump()
    );
    proxy.set(Faults::default());
    let is_ready = || provider.output().matches("ready: bidding").count() >= 2;
    until("the provider recovers", || provider.dump(), is_ready);
    let id = stage.order(1);
    stage.bid(&id, &provider);
}

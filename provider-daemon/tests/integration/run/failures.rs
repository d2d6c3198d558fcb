//! A provider with an unavailable, wrong or silent network, and refused settings.

use crate::stage::{Stage, until};
use nix::sys::signal::Signal;
use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

const FAST: Option<Duration> = Some(Duration::from_millis(250));

#[test]
fn provider_starts_before_its_node_and_recovers_automatically() {
    let mut stage = Stage::new("down", true);
    let mut provider = stage.provider("provider", &[]);
    provider.says("waiting for the chain: http://127.0.0.1");
    provider.says("(connection refused): is the node running?");
    assert!(provider.has_ended().is_none());
    stage.start_node(FAST);
    provider.says("ready: bidding");
    let first = stage.order(1);
    stage.bid(&first, &provider);
    // The node stops again while the provider runs.
    stage.stop_node();
    let waits = || provider.output().matches("waiting for the chain").count();
    until(
        "the status reports the outage of the chain",
        || provider.dump(),
        || waits() >= 2,
    );
    let second = stage.order(2);
    stage.start_node(FAST);
    stage.bid(&second, &provider);
    assert_eq!(stage.bids(&first).len(), 1);
}

#[test]
fn node_of_another_chain_is_reported_and_not_used() {
    let mut stage = Stage::new("foreign", true);
    stage.start_node(FAST);
    let mut provider = stage.provider("provider", &["--chain-id=akashnet-2"]);
    provider.says("belongs to chain `devnet`, not `akashnet-2`");
    assert!(!provider.output().contains("ready"), "{}", provider.dump());
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
}

/// The chain makes no further block, so the shutdown waits for the outcome of a bid.
#[test]
fn second_signal_aborts() {
    let mut stage = Stage::new("abort", true);
    stage.start_node(None);
    let mut provider = stage.provider(
        "provider",
        &[
            "--shutdown-grace=1h",
            "--log-level=warn,akash_provider_chain::tx=debug",
        ],
    );
    provider.says("ready: bidding");
    stage.order(1);
    stage.make_block();
    provider.says("order seen");
    let is_sent = || provider.dump().contains("sending transaction");
    until("the bid is sent", || provider.dump(), is_sent);
    provider.signal(Signal::SIGTERM);
    provider.says("shutting down");
    std::thread::sleep(Duration::from_secs(1));
    assert!(
        provider.has_ended().is_none(),
        "the provider does not wait for the outcome of the bid\n{}",
        provider.dump()
    );
    let begun = Instant::now();
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(1), "{}", provider.dump());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(provider.dump().contains("aborting"), "{}", provider.dump());
}

/// Invalid settings and their error messages.
const REFUSED: &[(&[&str], &str)] = &[
    (&[], "at least one bid price"),
    (&["--bid-price-cpu-scale=1", "--chain-id="], "missing --chain-id"),
    (&["--bid-price-cpu-scale=1", "--key-file=/nowhere"], "/nowhere"),
    (&["--bid-price-cpu-scale=1", "--node=ftp://x"], "ftp"),
    (
        &[
            "--bid-price-cpu-scale=1",
            "--bus=redis://127.0.0.1",
            "--bus-password-file=/nowhere",
        ],
        "--bus-password-file: cannot read /nowhere",
    ),
    (
        &["--bid-price-cpu-scale=1", "--bid-deposit=much"],
        "--bid-deposit much",
    ),
    (
        &["--bid-price-cpu-scale=1", "--bid-deposit=5"],
        "--bid-deposit 5: `5` has no denomination, such as uakt\nhelp: expected an amount such as 500000uact",
    ),
    (
        &["--bid-price-cpu-scale=1", "--lease-funds-monitor-interval=1s"],
        "invalid value 1s for --lease-funds-monitor-interval\nhelp: must be from 1 m to 24 h",
    ),
    (
        &["--bid-price-cpu-scale=1", "--deployment-ingress-static-hosts"],
        "--deployment-ingress-domain",
    ),
    (
        &["--bid-price-cpu-scale=1", "--provider-config=/nowhere.yaml"],
        "/nowhere.yaml",
    ),
    (
        &["--bid-price-cpu-scale=1", "--gas-prices=cheap"],
        "\"cheap\" for --gas-prices",
    ),
    (
        &[
            "--bid-price-cpu-scale=1",
            "--with-operators=inventory",
            "--inventory-config={version: v1, clusters: []}",
        ],
        "--inventory-config: line 1",
    ),
    (
        &[
            "--bid-price-cpu-scale=1",
            "--with-operators=inventory",
            "--inventory-config=/nowhere.yaml",
        ],
        "/nowhere.yaml",
    ),
    (
        &["--bid-price-cpu-scale=1", "--gas-prices=abc"],
        "\"abc\" for --gas-prices",
    ),
    (
        &["--bid-price-cpu-scale=1", "--ha=redis"],
        "--ha redis requires --ha-url or --bus",
    ),
    (&["--bid-price-cpu-scale=1", "--keyring-backend=memory"], "memory"),
    (
        &["--bid-price-cpu-scale=1", "--kubeconfig=/nowhere"],
        "--kubeconfig /nowhere",
    ),
    (
        &["--bid-price-cpu-scale=1", "--node-ca=/nowhere.pem"],
        "--node-ca /nowhere.pem",
    ),
    (
        &[
            "--bid-price-cpu-scale=1",
            "--gateway-tls-cert=/nowhere.crt",
            "--gateway-tls-key=/nowhere.key",
        ],
        "--gateway-tls-cert /nowhere.crt",
    ),
    (
        &["--bid-price-cpu-scale=1", "--node=grpc://127.0.0.1:9090"],
        "gRPC addresses only",
    ),
    (
        &[
            "--bid-price-cpu-scale=1",
            "--deployment-ingress-domain=*.example.com",
        ],
        "--deployment-ingress-domain `*.example.com` is a wildcard",
    ),
];

#[test]
fn invalid_settings_are_refused_at_start() {
    let stage = Stage::new("settings", false);
    for (args, expected) in REFUSED {
        let (code, _, err) = stage.ran(&[&["run"], *args].concat());
        assert!(
            code == 1 && err.contains("error: ") && err.contains(expected),
            "{args:?}: {err}"
        );
        // `config check` reports the same without a start. This file is read with the settings.
        if args.contains(&"--provider-config=/nowhere.yaml") {
            continue;
        }
        let (code, out, err) = stage.ran(&[&["config", "check"], *args].concat());
        assert!(code == 1 && out.contains(expected), "{args:?}: {out}{err}");
    }
}

#[test]
fn all_missing_settings_are_reported_together() {
    let stage = Stage::new("missing-settings", false);
    let args = ["--chain-id=", "--node=", "--gas-prices=abc", "--ha=redis"];
    let expected = [
        "missing --chain-id",
        "missing node address in --node",
        "at least one bid price",
        "\"abc\" for --gas-prices",
        "--ha redis requires --ha-url or --bus",
    ];
    let (code, _, run) = stage.ran(&[&["run"], &args[..]].concat());
    assert_eq!(code, 1);
    let (code, check, _) = stage.ran(&[&["config", "check"], &args[..]].concat());
    assert_eq!(code, 1);
    for fault in expected {
        assert!(run.contains(fault), "{fault}: {run}");
        assert!(check.contains(fault), "{fault}: {check}");
    }
}

/// The price script is missing, then invalid, then correct.
#[test]
fn broken_price_script_is_reported_and_awaited() {
    let mut stage = Stage::new("script", true);
    stage.start_node(Some(Duration::from_millis(250)));
    let script = stage.path("price.sh");
    let path = format!("--bid-price-script-path={}", script.display());
    let provider = stage.provider("provider", &["--bid-price-strategy=shellScript", &path]);
    provider.says("price.sh: No such file or directory");
    std::fs::write(&script, "#!/bin/sh\necho 1\n").unwrap();
    provider.says(&format!("is not executable; run `chmod +x {}`", script.display()));
    assert!(
        !provider.output().contains("ready: bidding"),
        "{}",
        provider.dump()
    );
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    provider.says("ready: bidding");
    stage.bid(&stage.order(1), &provider);
}

#[test]
fn missing_deposit_money_is_reported_and_awaited() {
    let mut stage = Stage::new("money", true);
    stage.start_node(Some(Duration::from_millis(250)));
    let much = "--bid-deposit=9000000000000000000uact";
    let provider = stage.provider("provider", &[much]);
    provider.says("money for a bid: a bid requires 9000000000000000000uact and about 3750uakt for its fee, the account has");
    assert!(
        !provider.output().contains("ready: bidding"),
        "{}",
        provider.dump()
    );
}

#[test]
fn no_bid_is_sent_before_gateway_listens() {
    let mut stage = Stage::new("port", true);
    stage.start_node(Some(Duration::from_millis(250)));
    let (code, _, err) = stage.ran(&["tx", "cert", "generate", "server", "localhost"]);
    assert_eq!(code, 0, "{err}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("--gateway-listen-address={}", taken.local_addr().unwrap());
    let provider = stage.provider("provider", &[&address]);
    provider.says("waiting for the gateway, so that tenants reach it: --gateway-listen-address");
    let id = stage.order(1);
    provider.says("order seen");
    std::thread::sleep(Duration::from_secs(2));
    assert!(stage.bids(&id).is_empty(), "{}", provider.dump());
    drop(taken);
    provider.says("ready: bidding");
    stage.bid(&id, &provider);
}

//! Causes of the alerts: each cause is made in a running process, and ends again if a process can continue after it.

use super::alerts::Monitored;
use super::doctor::certify;
use crate::run::served::Served;
use crate::stage::{ADDRESS, Running, Stage, until};
use akash_provider_core::types::DeploymentId;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, UNIX_EPOCH};
use testbed::free_port;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
const PROVIDER: &str = "akash-provider";
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Number of refused transactions that fire the alert.
const REFUSALS: u64 = 6;

/// Returns a free port, and the flag of a metrics server at this port.
fn listener() -> (u16, String) {
    let port = free_port().unwrap();
    (port, format!("--metrics-listener=127.0.0.1:{port}"))
}

/// Sets the balance of the provider in a denomination.
fn set_balance(stage: &Stage, denom: &str, amount: u128) {
    stage.chain.market(|market| {
        let account = market.account_mut(&ADDRESS.parse().unwrap());
        account.coins.insert(denom.into(), amount);
    });
}

fn win(stage: &Stage, provider: &Running, order: &DeploymentId) {
    let bid = stage.bid(order, provider).id;
    stage.accept(bid);
}

/// Changes the log level repeatedly, with long texts. The audit log records each change.
fn write_long_acts(stage: &Stage) {
    let targets: Vec<String> = (0..250).map(|number| format!("target_{number}=off")).collect();
    let request = format!(
        "{{\"ask\":\"log_level\",\"level\":\"warn,{}\"}}\n",
        targets.join(",")
    );
    for _ in 0..100 {
        let mut socket = UnixStream::connect(stage.path("provider.sock")).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        socket.read_to_string(&mut response).unwrap();
        assert!(response.contains("warn,target_0=off"), "{response}");
    }
}

#[test]
fn causes_in_settings_files_and_nodes_fire_their_alerts_until_they_end() {
    let mut stage = Stage::new("alerts", true);
    stage.start_node(FAST);
    std::fs::write(
        stage.path(&format!("{ADDRESS}.devnet.breaker-tripped")),
        "tripped",
    )
    .unwrap();
    // Ten days before its end.
    certify(&stage, UNIX_EPOCH.elapsed().unwrap() - DAY * 355, true);
    let (port, metrics) = listener();
    let flags = [
        &*metrics,
        "--gateway-listen-address=127.0.0.1:0",
        "--bid-deposit=500000uact",
    ];
    let provider = stage.provider("provider", &flags);
    provider.says("the circuit breaker to be released");
    let mut monitored = Monitored::new(PROVIDER, &provider, port);
    let (tripped, expires) = ("AkashProviderBreakerTripped", "AkashProviderCertificateExpires");
    monitored.fires(&[tripped, expires]);
    assert_eq!(stage.ran(&["breaker", "release"]).0, 0);
    monitored.fires(&[expires]);
    for words in [
        &["tx", "cert", "generate", "server", "localhost", "--overwrite"][..],
        &["tx", "cert", "publish", "server", "--yes"],
    ] {
        let (code, out, err) = stage.ran(words);
        assert_eq!(code, 0, "{out}{err}");
    }
    monitored.fires(&[]);
    set_balance(&stage, "uact", 0);
    stage.order(1);
    monitored.fires(&["AkashProviderNotReady", "AkashProviderOrdersUnfunded"]);
    set_balance(&stage, "uact", 1_000_000_000_000);
    monitored.fires(&[]);
    // The newest file cannot be opened, because it is a directory.
    let newest = stage.path("audit/000002.jsonl");
    std::fs::create_dir(&newest).unwrap();
    assert_eq!(stage.ran(&["log-level", "warn"]).0, 0);
    let (unwritable, lost) = ("AkashProviderAuditLogUnwritable", "AkashProviderAuditLinesLost");
    monitored.fires(&[unwritable]);
    monitored.fires_while(&[unwritable, lost], || write_long_acts(&stage));
    std::fs::remove_dir(&newest).unwrap();
    monitored.fires(&[lost]);
    monitored.restart();
    monitored.fires(&[]);
    stage.stop_node();
    monitored.fires(&["AkashProviderNoBlocks", "AkashProviderNodesUnavailable"]);
    provider.signal(Signal::SIGKILL);
    monitored.fires(&["AkashProviderDown"]);
}

#[test]
fn unhealthy_lease_and_missing_fee_fire_their_alerts_until_they_end() {
    let stage = Stage::new("alerts-leases", true);
    // Suffices for about 20 transactions.
    set_balance(&stage, "uakt", 100_000);
    let (port, metrics) = listener();
    // The circuit breaker holds the close of the unhealthy lease.
    let flags = [
        &*metrics,
        "--lease-funds-monitor-interval=1m",
        "--withdrawal-period=1m",
        "--breaker-floor=0",
        "--breaker-percent=0",
        "--breaker-warmup=0",
        "--unhealthy-limit=3s",
    ];
    let served = Served::on(stage, FAST, &flags);
    let stage = &served.stage;
    let monitored = Monitored::new(PROVIDER, &served.provider, port);
    let low = "AkashProviderBalanceLow";
    monitored.fires(&[low]);
    // No registry has the top-level domain `invalid`.
    let text = include_str!("../../../samples/web.yaml").replace("nginx:1.27", "registry.invalid/web");
    let file = stage.path("unhealthy.yaml");
    std::fs::write(&file, &text).unwrap();
    let id = stage.order_from(served.tenant.address(), 10, &text);
    win(stage, &served.provider, &id);
    let won = || {
        served
            .provider
            .output()
            .matches("\"event\":\"lease_won\"")
            .count()
            == 2
    };
    served.until("the lease", won);
    let (code, out, err) = served.tenants(&["send-manifest", file.to_str().unwrap(), "--dseq", "10"]);
    assert_eq!(code, 0, "{out}{err}");
    let unhealthy = "AkashProviderLeasesUnhealthy";
    monitored.fires(&[low, unhealthy]);
    let scan = || drop(stage.ran(&["reconcile"]));
    monitored.fires_while(&[low, unhealthy, "AkashProviderScanFindings"], scan);
    monitored.has(&[
        ("akash_provider_breaker_allowed_closes", 0.0),
        ("akash_provider_breaker_held_closes", 1.0),
        ("akash_provider_breaker_held_owners", 1.0),
        ("akash_provider_breaker_recent_closes", 0.0),
        ("akash_provider_lease_ends_total{reason=\"unstable\"}", 1.0),
        ("provider_deployment_monitor_health{state=\"failed\"}", 1.0),
    ]);
    assert_eq!(stage.ran(&["breaker", "release"]).0, 0);
    monitored.fires_while(&[low], scan);
    monitored.has(&[
        ("akash_provider_breaker_held_closes", 0.0),
        ("akash_provider_breaker_held_owners", 0.0),
        ("akash_provider_leases_closed_total", 1.0),
    ]);
    set_balance(stage, "uakt", 0);
    let advance = || stage.chain.advance(Duration::from_secs(61));
    advance();
    monitored.fires(&[low, "AkashProviderNotReady", "AkashProviderPayoutsFail"]);
    monitored.has(&[("akash_provider_failed_payouts", 1.0)]);
    set_balance(stage, "uakt", 1_000_000_000_000);
    advance();
    monitored.fires(&[]);
}

#[test]
fn absent_redis_fires_its_alerts_until_it_returns() {
    let mut stage = Stage::new("alerts-redis", true);
    let redis = free_port().unwrap();
    let Some(server) = stage.redis(redis, &[]) else {
        return;
    };
    stage.start_node(FAST);
    let (port, metrics) = listener();
    let (election, bus) = (
        format!("--ha-url=redis://127.0.0.1:{redis}"),
        format!("--bus=redis://127.0.0.1:{redis}"),
    );
    let flags = [&*metrics, "--ha=redis", &election, "--ha-lease=4s", &bus];
    let provider = stage.provider("provider", &flags);
    provider.says("ready: bidding");
    let mut monitored = Monitored::new(PROVIDER, &provider, port);
    monitored.fires(&[]);
    monitored.has(&[("akash_provider_leader_term", 1.0)]);
    drop(server);
    // The leader publishes its facts until its election lease ends.
    stage.order(1);
    let lost = "AkashProviderEventsLost";
    monitored.fires(&[lost, "AkashProviderWithoutLeader"]);
    let _server = stage.redis(redis, &[]);
    monitored.fires(&[lost]);
    monitored.restart();
    monitored.fires(&[]);
}

#[test]
fn absent_cluster_fires_the_alerts_of_the_provider_and_of_an_operator() {
    let mut stage = Stage::new("alerts-cluster", true);
    stage.start_node(FAST);
    let config = super::doctor_machine::kubeconfig(&stage, "http://127.0.0.1:1");
    let (port, metrics) = listener();
    let flags = [
        &*metrics,
        &config,
        "--cluster-public-hostname=provider.example.com",
    ];
    let provider = stage.provider("provider", &flags);
    let monitored = Monitored::new(PROVIDER, &provider, port);
    monitored.fires(&["AkashProviderKubernetesUnavailable", "AkashProviderNotReady"]);
    let port = free_port().unwrap();
    let rest = format!("--rest-port={port}");
    let words = ["operator", "hostname", "--rest-address=127.0.0.1", &rest, &config];
    let operator = stage.running("operator", &words);
    let monitored = Monitored::new("akash-operator", &operator, port);
    monitored.fires(&["AkashOperatorDown"]);
    operator.signal(Signal::SIGKILL);
    let gone = || std::net::TcpStream::connect(("127.0.0.1", port)).is_err();
    until("the end", String::new, gone);
    monitored.fires(&["AkashOperatorDown"]);
}

#[test]
fn refused_bids_and_blocked_output_fire_their_alerts_until_they_end() {
    let mut stage = Stage::new("alerts-output", true);
    stage.start_node(FAST);
    let (port, metrics) = listener();
    let (reader, writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let words = [&["run"], &crate::stage::PRICES[..], &[&metrics, "--output=json"]].concat();
    let provider = stage.running_with("provider", &words, |command| {
        command.stdout(writer);
    });
    let mut lines = BufReader::new(reader).lines();
    lines.find(|line| line.as_ref().unwrap().contains("\"is_ready\":true"));
    let mut monitored = Monitored::new(PROVIDER, &provider, port);
    monitored.fires(&[]);
    let params = stage.chain.market(|market| market.params().clone());
    let mut stricter = params.clone();
    stricter
        .bid_min_deposits
        .iter_mut()
        .for_each(|deposit| deposit.amount *= 1_000);
    stage.chain.market(|market| {
        market.set_params(stricter);
    });
    for dseq in 1..=REFUSALS {
        stage.order(dseq);
    }
    monitored.fires(&["AkashProviderTransactionsRefused"]);
    let refusals = f64::from(u8::try_from(REFUSALS).unwrap());
    monitored.has(&[
        ("provider_bid{action=\"open\",result=\"fail\"}", refusals),
        (
            "akash_provider_order_outcomes_total{outcome=\"declined\"}",
            refusals,
        ),
    ]);
    stage.chain.market(|market| market.set_params(params));
    monitored.restart();
    monitored.fires(&[]);
    // The output is not read any more.
    for dseq in 0..40 {
        stage.order(100 + dseq);
    }
    monitored.fires(&["AkashProviderPartStopped"]);
    std::thread::spawn(move || lines.for_each(drop));
    monitored.fires(&[]);
}

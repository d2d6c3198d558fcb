//! Start, supervision and stop of `run`, as documented in docs/lifecycle.md.

use crate::http::curl;
use crate::run::served::Served;
use crate::run::websocket::Websocket;
use crate::stage::{PRICES, Running, Stage, until};
use akash_provider_service::supervise::{Part, PartFailed, RestartPolicy, Supervisor};
use futures::FutureExt;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Environment variable that names the failing component.
const FAULTY: &str = "LIFECYCLE_FAULTY_PART";

/// Notification socket of a simulated service manager, and the received notifications.
struct Manager(UnixDatagram, Vec<String>);

impl Manager {
    fn start(stage: &Stage) -> Self {
        let socket = UnixDatagram::bind(stage.path("notify")).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self(socket, Vec::new())
    }

    /// Starts a provider with this socket, and a watchdog interval of two seconds.
    fn provider(stage: &Stage, name: &str, more: &[&str]) -> Running {
        stage.running_with(name, &[&["run"], &PRICES[..], more].concat(), |command| {
            command
                .env("NOTIFY_SOCKET", stage.path("notify"))
                .env("WATCHDOG_USEC", "2000000");
        })
    }

    fn notifications(&mut self) -> &[String] {
        let mut bytes = [0; 4096];
        while let Ok(length) = self.0.recv(&mut bytes) {
            let text = String::from_utf8(bytes[..length].to_vec()).unwrap();
            self.1.extend(text.lines().map(str::to_owned));
        }
        &self.1
    }

    #[track_caller]
    fn waits_for(&mut self, word: &str, provider: &Running) {
        until(
            &format!("`{word}`"),
            || provider.dump(),
            || self.notifications().iter().any(|line| line.contains(word)),
        );
    }

    fn watchdog_count(&mut self) -> usize {
        self.notifications()
            .iter()
            .filter(|line| *line == "WATCHDOG=1")
            .count()
    }
}

#[test]
fn systemd_is_notified_of_ready_watchdog_and_stopping() {
    let mut stage = Stage::new("systemd", true);
    stage.start_node(FAST);
    let mut manager = Manager::start(&stage);
    let mut provider = Manager::provider(&stage, "provider", &[]);
    manager.waits_for("READY=1", &provider);
    manager.waits_for("STATUS=ready: bidding", &provider);
    let before = manager.watchdog_count();
    let lives = |manager: &mut Manager| manager.watchdog_count() >= before + 4;
    until(
        "watchdog notifications",
        || provider.dump(),
        || lives(&mut manager),
    );
    assert!(!manager.notifications().iter().any(|line| line == "STOPPING=1"));
    provider.signal(Signal::SIGTERM);
    manager.waits_for("STOPPING=1", &provider);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
    let notifications = manager.notifications();
    assert_eq!(
        notifications.iter().filter(|line| *line == "READY=1").count(),
        1,
        "{notifications:?}"
    );
}

/// The service is ready before chain and cluster respond. The status reports the unmet conditions for bids.
#[test]
fn provider_is_ready_without_chain_or_cluster_and_reports_it() {
    for (name, chain_is_up, cluster_is_up) in [
        ("no-chain", false, true),
        ("no-cluster", true, false),
        ("neither", false, false),
    ] {
        let mut stage = Stage::new(&format!("order-{name}"), true);
        if chain_is_up {
            stage.start_node(FAST);
        }
        let kubeconfig = stage.path("kubeconfig");
        std::fs::write(&kubeconfig, NOWHERE).unwrap();
        let away = ["--kubeconfig", kubeconfig.to_str().unwrap()];
        let mut manager = Manager::start(&stage);
        let mut provider = Manager::provider(&stage, name, if cluster_is_up { &[] } else { &away });
        manager.waits_for("READY=1", &provider);
        let status = |manager: &mut Manager, word: &str| {
            let notifications = manager.notifications();
            let last = notifications.iter().rfind(|line| line.starts_with("STATUS="));
            last.is_some_and(|line| line.contains(word))
        };
        for (is_up, word) in [(chain_is_up, "the chain: "), (cluster_is_up, "the cluster: ")] {
            until(
                &format!("{name}: `{word}` {is_up}"),
                || provider.dump(),
                || status(&mut manager, "waiting for") && status(&mut manager, word) != is_up,
            );
        }
        // Operator commands work meanwhile.
        let (code, stdout, problem) = stage.ran(&["breaker", "show"]);
        assert_eq!(code, 0, "{name}: {stdout}{problem}");
        if !chain_is_up && cluster_is_up {
            stage.start_node(FAST);
            manager.waits_for("STATUS=ready: bidding", &provider);
        }
        provider.signal(Signal::SIGTERM);
        assert_eq!(provider.ended(), Some(0), "{name}: {}", provider.dump());
    }
}

/// Kubeconfig of a cluster on an unused port.
const NOWHERE: &str = "apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: 'http://127.0.0.1:9'}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {}}]
";

/// The test does not read the output of the provider. This stalls the task that prints the events.
#[test]
fn stalled_part_is_logged_and_watchdog_notifications_stop() {
    let mut stage = Stage::new("hangs", true);
    stage.start_node(FAST);
    let mut manager = Manager::start(&stage);
    let (reading, writing) = std::io::pipe().unwrap();
    fcntl(&writing, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let words = [&["run"], &PRICES[..], &["--output=json"]].concat();
    let provider = stage.running_with("provider", &words, |command| {
        command
            .env("NOTIFY_SOCKET", stage.path("notify"))
            .env("WATCHDOG_USEC", "2000000")
            .stdout(Stdio::from(writing));
    });
    manager.waits_for("STATUS=ready: bidding", &provider);
    until(
        "the first watchdog notification",
        || provider.dump(),
        || manager.watchdog_count() > 0,
    );
    // More lines than the pipe can hold.
    for dseq in 1..=40 {
        stage.order(dseq);
    }
    until(
        "the stalled part is logged",
        || provider.dump(),
        || {
            // Empty the socket of the service manager.
            manager.notifications();
            provider.dump().contains("part of the provider stalled")
        },
    );
    // Notifications already in flight.
    std::thread::sleep(Duration::from_secs(1));
    let silent_since = (Instant::now(), manager.watchdog_count());
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(
        manager.watchdog_count(),
        silent_since.1,
        "{:?}",
        silent_since.0.elapsed()
    );
    // The part continues as soon as its output is read.
    let reading = std::thread::spawn(move || std::io::copy(&mut { reading }, &mut std::io::sink()));
    until(
        "the part recovers",
        || provider.dump(),
        || provider.dump().contains("part of the provider recovered"),
    );
    until(
        "watchdog notifications",
        || provider.dump(),
        || manager.watchdog_count() > silent_since.1,
    );
    drop(provider);
    reading.join().unwrap().unwrap();
}

/// Without a new block, the bid stays in the mempool. The shutdown waits for the result of the bid.
#[test]
fn draining_provider_is_not_ready_and_closes_streams_with_code() {
    let mut served = Served::start("drains", None, &["--shutdown-grace=1h"]);
    let ready = format!("{}/readyz", served.url);
    let Some((status, body)) = curl(&[&ready]) else {
        return;
    };
    assert_eq!(status, 200, "{body}");
    let token = served.token();
    let open = |path: &str| Websocket::open(&served.url, path, &token).ok().unwrap();
    let streams = [
        open("/lease/9/1/1/logs?follow=true"),
        open("/lease/9/1/1/kubeevents?follow=true"),
        // The command waits for input.
        open("/lease/9/1/1/shell?cmd0=cat&tty=0&stdin=1&service=web&podIndex=0"),
    ];
    let listening = streams.map(|stream| std::thread::spawn(move || stream.received()));
    let id = served.stage.order(500);
    served.stage.make_block();
    let waiting = format!("{}/num_unconfirmed_txs", served.stage.url());
    let is_sent = || curl(&[&waiting]).is_some_and(|(_, body)| body.contains(r#""n_txs":"1""#));
    until("a bid that no block takes", || served.provider.dump(), is_sent);
    assert!(served.stage.bids(&id).is_empty(), "the bid is in a block");
    served.provider.signal(Signal::SIGTERM);
    until(
        "draining",
        || served.provider.dump(),
        || served.provider.output().contains("shutting down"),
    );
    let (status, body) = curl(&[&ready]).unwrap();
    assert_eq!(
        (status, body.trim()),
        (503, "the provider is stopping"),
        "{}",
        served.provider.dump()
    );
    let (status, body) = curl(&[&format!("{}/status", served.url)]).unwrap();
    assert_eq!(status, 200, "the status is unavailable during the drain: {body}");
    for listening in listening {
        let notifications = listening.join().unwrap();
        assert_eq!(
            notifications.close,
            Some((1001, "the provider is stopping".to_owned()))
        );
    }
    served.stage.make_block();
    let code = served.provider.ended();
    assert_eq!(code, Some(0), "{}", served.provider.dump());
}

#[test]
fn breaker_release_is_durable_before_its_response() {
    let mut stage = Stage::new("durable", true);
    stage.start_node(FAST);
    let file = stage.path(&format!("{}.devnet.breaker-tripped", crate::stage::ADDRESS));
    std::fs::write(&file, "all\n").unwrap();
    let mut provider = stage.provider("provider", &[]);
    provider.says("the circuit breaker to be released");
    let (code, stdout, problem) = stage.ran(&["breaker", "release"]);
    // Checked at the time of the response.
    let is_gone = !file.exists();
    provider.kill();
    assert_eq!(code, 0, "{stdout}{problem}");
    assert!(is_gone, "the response arrived before the release was stored");
}

#[test]
fn exit_code_names_the_failed_part() {
    if let Ok(code) = std::env::var(FAULTY) {
        let part = Part::ALL.into_iter().find(|part| part.code().to_string() == code);
        let failed = failure(part.unwrap());
        eprintln!("error: {failed}");
        std::process::exit(i32::from(failed.part().code()));
    }
    let program = std::env::current_exe().unwrap();
    // A part with unlimited restarts never ends the process.
    let is_limited = |part: &Part| part.policy() != RestartPolicy::UNLIMITED;
    for part in Part::ALL.into_iter().filter(is_limited) {
        let child = Command::new(&program)
            .args(["--exact", "run::lifecycle::exit_code_names_the_failed_part"])
            .arg("--nocapture")
            .env(FAULTY, part.code().to_string())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&child.stderr);
        assert_eq!(
            child.status.code(),
            Some(i32::from(part.code())),
            "{part:?}: {stderr}"
        );
        assert!(stderr.contains(part.name()), "{part:?}: {stderr}");
    }
    let (code, help, _) = Stage::new("codes", false).ran(&["run", "--help"]);
    let page = include_str!("../../../../docs/lifecycle.md");
    for part in Part::ALL {
        let line = format!("{}  failed: {}", part.code(), part.name());
        assert!(code == 0 && help.contains(&line), "{line}\n{help}");
        let row = |line: &str| {
            line.starts_with(&format!("| {}", part.name())) && line.ends_with(&format!("| {} |", part.code()))
        };
        assert!(page.lines().any(row), "{part:?} has no row in docs/lifecycle.md");
    }
    let failed = |part| anyhow::Error::from(failure(part)).context("the provider");
    let code = |error: &anyhow::Error| format!("{:?}", PartFailed::exit_code(error));
    assert_eq!(code(&failed(Part::Gateway)), format!("{:?}", ExitCode::from(45)));
    assert_eq!(
        code(&anyhow::anyhow!("other")),
        format!("{:?}", ExitCode::FAILURE)
    );
}

fn failure(part: Part) -> PartFailed {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut parts = Supervisor::new(CancellationToken::new());
        parts.again(part, |_| async { panic!("injected failure") }.boxed());
        parts.failure().await
    })
}

#[test]
fn sighup_drains_like_sigterm() {
    let mut stage = Stage::new("hangup", true);
    stage.start_node(FAST);
    let mut provider = stage.provider("provider", &[]);
    provider.says("ready: bidding");
    let id = stage.order(1);
    let bid = stage.bid(&id, &provider);
    stage.accept(bid.id);
    provider.says("lease won");
    provider.signal(Signal::SIGHUP);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
    assert_eq!(stage.live_leases(), 1, "the lease ended with the process");
}

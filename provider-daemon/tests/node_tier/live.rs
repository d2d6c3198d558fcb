//! `run` on a real cluster with a chain on the wire. A tenant uses its pods through the gateway, while the
//! provider is stopped, killed, and disconnected from its chain.

use crate::clients::Client;
use crate::daemon::Daemon;
use crate::fixture::{Stage, until};
use crate::network::{Account, Network};
use crate::streams::{LEASE, Streams};
use crate::terminal::typed;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// SDL with two services. The first prints increasing numbers.
const SDL: &str = r#"
version: "2.0"
services:
  web:
    image: localhost/busybox:1
    env: [TEXT=GREETING]
    command: [sh, -c]
    args:
      - >-
        trap 'exit 0' TERM; echo said GREETING; i=0; while sleep 0.3; do i=$((i+1)); echo tick $i; done
    expose:
      - port: 8080
        to: [{ global: true }]
  side:
    image: localhost/busybox:1
    command: [sh, -c]
    args: ["trap 'exit 0' TERM; echo aside; while sleep 1; do :; done"]
    expose:
      - port: 8081
        to: [{ service: web }]
profiles:
  compute:
    small:
      resources:
        cpu: { units: 50m }
        memory: { size: 32Mi }
        storage: { size: 64Mi }
  placement:
    anywhere:
      pricing:
        small: { denom: uact, amount: 1000 }
deployment:
  web:
    anywhere: { profile: small, count: 1 }
  side:
    anywhere: { profile: small, count: 1 }
"#;

/// Maximum time from SIGTERM to the exit of the provider.
const STOPPED: Duration = Duration::from_secs(10);
/// The cluster counts as idle after this time without a write.
const QUIET: Duration = Duration::from_secs(1);
const AWAITS_CHAIN: &str = "\"awaited\":[\"the chain";
/// Output format with resource versions, which change with every write.
const VERSIONS: &str =
    "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}";
const PODS: &str =
    "jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{\"\\n\"}{end}";

/// Lease with its tenant, and accounts of other parties.
struct Fixture<'a> {
    stage: &'a Stage,
    network: &'a Network,
    tenant: Account<'a>,
    /// Account with a key and a certificate on the chain. The provider has not queried this account yet.
    unknown_account: Account<'a>,
    namespace: String,
}

#[test]
fn tenant_reaches_its_pods_across_restarts_and_outages() {
    let Some(stage) = Stage::take() else { return };
    let network = Network::start("live");
    let provider = network.provider(&stage, "first");
    provider.says("\"is_ready\":true");
    let empty = network.capacity();
    let scene = timed("a lease", || Fixture::rent(&stage, &network));
    timed("commands of the tenant", || scene.commands());
    timed("a terminal", || scene.terminal());
    timed("an update", || scene.update());
    let persistent_state = scene.settled();
    let provider = timed("a stop", || scene.stopped(provider));
    assert_eq!(
        scene.persistent_state(),
        persistent_state,
        "changed by a stop of the provider"
    );
    let provider = timed("a kill", || scene.killed(provider));
    assert_eq!(
        scene.persistent_state(),
        persistent_state,
        "changed by a kill of the provider"
    );
    let mut provider = timed("an outage of the chain", || scene.cut_off(provider));
    timed("the provider uses the chain again", || {
        scene.back(&provider, &empty)
    });
    provider.signal(Signal::SIGTERM);
    provider.end();
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    println!("{what}: {:.1}s", began.elapsed().as_secs_f64());
    done
}

impl<'a> Fixture<'a> {
    /// Creates a running lease, and a second deployment with an open bid.
    fn rent(stage: &'a Stage, network: &'a Network) -> Self {
        let (tenant, unknown_account) = (network.who("tenant"), network.who("auditor"));
        let sdl = network.file("first.yaml", &SDL.replace("GREETING", "first"));
        scope(|scope| {
            scope.spawn(|| unknown_account.certify());
            scope.spawn(|| tenant.certify());
            tenant.does(&["deploy", &sdl, "--dseq", "7"]);
            tenant.does(&["accept", "7"]);
            tenant.good(&["send-manifest", &sdl, "--dseq", "7"]);
            tenant.does(&["deploy", &sdl, "--dseq", "8"]);
        });
        let command = [
            "show-cluster-ns",
            "--dseq",
            "7",
            "--provider",
            &network.account,
            "--owner",
        ];
        let owner = tenant.good(&["keys", "show", "tenant", "-a"]);
        let namespace = tenant.good(&[&command[..], &[owner.trim()]].concat());
        let scene = Self {
            stage,
            network,
            tenant,
            unknown_account,
            namespace: namespace.trim().to_owned(),
        };
        until("all pods run", || scene.runs("jwt"));
        until("a bid for the other", || scene.bids().len() == 2);
        scene
    }

    fn asks(&self, what: &str, auth: &str, more: &[&str]) -> (i32, String, String) {
        let words = [
            what,
            "--dseq",
            "7",
            "--provider",
            &self.network.account,
            "--auth-type",
            auth,
        ];
        self.tenant.ran(&[&words[..], more].concat())
    }

    #[track_caller]
    fn output_of(&self, what: &str, auth: &str, more: &[&str]) -> String {
        let (code, out, err) = self.asks(what, auth, more);
        assert_eq!(code, 0, "{what} {auth} {more:?}: {out}{err}");
        out
    }

    fn runs(&self, auth: &str) -> bool {
        let (code, out, _) = self.asks("lease-status", auth, &["-o", "json"]);
        let status: Value = serde_json::from_str(&out).unwrap_or_default();
        let full = |name: &str| status["services"][name]["available"] == 1;
        code == 0 && full("web") && full("side")
    }

    /// Returns the deployment and state of each bid of the provider.
    fn bids(&self) -> Vec<(Value, Value)> {
        let asked = ["query", "bids", "--provider", &self.network.account, "-o", "json"];
        let bids: Value = serde_json::from_str(&self.tenant.good(&asked)).unwrap();
        let all = bids["bids"].as_array().unwrap().iter().map(|b| &b["bid"]);
        all.map(|bid| (bid["id"]["dseq"].clone(), bid["state"].clone()))
            .collect()
    }

    fn kubectl(&self, what: &[&str], path: &str) -> String {
        let args = [&["get"], what, &["--output", path]].concat();
        self.stage.testbed.kubectl(&args).unwrap()
    }

    /// Returns the pods, objects and bids that a restart must not change.
    fn persistent_state(&self) -> (String, String, String, Vec<(Value, Value)>) {
        let ns = &self.namespace;
        let kinds = "deployments,services,networkpolicies,serviceaccounts,secrets";
        let inside = self.kubectl(&[kinds, "--namespace", ns], VERSIONS);
        let around = self.kubectl(&["namespaces", "--selector=akash.network=true"], VERSIONS)
            + &self.kubectl(&["manifests.akash.network", "--namespace=lease"], VERSIONS);
        assert!(
            inside.contains("Deployment/web") && around.contains(ns),
            "{inside}{around}"
        );
        (
            self.kubectl(&["pods", "--namespace", ns], PODS),
            inside,
            around,
            self.bids(),
        )
    }

    /// Waits until `persistent_state` no longer changes, and returns this state.
    fn settled(&self) -> (String, String, String, Vec<(Value, Value)>) {
        let mut persistent_state = self.persistent_state();
        until("the state of the cluster no longer changes", || {
            sleep(QUIET);
            let before = std::mem::replace(&mut persistent_state, self.persistent_state());
            before == persistent_state
        });
        persistent_state
    }

    /// Runs every lease command with a token and with a certificate.
    fn commands(&self) {
        scope(|scope| {
            for auth in ["jwt", "mtls"] {
                scope.spawn(move || self.commands_by(auth));
            }
        });
    }

    fn commands_by(&self, auth: &str) {
        assert!(self.runs(auth), "{auth}");
        // A pod is available before all its lines are logged: the first tick follows a third of a second
        // later.
        until("the logs have the first lines of both services", || {
            let all = self.output_of("lease-logs", auth, &[]);
            let has = |(pod, line): &(&str, &str)| all.lines().any(|l| l.contains(pod) && l.ends_with(line));
            [("[web-", "said first"), ("[web-", "tick 1"), ("[side-", "aside")]
                .iter()
                .all(has)
        });
        let last = self.output_of("lease-logs", auth, &["--tail", "1", "--service", "web"]);
        assert!(
            last.lines().count() == 1 && last.contains("[web-") && last.contains("tick"),
            "{auth}: {last}"
        );
        let events = self.output_of("lease-events", auth, &[]);
        let of_side = self.output_of("lease-events", auth, &["--service", "side"]);
        assert!(
            events.contains("\"Started\"") && events.contains("\"web-"),
            "{auth}: {events}"
        );
        assert!(
            of_side.contains("\"side-") && !of_side.contains("\"web-"),
            "{auth}: {of_side}"
        );
        let manifest = self.output_of("get-manifest", auth, &["-o", "json"]);
        assert!(manifest.contains("TEXT=first"), "{auth}: {manifest}");
        let run = [
            "lease-shell",
            "--dseq",
            "7",
            "--auth-type",
            auth,
            "--stdin",
            "web",
            "--",
        ];
        let script = ["sh", "-c", "cat; echo $TEXT >&2; exit 3"];
        let mut child = self
            .tenant
            .command(&[&run[..], &script].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"typed\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(
            (output.status.code(), &*out, &*err),
            (Some(3), "typed\n", "first\n"),
            "{auth}"
        );
    }

    fn terminal(&self) {
        let words = ["lease-shell", "--dseq", "7", "--tty", "web", "sh"];
        let dialogue = [("# ", "stty size; tty\r"), ("/dev/pts/", "exit 7\r")];
        let (code, screen) = typed(self.tenant.command(&words), &dialogue);
        assert!(code == Some(7) && screen.contains("40 100"), "{code:?} {screen}");
    }

    /// Updates the lease. Asserts that `--follow` prints log lines of the new pod, and an event about the end
    /// of the old pod.
    fn update(&self) {
        let logs = self.tenant.starts(
            "logs",
            &["lease-logs", "--dseq", "7", "--follow", "--service", "web"],
        );
        let followed = ["lease-events", "--dseq", "7", "--follow", "--auth-type", "mtls"];
        let events = self.tenant.starts("events", &followed);
        logs.says("tick");
        events.says("Started");
        let sdl = self
            .network
            .file("second.yaml", &SDL.replace("GREETING", "second"));
        self.tenant.does(&["update", "7", &sdl]);
        self.tenant.good(&["send-manifest", &sdl, "--dseq", "7"]);
        logs.says("said second");
        events.says("Killing");
        let pods = || self.kubectl(&["pods", "--namespace", &self.namespace], PODS);
        until("the first pod is deleted", || pods().lines().count() == 2);
        until("all pods run", || self.runs("mtls"));
        let text = self.output_of("lease-shell", "jwt", &["web", "--", "sh", "-c", "echo $TEXT"]);
        assert_eq!(text, "second\n");
    }

    /// Stops the provider with SIGTERM while streams are open. Asserts the close reasons of the streams.
    /// Asserts that the lease still runs after a new start.
    fn stopped(&self, mut provider: Daemon) -> Daemon {
        let streams = Streams::open(self.network, &self.tenant);
        let tick = streams.tick;
        let began = Instant::now();
        provider.signal(Signal::SIGTERM);
        for (name, frame) in streams.ended() {
            assert_eq!(
                frame,
                Some((1001, "the provider is stopping".to_owned())),
                "{name}"
            );
        }
        provider.end();
        assert!(began.elapsed() < STOPPED, "{:?}", began.elapsed());
        self.goes_on("second", tick)
    }

    /// Kills the provider while streams are open. Asserts that the streams end without a close frame. Also
    /// asserts that the lease still runs after the next start.
    fn killed(&self, mut provider: Daemon) -> Daemon {
        let streams = Streams::open(self.network, &self.tenant);
        let tick = streams.tick;
        provider.kill();
        for (name, frame) in streams.ended() {
            assert_eq!(frame, None, "{name}");
        }
        self.goes_on("third", tick)
    }

    fn goes_on(&self, name: &str, tick: u64) -> Daemon {
        let provider = self.network.provider(self.stage, name);
        // Streams do not require the chain.
        let streams = Streams::open(self.network, &self.tenant);
        assert!(
            streams.tick > tick,
            "the numbers of the pod do not increase: {tick} {}",
            streams.tick
        );
        provider.says("\"is_ready\":true");
        until("the lease is adopted", || self.network.capacity()["leases"] == 1);
        provider
    }

    /// Cuts off the chain, and restarts the provider. Asserts that the tenant is still served, and that an
    /// unknown account gets a temporary error.
    fn cut_off(&self, mut provider: Daemon) -> Daemon {
        let before = provider.output().len();
        self.network.cut(true);
        provider.says_after(before, AWAITS_CHAIN);
        self.serves_its_own(&[self.unknown_account.by_token()]);
        provider.kill();
        let provider = self.network.provider(self.stage, "fourth");
        self.serves_its_own(&[
            self.unknown_account.by_token(),
            self.unknown_account.by_certificate(),
        ]);
        provider.says(AWAITS_CHAIN);
        self.tenant.does(&["close", "7"]);
        self.tenant.does(&["close", "8"]);
        for (name, client) in self.tenant.clients() {
            let reply = self.tenant.get(&client, &format!("{LEASE}/status"));
            assert_eq!(
                reply.status, 200,
                "{name}: unknown capacity is reported as known: {}",
                reply.body
            );
        }
        provider
    }

    fn serves_its_own(&self, strangers: &[Client]) {
        scope(|scope| {
            for client in strangers {
                scope.spawn(move || {
                    let reply = self.unknown_account.get(client, &format!("{LEASE}/status"));
                    assert_eq!(reply.status, 503, "{}", reply.body);
                });
            }
            drop(Streams::open(self.network, &self.tenant));
            for (name, client) in self.tenant.clients() {
                for (path, part) in [("/status", "\"services\""), ("/manifest", "TEXT=second")] {
                    let reply = self.tenant.get(&client, &format!("{LEASE}{path}"));
                    assert_eq!(reply.status, 200, "{name} {path}: {}", reply.body);
                    assert!(reply.body.contains(part), "{name} {path}: {}", reply.body);
                }
            }
        });
    }

    /// Reconnects the chain. Asserts that the provider processes the missed events.
    fn back(&self, provider: &Daemon, empty: &Value) {
        self.network.cut(false);
        provider.says("\"is_ready\":true");
        until("no namespace", || self.stage.labelled().is_empty());
        let records = ["manifests.akash.network", "--namespace=lease"];
        until("the records are deleted", || {
            self.kubectl(&records, VERSIONS).is_empty()
        });
        let bare = json!({"leases": 0, "inventory": empty["inventory"]});
        until("the capacity is restored", || self.network.capacity() == bare);
        for (name, client) in self.unknown_account.clients() {
            let reply = self.unknown_account.get(&client, &format!("{LEASE}/status"));
            assert_eq!(reply.status, 404, "{name}: {}", reply.body);
        }
        let (_, _, err) = self.asks("lease-status", "jwt", &[]);
        assert!(err.contains("is closed"), "{err}");
    }
}

//! Text output of `lease-status`, and the option to wait for the services of a lease.

use crate::pty;
use crate::tenant::other::{PROVIDER, answer};
use crate::tenant::replay::Replay;
use crate::tenant::stage::{RunOutput, RunningProvider, Stage, certificate, read, sample};
use akash_provider_core::cluster::Operation;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Address, DeploymentId, LeaseId};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

/// Process of a waiting command, with its output.
struct Waiting {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Waiting {
    fn start(mut command: Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr }
    }

    /// Waits until the output contains this text.
    #[track_caller]
    fn says(&mut self, words: &str) {
        let mut all = String::new();
        while self.stderr.read_line(&mut all).unwrap() > 0 {
            if all.lines().next_back().is_some_and(|line| line.contains(words)) {
                return;
            }
        }
        panic!("`{words}` is not in: {all}");
    }

    fn ended(mut self) -> RunOutput {
        let mut err = String::new();
        self.stderr.read_to_string(&mut err).unwrap();
        let output = self.child.wait_with_output().unwrap();
        RunOutput {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err,
        }
    }
}

/// Creates a lease with services that start at the cluster's next tick.
fn starting(stage: &Stage, seed: u8, dseq: u64) -> (RunningProvider, LeaseId) {
    let provider = stage.provider(seed);
    provider.cluster.set_start_ticks(1);
    let lease = stage.lease(dseq, &sample("web.yaml"), &[&provider]).remove(0);
    (provider, lease)
}

#[test]
fn waiting_ends_when_services_are_available_and_prints_url_first() {
    let stage = Stage::new("wait");
    let (provider, lease) = starting(&stage, 51, 7);
    let asking = |wait: &str| stage.command(&["lease-status", "--dseq", "7", wait, "-o", "text"]);
    let mut waiting = Waiting::start(asking("--wait"));
    waiting.says("status 404");
    stage
        .ran(&["send-manifest", &sample("web.yaml"), "--dseq", "7"])
        .good();
    waiting.says("waiting: web 0/2 not available");
    let late = stage.ran(&["lease-status", "--dseq", "7", "--wait=1s"]);
    late.failed(&["not every service is available after 1s: web 0/2 not available"]);
    provider.cluster.tick();
    waiting.says("all replicas of every service are available");
    let out = waiting.ended().good();
    // The output for scripts is unchanged.
    let host = stage.ran(&["lease-status", "--dseq", "7"]).good();
    let host: serde_json::Value = serde_json::from_str(&host).unwrap();
    let host = host[0]["status"]["services"]["web"]["uris"][0].as_str().unwrap();
    let wide = host.len() + "http://".len();
    let table = format!(
        "{:wide$}  SERVICE\nhttp://{host}  web\n\nSERVICE  READY  STATE\nweb      2/2    available\n",
        "URL"
    );
    let of = format!("lease 7/1/1 at {}\n\n", lease.provider);
    assert_eq!(out, of + &table);
    let address = provider.address.as_str();
    let one = ["lease-status", "--dseq", "7", "--provider", address];
    assert_eq!(stage.ran(&[&one[..], &["-o", "text"]].concat()).good(), table);
    assert_eq!(on_a_terminal(stage.command(&one)), table);
    let mut command = stage.command(&one);
    command.env("AKASH_OUTPUT", "json");
    assert!(on_a_terminal(command).starts_with("{\n  \"services\""));
}

#[test]
fn waiting_after_update_ignores_the_previous_version() {
    let stage = Stage::new("wait-update");
    let (provider, lease) = starting(&stage, 53, 10);
    let web = std::fs::read_to_string(sample("web.yaml")).unwrap();
    let send = |sdl: &str| drop(stage.ran(&["send-manifest", sdl, "--dseq", "10"]).good());
    send(&sample("web.yaml"));
    let mut waiting = Waiting::start(stage.command(&["lease-status", "--dseq", "10", "--wait=1m"]));
    // The pods exist now, and one step later they are available.
    waiting.says("waiting: web 0/2 not available");
    provider.cluster.tick();
    waiting.ended().good();

    let updated = stage.file("updated.yaml", &web.replace("nginx:1.27", "nginx:1.28"));
    let (id, hash) = (lease.deployment().clone(), read(&updated).hash);
    assert_ne!(hash, read(&sample("web.yaml")).hash);
    let update = TenantMsg::UpdateDeployment { id, hash };
    stage.chain.tenant(update).unwrap();
    stage.settle();
    let late = stage.ran(&["lease-status", "--dseq", "10", "--wait=1s"]);
    late.failed(&["the provider has manifest version", "`send-manifest`"]);
    provider.cluster.set_start_ticks(0);
    provider.cluster.hang(Operation::Deploy);
    send(&updated);
    let mut waiting = Waiting::start(stage.command(&["lease-status", "--dseq", "10", "--wait=1m"]));
    waiting.says("is not deployed yet");
    provider.cluster.restore(Operation::Deploy);
    waiting.ended().good();
}

/// Runs a command at a terminal, and returns the displayed text.
fn on_a_terminal(mut command: Command) -> String {
    let (ours, theirs) = pty::open();
    let mut child = command.stdout(theirs).spawn().unwrap();
    // The command's end of the terminal must be closed, so that the read ends.
    drop(command);
    let mut screen = Vec::new();
    // A terminal without a writer ends with an error.
    drop(std::fs::File::from(ours).read_to_end(&mut screen));
    assert!(child.wait().unwrap().success());
    String::from_utf8(screen).unwrap().replace("\r\n", "\n")
}

#[test]
fn waiting_ends_with_the_lease_or_a_permanent_error() {
    let stage = Stage::new("wait-over");
    let (_provider, lease) = starting(&stage, 52, 8);
    let mut waiting = Waiting::start(stage.command(&["lease-status", "--dseq", "8", "--wait"]));
    waiting.says("status 404");
    let id: DeploymentId = lease.deployment().clone();
    stage.chain.tenant(TenantMsg::CloseDeployment { id }).unwrap();
    waiting.ended().failed(&["is closed"]);

    let provider: Address = PROVIDER.parse().unwrap();
    let replay = Replay::start(&certificate(&stage.chain, &provider));
    stage.settle();
    let url = replay.url();
    let of = ["--dseq", "9", "--provider", PROVIDER, "--provider-url", &url];
    let asking = |wait: &str| stage.command(&[&["lease-status", wait], &of[..]].concat());
    replay.play(&answer("401 Unauthorized", "no\n"));
    Waiting::start(asking("--wait")).ended().failed(&["status 401"]);
    // Temporary errors of the provider are retried, and each change is reported once.
    replay.play(&answer("503 Service Unavailable", "no\n"));
    let mut waiting = Waiting::start(asking("--wait"));
    waiting.says("status 503");
    let all = |web: u32, db: u32| {
        let services = format!(
            r#"{{"services":{{"web":{{"available":{web},"total":2}},"db":{{"available":{db},"total":1}}}}}}"#
        );
        answer("200 OK", &services)
    };
    replay.play(&all(1, 0));
    waiting.says("waiting: web 1/2 partly available, db 0/1 not available");
    replay.play(&all(1, 1));
    waiting.says("waiting: web 1/2 partly available");
    replay.play(&all(2, 1));
    waiting.says("all replicas of every service are available");
    waiting.ended().good();
}

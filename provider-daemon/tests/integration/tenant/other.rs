//! Recorded responses of the Go provider, as seen by its tenants.

use crate::tenant::replay::Replay;
use crate::tenant::stage::{RunOutput, Stage, TENANT, certificate, sample};
use akash_provider_core::types::Address;
use serde_json::Value;
use std::path::PathBuf;

/// Account of the provider that sent the recorded responses.
pub(crate) const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

struct Other {
    stage: Stage,
    replay: Replay,
    folder: PathBuf,
}

impl Other {
    fn start(name: &str) -> Self {
        let folder = testbed::recordings::folder("peer");
        let stage = Stage::new(name);
        let provider: Address = PROVIDER.parse().unwrap();
        let own = certificate(&stage.chain, &provider);
        let replay = Replay::start(&own);
        stage.register(&provider, &replay.url());
        stage.settle();
        Self {
            stage,
            replay,
            folder,
        }
    }

    fn recording(&self, name: &str) -> Value {
        testbed::recordings::json(&self.folder.join(format!("{name}.json")))
    }

    /// Runs a command for the recorded lease against a replay of `name`.
    fn ran(&self, name: &str, words: &[&str]) -> RunOutput {
        self.replay.play(&self.recording(name));
        let url = self.replay.url();
        let of = ["--dseq", "2194", "--provider", PROVIDER, "--provider-url", &url];
        self.stage.ran(&[words, &of].concat())
    }

    fn request(&self) -> String {
        String::from_utf8_lossy(&self.replay.received())
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn responses_of_the_go_provider_are_decoded() {
    let other = Other::start("other-rest");
    let body = |name: &str| other.recording(name)["response"]["json"].clone();
    let statuses = ["jwt", "ports", "storage", "gpu"].map(|kind| format!("rest/lease-status-{kind}"));
    for name in statuses {
        let out = other.ran(&name, &["lease-status", "-o", "json"]).good();
        assert_eq!(json(&out), body(&name), "{name}");
    }
    assert_eq!(other.request(), "GET /lease/2194/1/1/status HTTP/1.1");
    for kind in ["jwt", "ports", "storage", "gpu"] {
        let name = format!("rest/get-manifest-{kind}");
        let out = other.ran(&name, &["get-manifest", "-o", "json"]).good();
        assert_eq!(json(&out), body(&name), "{name}");
        // The text is the recorded one: fields in the same order and with the same escapes.
        let text = other.recording(&name)["response"]["body"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(out, text + "\n");
    }
    let service = other
        .ran("rest/service-status-jwt", &["service-status", "--service", "web"])
        .good();
    assert_eq!(json(&service), body("rest/service-status-jwt"));
    assert_eq!(other.request(), "GET /lease/2194/1/1/service/web/status HTTP/1.1");
    other.replay.play(&other.recording("rest/status"));
    let status = other.stage.ran(&["status", PROVIDER]).good();
    assert_eq!(json(&status), body("rest/status"));
    let sdl = other.folder.join("sdl/web.yaml").display().to_string();
    let sent = other
        .ran("rest/put-manifest-jwt", &["send-manifest", &sdl])
        .good();
    assert!(sent.contains("PASS"), "{sent}");
    assert_eq!(other.request(), "PUT /deployment/2194/manifest HTTP/1.1");
    let moved = other.ran(
        "rest/migrate-same-lease",
        &["migrate-hostnames", "web.example.com"],
    );
    assert_eq!(moved.good(), "");
    assert_eq!(other.request(), "POST /hostname/migrate HTTP/1.1");
}

#[test]
fn errors_of_the_go_provider_are_printed_unchanged() {
    let other = Other::start("other-refusals");
    let refused = |name: &str, words: &[&str]| {
        let ran = other.ran(&format!("rest/{name}"), &["lease-status"]);
        ran.failed(words);
    };
    refused(
        "err-noauth-lease-status",
        &["status 401", "unauthorized access", "your clock"],
    );
    refused(
        "err-jwt-expired",
        &["status 400", "JWT has invalid claims", "synchronized clocks"],
    );
    refused("err-unknown-lease", &["status 404", "check the names of lease"]);
    refused("apidown-lease-status", &["status 503", "contact the provider"]);
    // Not an HTTP status.
    refused("migrate-same-lease", &["invalid response from"]);
    let sdl = sample("web.yaml");
    let out = other
        .ran("rest/err-put-wrong-hash", &["send-manifest", &sdl, "-o", "json"])
        .failed(&[]);
    let sent = json(&out);
    assert_eq!(sent[0]["status"], "FAIL");
    assert_eq!(sent[0]["errorMessage"], "manifest version validation failed");
    assert!(
        sent[0]["error"].as_str().unwrap().contains("status 422"),
        "{sent}"
    );
    let service = other.ran(
        "rest/err-unknown-service",
        &["service-status", "--service", "nope"],
    );
    service.failed(&["kube: no service for that lease"]);
    let moved = other.ran(
        "rest/err-migrate-no-lease",
        &["migrate-hostnames", "web.example.com"],
    );
    moved.failed(&["destination deployment does not exist"]);
}

#[test]
fn streams_of_the_go_provider_are_printed_and_end_as_recorded() {
    let other = Other::start("other-streams");
    let lease = format!("{TENANT}/2194/1/1/{PROVIDER}");
    // The Go provider ends logs by closing the connection, which is not an error.
    let logs = other.ran("ws/logs", &["lease-logs"]).good();
    assert_eq!(logs, format!("[{lease}][web-577b94d8fb-6tsbv] started\n"));
    assert_eq!(other.request(), "GET /lease/2194/1/1/logs?follow=false HTTP/1.1");
    let chosen = ["lease-logs", "--service", "web,db", "--tail", "5", "-f"];
    other.ran("ws/logs-tail1", &chosen).good();
    let expected = "GET /lease/2194/1/1/logs?follow=true&service=web%2Cdb&tail=5 HTTP/1.1";
    assert_eq!(other.request(), expected);
    let frames = other.recording("ws/events")["frames"].as_array().unwrap().len() - 1;
    let events = other.ran("ws/events", &["lease-events"]).good();
    let read: Vec<Value> = serde_json::Deserializer::from_str(&events)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(read.len(), frames);
    assert_eq!(read[0]["reason"], "Scheduled");
    assert_eq!(read[0]["lease_id"]["provider"], PROVIDER);
    other
        .ran("ws/logs-unknown-lease", &["lease-logs"])
        .failed(&["code 4001", "no such lease"]);
    other
        .ran("ws/logs-ports-pending-gpu", &["lease-logs"])
        .failed(&["closed the stream"]);
    other
        .ran("ws/apidown-logs", &["lease-logs"])
        .failed(&["closed the stream"]);
    other
        .ran("ws/logs-scope-wrong", &["lease-logs"])
        .failed(&["status 401", "unauthorized access"]);
}

#[test]
fn commands_at_the_go_provider_return_exit_code_and_errors_never_succeed() {
    let other = Other::start("other-shell");
    let shell = |name: &str, words: &[&str]| {
        let words = [&["lease-shell", "web"], words].concat();
        other.ran(&format!("ws/{name}"), &words)
    };
    let ended = shell(
        "shell-stdout-stderr-exit3",
        &["/bin/sh -c \"echo out;echo err >&2;exit 3\""],
    );
    assert_eq!(
        (ended.code, ended.out.as_str(), ended.err.as_str()),
        (Some(3), "out\n", "err\n")
    );
    let request = other.request();
    assert!(
        request.contains("cmd0=%2Fbin%2Fsh&cmd1=-c&cmd2=echo+out"),
        "{request}"
    );
    assert!(request.contains("tty=0&stdin=0"), "{request}");
    shell("shell-exit0", &["true"]).good();
    shell("shell-not-found", &["/bin/nonexistent"]).failed(&["because it does not exist"]);
    shell("shell-unknown-service", &["ls"]).failed(&["error: "]);
    shell("shell-pod-out-of-range", &["ls"]).failed(&["pod index out of range"]);
}

pub(crate) fn answer(status: &str, body: &str) -> Value {
    let raw = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    serde_json::json!({"response": {"raw_b64": data_encoding::BASE64.encode(raw.as_bytes())}})
}

#[test]
fn manifest_is_sent_again_while_lease_is_unknown() {
    let stage = Stage::new("again");
    let provider: Address = PROVIDER.parse().unwrap();
    let replay = Replay::start(&certificate(&stage.chain, &provider));
    stage.settle();
    let (sdl, url) = (sample("web.yaml"), replay.url());
    let of = ["--dseq", "2194", "--provider", PROVIDER, "--provider-url", &url];
    let sending = || stage.command(&[&["send-manifest", &sdl], &of[..]].concat());
    replay.play(&answer("404 Not Found", "no lease for deployment\n"));
    let mut command = sending();
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let tries = || {
        let received = replay.received();
        let line = b"PUT /deployment/2194/manifest ";
        received.windows(line.len()).filter(|part| part == line).count()
    };
    crate::tenant::stage::until("a second try", || tries() >= 2);
    replay.play(&answer("200 OK", ""));
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && stdout.contains("PASS"), "{stdout}");
    // A lease that stays unknown is reported in the end. All other errors are reported at once.
    replay.play(&answer("404 Not Found", "no lease for deployment\n"));
    let never = crate::tenant::stage::ran(&mut sending());
    assert!(
        tries() > 2 && never.out.contains("no lease for deployment"),
        "{}",
        never.out
    );
    assert_eq!(never.code, Some(1));
    replay.play(&answer(
        "422 Unprocessable Entity",
        "manifest version validation failed\n",
    ));
    assert_eq!(crate::tenant::stage::ran(&mut sending()).code, Some(1));
    assert_eq!(tries(), 1);
}

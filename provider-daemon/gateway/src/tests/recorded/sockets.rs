//! Comparison of websocket messages with recorded messages.

use super::{Stage, exchanges};
use crate::tests::clients::Client;
use akash_provider_core::cluster::{ExecResult, Operation};
use akash_provider_core::error::ErrorKind;
use serde_json::Value;
use std::sync::Arc;
use testbed::recordings;
use tokio_tungstenite::tungstenite::Message;

/// Messages from a server, without values that differ between machines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ReceivedMessages {
    /// Service and text of each log line, or the JSON keys of each event.
    texts: Vec<String>,
    /// Standard output and standard error.
    output: [Vec<u8>; 2],
    result: Option<Value>,
    failure: bool,
    close: Option<(u16, String)>,
}

impl ReceivedMessages {
    fn text(&mut self, text: &str) {
        let value: Value = serde_json::from_str(text.trim_end_matches('\n')).unwrap();
        assert!(text.ends_with('\n'), "{text}");
        let summary = match value["name"].as_str() {
            Some(name) => {
                let service = name.split('-').next().unwrap();
                format!("{service}: {}", value["message"].as_str().unwrap())
            }
            None => "an event".to_owned(),
        };
        self.texts.push(summary);
    }

    fn binary(&mut self, bytes: &[u8]) {
        match bytes.split_first() {
            Some((100, rest)) => self.output[0].extend(rest),
            Some((101, rest)) => self.output[1].extend(rest),
            Some((102, rest)) => {
                assert!(rest.ends_with(b"\n"));
                let mut result: Value = serde_json::from_slice(rest).unwrap();
                let reason = result["message"].as_str().unwrap_or_default();
                if reason.starts_with("remote command execute error: ") {
                    result["message"] = REASON.into();
                }
                self.result = Some(result);
            }
            Some((103, [])) => self.failure = true,
            other => panic!("{other:?}"),
        }
    }
}

/// Returns the payload of a recorded server frame. Server frames are not masked.
fn payload(frame: &Value) -> Vec<u8> {
    let raw = frame["raw_hex"].as_str().unwrap();
    let raw = data_encoding::HEXLOWER.decode(raw.as_bytes()).unwrap();
    let start = match raw[1] & 0x7f {
        126 => 4,
        127 => 10,
        _ => 2,
    };
    raw[start..].to_vec()
}

fn recorded(frames: &[Value]) -> ReceivedMessages {
    let mut messages = ReceivedMessages::default();
    for frame in frames.iter().filter(|f| f["dir"] == "S->C") {
        match frame["op"].as_u64().unwrap() {
            1 => messages.text(frame["text"].as_str().unwrap()),
            2 => messages.binary(&payload(frame)),
            8 => {
                let reason = String::from_utf8_lossy(&payload(frame)[2..]).into_owned();
                let code = frame["close_code"].as_u64().unwrap();
                messages.close = Some((u16::try_from(code).unwrap(), reason));
            }
            _ => {}
        }
    }
    messages
}

/// Message of a command that did not run. `…` replaces an error text of the cluster.
const REASON: &str = "remote command execute error: …";

/// Applies the intended differences of this provider to the recorded messages.
fn with_our_differences(name: &str, mut recorded: ReceivedMessages) -> ReceivedMessages {
    if recorded.close.is_none() {
        // Every stream ends with a close frame.
        recorded.close = Some((1000, String::new()));
    }
    match name {
        // A command that did not run never looks like a success.
        "shell-not-found" | "shell-pod-out-of-range" | "shell-unknown-service" => {
            let result = recorded.result.as_mut().unwrap();
            assert_eq!(result["exit_code"], 0);
            result["exit_code"] = 1.into();
            result["message"] = REASON.into();
        }
        "shell-unknown-lease" => {
            recorded.result = None;
            recorded.failure = true;
        }
        "apidown-shell" => {
            recorded.result = Some(serde_json::json!({"exit_code": 1, "message": REASON}));
        }
        // The service filter works.
        "events-service-filter" => recorded.texts = vec!["an event".to_owned()],
        _ => {}
    }
    recorded
}

fn prepare(stage: &Stage, name: &str, wanted: &ReceivedMessages) {
    let cluster = &stage.world.cluster;
    for operation in [Operation::Logs, Operation::Exec] {
        if name.starts_with("apidown-") {
            cluster.fail_next(operation, u32::MAX, ErrorKind::Unavailable);
        } else {
            cluster.restore(operation);
        }
    }
    let [stdout, stderr] = wanted.output.clone();
    let code = wanted.result.as_ref().and_then(|r| r["exit_code"].as_i64());
    let code = code.map_or(0, |c| i32::try_from(c).unwrap());
    cluster.set_exec(Arc::new(move |_, _, _| ExecResult {
        stdout: stdout.clone(),
        stderr: stderr.clone(),
        code,
    }));
}

fn cannot_play(name: &str) -> Option<&'static str> {
    match name {
        "events-follow" | "logs-follow" | "shell-text-frame-ignored" => {
            Some("the client ended the recording early")
        }
        "shell-not-found" => Some("an in-memory cluster has every command"),
        "logs-ports-pending-gpu" => Some("an in-memory cluster has no pending pods"),
        "logs-after-update" | "logs-multi" => Some("its pods changed during the recording"),
        _ => None,
    }
}

fn client(
    stage: &Stage,
    recording: &Value,
    certificate: &akash_provider_chain::cert::OwnCertificate,
) -> (Client, String) {
    let request = recording["request"].as_str().unwrap();
    let path = request.split(' ').nth(1).unwrap().to_owned();
    let mut client = stage.world.client();
    for line in request.lines() {
        if let Some((name, value)) = line.split_once(": ")
            && matches!(name, "Authorization" | "Origin")
        {
            client = client.header(name, value);
        }
    }
    if !request.contains("Authorization") {
        client = client.certificate(certificate);
    }
    (client, path)
}

async fn play(client: &Client, path: &str, recording: &Value) -> Result<ReceivedMessages, u16> {
    let mut channel = client.open(path).await.map_err(|refused| refused.status)?;
    let frames = recording["frames"].as_array().cloned().unwrap_or_default();
    for frame in frames.iter().filter(|f| f["dir"] == "C->S" && f["op"] == 2) {
        let bytes = data_encoding::HEXLOWER.decode(frame["hex"].as_str().unwrap_or_default().as_bytes());
        channel.send(Message::Binary(bytes.unwrap().into())).await;
    }
    if path.contains("stdin=1") {
        // The end of the input; an in-memory cluster waits for it.
        channel.send(Message::Binary(vec![104].into())).await;
    }
    let (messages, close) = channel.rest().await;
    let mut received = ReceivedMessages {
        close,
        ..ReceivedMessages::default()
    };
    for message in &messages {
        match message {
            Message::Text(text) => received.text(text),
            Message::Binary(bytes) => received.binary(bytes),
            other => panic!("{other:?}"),
        }
    }
    if path.contains("kubeevents") {
        // Their number depends on the cluster.
        received.texts.dedup();
    }
    Ok(received)
}

fn set_logs(stage: &Stage) {
    let cluster = &stage.world.cluster;
    assert!(cluster.log(&stage.leases[&2194], "web", 0, "started"));
    assert!(cluster.log(&stage.leases[&3298], "db", 0, "db"));
    assert!(cluster.event(&stage.leases[&2194], "web", "Pulled", ""));
}

#[tokio::test]
async fn recorded_websockets_send_the_recorded_messages() {
    let folder = recordings::folder("peer");
    let stage = Stage::set(&folder).await;
    let usage = akash_provider_chain::cert::CertUsage::Client;
    let made = std::time::Duration::from_secs(super::super::world::NOW - 3600);
    let certificate = akash_provider_chain::cert::OwnCertificate::make(&stage.tenant, &usage, made).unwrap();
    stage.world.publish(&certificate.publish());
    set_logs(&stage);
    let all = exchanges(&folder, "ws");
    let (mut wrong, mut played) = (Vec::new(), 0);
    for (name, recording) in &all {
        if let Some(why) = cannot_play(name) {
            println!("skipped: {name}: {why}");
            continue;
        }
        stage.turn_back_clock(recording);
        let frames = recording["frames"].as_array().cloned().unwrap_or_default();
        let mut wanted = recorded(&frames);
        if name.starts_with("events") {
            wanted.texts.dedup();
        }
        prepare(&stage, name, &wanted);
        let (client, path) = client(&stage, recording, &certificate);
        let head = recording["response_head"].as_str().unwrap();
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        let got = play(&client, &path, recording).await;
        let wanted = match status {
            101 => Ok(with_our_differences(name, wanted)),
            refused => Err(refused),
        };
        played += 1;
        if got != wanted {
            wrong.push(format!("{name}: wanted {wanted:?}\n    got {got:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {played}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(played > 20, "{played}");
    stage.world.stop().await;
}

//! Logs, events and commands as websocket frames.

use super::clients::Channel;
use super::world::{SDL, World, token_for, until};
use akash_provider_core::cluster::{ExecResult, Operation};
use akash_provider_core::error::ErrorKind;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_tungstenite::tungstenite::{Bytes, Message};

const SHELL: &str = "/lease/7/1/1/shell?tty=0&podIndex=0&service=web";

async fn open(world: &World, path: &str) -> Channel {
    let token = token_for(&super::world::tenant(1), &json!({"access": "full"}));
    let opened = world.client().bearer(&token).open(path).await;
    opened.unwrap_or_else(|refused| panic!("{path}: {refused:?}"))
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|m| m.to_text().unwrap().to_owned()).collect()
}

fn binary(bytes: &[u8]) -> Message {
    Message::Binary(Bytes::copy_from_slice(bytes))
}

#[tokio::test]
async fn logs_are_sent_as_one_frame_per_line_and_end_with_a_close_frame() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let lease = world.running(key.address(), 7, SDL).await;
    world.cluster.log(&lease, "web", 0, "a <b>");
    world.cluster.log(&lease, "web", 1, "two");
    world.cluster.log(&lease, "db", 0, "three");
    let (lines, end) = open(&world, "/lease/7/1/1/logs").await.rest().await;
    assert_eq!(
        texts(&lines),
        [
            "{\"name\":\"web-0\",\"message\":\"a \\u003cb\\u003e\"}\n",
            "{\"name\":\"web-1\",\"message\":\"two\"}\n",
            "{\"name\":\"db-0\",\"message\":\"three\"}\n",
        ]
    );
    assert_eq!(end, Some((1000, String::new())));
    for (query, count) in [
        ("service=db", 1),
        ("services=db", 1),
        ("tail=0", 0),
        ("tail=1", 3),
    ] {
        let (lines, _) = open(&world, &format!("/lease/7/1/1/logs?{query}"))
            .await
            .rest()
            .await;
        assert_eq!(lines.len(), count, "{query}");
    }
    world.stop().await;
}

#[tokio::test]
async fn followed_logs_continue_until_the_gateway_stops() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let lease = world.running(key.address(), 7, SDL).await;
    let mut channel = open(&world, "/lease/7/1/1/logs?follow=true").await;
    world.cluster.log(&lease, "web", 0, "later");
    assert_eq!(
        texts(&[channel.data().await.unwrap()]),
        ["{\"name\":\"web-0\",\"message\":\"later\"}\n"]
    );
    world.stop_gateway();
    let (_, end) = channel.rest().await;
    assert_eq!(end.unwrap().0, 1001);
    drop(channel);
    world.stop().await;
}

#[tokio::test]
async fn shell_waiting_for_input_ends_with_the_gateway_without_a_result() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let mut channel = open(&world, &format!("{SHELL}&cmd0=cat&stdin=1")).await;
    channel.send(binary(b"\x68half a line")).await;
    world.stop_gateway();
    let (frames, end) = channel.rest().await;
    assert_eq!((frames.len(), end.unwrap().0), (0, 1001));
    drop(channel);
    world.stop().await;
}

#[tokio::test]
async fn failed_stream_ends_with_its_close_code() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let lease = world.running(key.address(), 7, SDL).await;
    assert!(world.cluster.log(&lease, "web", 0, "x"));
    let code = async |path: &str| open(&world, path).await.rest().await.1;
    assert_eq!(code("/lease/9/1/1/logs").await, Some((4001, String::new())));
    assert_eq!(code("/lease/9/1/1/kubeevents").await, Some((4001, String::new())));
    for (kind, wanted) in [
        (ErrorKind::Unavailable, 4002),
        (ErrorKind::Timeout, 4002),
        (ErrorKind::Internal, 4000),
    ] {
        for path in ["/lease/7/1/1/logs", "/lease/7/1/1/kubeevents"] {
            world.cluster.fail_next(Operation::Logs, 1, kind);
            assert_eq!(code(path).await.unwrap().0, wanted, "{path}");
        }
    }
    let none = code("/lease/7/1/1/logs?service=nope").await;
    assert_eq!(none, Some((4000, "no running pods".to_owned())));
    world.stop().await;
}

#[tokio::test]
async fn events_have_the_format_of_the_go_provider() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let lease = world.running(key.address(), 7, SDL).await;
    world.cluster.event(&lease, "web", "Pulled", "the image");
    let mut channel = open(&world, "/lease/7/1/1/kubeevents?service=web&follow=1").await;
    let first: Value = serde_json::from_str(channel.data().await.unwrap().to_text().unwrap()).unwrap();
    assert_eq!(
        first,
        json!({
            "type": "Normal", "reason": "Pulled", "note": "the image",
            "object": {"kind": "", "namespace": "", "name": ""},
        })
    );
    world.cluster.event(&lease, "db", "Other", "");
    world.cluster.event(&lease, "web", "Started", "");
    let second = channel.data().await.unwrap();
    assert!(second.to_text().unwrap().contains("Started"), "{second:?}");
    drop(channel);
    let (events, end) = open(&world, "/lease/7/1/1/kubeevents").await.rest().await;
    assert!(events.len() >= 3);
    assert_eq!(end, Some((1000, String::new())));
    world.stop().await;
}

#[tokio::test]
async fn command_sends_its_output_and_then_its_exit_code() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    world.cluster.set_exec(Arc::new(|_, request, stdin| ExecResult {
        stdout: [request.command.join(" ").into_bytes(), stdin].concat(),
        stderr: b"err".to_vec(),
        code: 3,
    }));
    let mut channel = open(&world, &format!("{SHELL}&stdin=0&cmd0=echo&cmd1=hi")).await;
    let (mut frames, _) = channel.rest().await;
    let last = frames.pop().unwrap();
    assert_eq!(last, binary(b"f{\"exit_code\":3}\n"));
    frames.sort_by_key(|m| m.clone().into_data());
    assert_eq!(frames, [binary(b"decho hi"), binary(b"eerr")]);

    let mut channel = open(&world, &format!("{SHELL}&stdin=1&cmd0=cat")).await;
    for frame in [&b"h one"[..], b"", b"\x01bad", b"i\0d\0(", b"h two", b"h"] {
        channel.send(binary(frame)).await;
    }
    channel.send(Message::text("h ignored")).await;
    let (frames, _) = channel.rest().await;
    assert!(frames.contains(&binary(b"dcat one two")), "{frames:?}");
    world.stop().await;
}

#[tokio::test]
async fn command_that_did_not_run_never_reports_success() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let result = async |path: &str| {
        let (mut frames, _) = open(&world, path).await.rest().await;
        assert_eq!(frames.len(), 1, "{frames:?}");
        frames.remove(0).into_data()
    };
    let failed = |text: &Bytes| {
        assert_eq!(text[0], 102);
        let outcome: Value = serde_json::from_slice(&text[1..]).unwrap();
        assert_eq!(outcome["exit_code"], 1);
        let message = outcome["message"].as_str().unwrap();
        assert!(message.starts_with("remote command execute error: "), "{message}");
    };
    failed(&result(&format!("{}&stdin=0&cmd0=ls", SHELL.replace("web", "nope"))).await);
    failed(
        &result(&format!(
            "{}&stdin=0&cmd0=ls",
            SHELL.replace("podIndex=0", "podIndex=9")
        ))
        .await,
    );
    let unknown = format!("{}&stdin=0&cmd0=ls", SHELL.replace("/7/", "/9/"));
    assert_eq!(result(&unknown).await, Bytes::from_static(&[103]));
    for (kind, code) in [
        (ErrorKind::Invalid, 102),
        (ErrorKind::Unavailable, 102),
        (ErrorKind::Timeout, 102),
        (ErrorKind::Internal, 103),
    ] {
        world.cluster.fail_next(Operation::Exec, 1, kind);
        let exit = result(&format!("{SHELL}&stdin=0&cmd0=ls")).await;
        assert_eq!(exit[0], code, "{kind:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn client_without_ping_response_is_disconnected() {
    let world = World::with(|s| {
        s.limits.ping = Duration::from_millis(50);
        s.limits.pong = Duration::from_millis(200);
        s.limits.streams_per_tenant = 1;
    })
    .await;
    let key = world.known_tenant(1);
    world.running(key.address(), 7, SDL).await;
    let follow = "/lease/7/1/1/logs?follow=true";
    let mut channel = open(&world, follow).await;
    for _ in 0..8 {
        // Reading sends the responses to pings.
        let ping = channel.next().await;
        assert_eq!(ping, Some(Message::Ping(Bytes::new())));
    }
    // Without reads there are no responses, so the gateway closes the stream: a permit is free again.
    let client = world.tenant_client(&key);
    until("a permit", || async { client.open(follow).await.is_ok() }).await;
    drop(channel);
    world.stop().await;
}

#[tokio::test]
async fn streams_of_a_tenant_are_limited_and_released() {
    let world = World::with(|s| s.limits.streams_per_tenant = 2).await;
    let (key, other) = (world.known_tenant(1), world.known_tenant(2));
    world.running(key.address(), 7, SDL).await;
    let follow = "/lease/7/1/1/logs?follow=true";
    let first = open(&world, follow).await;
    let _second = open(&world, follow).await;
    let client = world.tenant_client(&key);
    assert_eq!(client.open(follow).await.err().unwrap().status, 429);
    let others = world.tenant_client(&other);
    assert!(others.open(follow).await.is_ok());
    drop(first);
    until("a permit", || async { client.open(follow).await.is_ok() }).await;
    world.stop().await;
}

#[tokio::test]
async fn slow_reader_only_delays_its_own_stream() {
    let world = World::with(|s| s.limits.stalled = Duration::from_millis(300)).await;
    let key = world.known_tenant(1);
    let lease = world.running(key.address(), 7, SDL).await;
    let slow = open(&world, "/lease/7/1/1/logs?follow=true").await;
    let mut quick = open(&world, "/lease/7/1/1/logs?follow=true").await;
    let line = "x".repeat(64 * 1024);
    for number in 0..200 {
        world.cluster.log(&lease, "web", 0, &format!("{number} {line}"));
        let got = quick.data().await.unwrap();
        assert!(
            got.to_text().unwrap().contains(&format!("\"{number} x")),
            "{number}"
        );
    }
    drop(slow);
    world.stop().await;
}

//! Streams of a tenant at a gateway: followed logs, followed events, and a command that reads input.

use crate::clients::{Channel, Client};
use crate::network::{Account, Network};
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;

/// URL path of the lease.
pub(crate) const LEASE: &str = "/lease/7/1/1";
const LOGS: &str = "/logs?follow=true&tail=1&service=web";
const EVENTS: &str = "/kubeevents?follow=true";
const SHELL: &str = "/shell?cmd0=cat&tty=0&stdin=1&service=web&podIndex=0";
const STDIN: u8 = 104;
const STDOUT: u8 = 100;

/// Open streams, which have already delivered data.
pub(crate) struct Streams<'a> {
    network: &'a Network,
    open: Vec<(String, Channel)>,
    /// Highest number in the received log lines.
    pub(crate) tick: u64,
}

/// Name of an ended stream, and code and reason of its close frame, if any.
pub(crate) type Ended = (String, Option<(u16, String)>);

impl<'a> Streams<'a> {
    /// Opens streams of logs, events and a shell: one set with a token, and one set with a certificate.
    pub(crate) fn open(network: &'a Network, tenant: &Account<'_>) -> Self {
        let mut streams = Self {
            network,
            open: Vec::new(),
            tick: 0,
        };
        for (name, client) in tenant.clients() {
            let opened = async {
                let (mut logs, tick) = logs(&client).await;
                assert!(
                    ticks(&mut logs).await > tick,
                    "{name}: the numbers do not increase"
                );
                [
                    (LOGS, logs),
                    (EVENTS, events(&client).await),
                    (SHELL, shell(&client).await),
                ]
                .map(|s| (s, tick))
            };
            for ((path, channel), tick) in network.runtime.block_on(opened) {
                streams.open.push((format!("{name} {path}"), channel));
                streams.tick = streams.tick.max(tick);
            }
        }
        streams
    }

    pub(crate) fn ended(self) -> Vec<Ended> {
        let all = self.open.into_iter().map(|(name, mut channel)| {
            let (_, frame) = self.network.runtime.block_on(channel.rest());
            (name, frame)
        });
        all.collect()
    }
}

async fn opened(client: &Client, path: &str) -> Channel {
    let channel = client.open(&format!("{LEASE}{path}")).await;
    channel.unwrap_or_else(|reply| panic!("{path}: {reply:?}"))
}

async fn text(channel: &mut Channel) -> Value {
    match channel.data().await {
        Some(Message::Text(text)) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Returns the number in the next log line `tick …`.
async fn ticks(channel: &mut Channel) -> u64 {
    loop {
        let line = text(channel).await;
        assert!(line["name"].as_str().unwrap().starts_with("web-"), "{line}");
        let message = line["message"].as_str().unwrap();
        if let Some(tick) = message.strip_prefix("tick ") {
            return tick.trim().parse().unwrap();
        }
    }
}

async fn logs(client: &Client) -> (Channel, u64) {
    let mut channel = opened(client, LOGS).await;
    let tick = ticks(&mut channel).await;
    (channel, tick)
}

async fn events(client: &Client) -> Channel {
    let mut channel = opened(client, EVENTS).await;
    let event = text(&mut channel).await;
    assert!(event["reason"].is_string(), "{event}");
    channel
}

/// Opens a command that echoes its input.
async fn shell(client: &Client) -> Channel {
    let mut channel = opened(client, SHELL).await;
    let input = [&[STDIN], &b"are you there\n"[..]].concat();
    channel.send(Message::Binary(input.into())).await;
    match channel.data().await {
        Some(Message::Binary(bytes)) => {
            assert_eq!(bytes.split_first(), Some((&STDOUT, &b"are you there\n"[..])));
        }
        other => panic!("{other:?}"),
    }
    channel
}

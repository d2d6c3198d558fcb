//! `bus`: what a provider publishes, read from another process.

use crate::args::Output;
use crate::args::bus::{BusCommand, TailArgs};
use crate::commands::chain::block_on;
use crate::plain::plain;
use akash_provider_core::bus::{Bus, Delivery};
use akash_provider_core::types::{Event, Topic, event_schema};
use akash_provider_redis::RedisBus;
use anyhow::Context;
use futures::StreamExt;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

/// Does what is asked of the bus.
///
/// # Errors
/// No bus is named, or it cannot be reached.
pub fn run(command: &BusCommand) -> anyhow::Result<ExitCode> {
    match command {
        BusCommand::Tail(args) => block_on(tail(args)),
        BusCommand::Schema => {
            say(&format!("{}\n", serde_json::to_string_pretty(&event_schema())?))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn tail(args: &TailArgs) -> anyhow::Result<ExitCode> {
    let location = args.bus.location()?;
    let location = location.context("no bus is named: give --bus redis://HOST, as to the provider")?;
    let bus = RedisBus::new(location);
    let topics = match args.topics.as_slice() {
        [] => &Topic::ALL[..],
        some => some,
    };
    // Before what is retained is read, or what comes in between would be missed.
    let mut deliveries = bus.subscribe(topics).await?;
    if args.last {
        for topic in topics {
            if let Some(event) = bus.last(*topic).await? {
                say(&shown(args.output, *topic, &event)?)?;
            }
        }
    }
    while let Some(delivery) = deliveries.next().await {
        let line = match delivery {
            Delivery::Event { topic, event } => shown(args.output, topic, &event)?,
            Delivery::Lagged(lost) => missed(args.output, lost),
        };
        say(&line)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails when nobody reads any more, which ends the command.
fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(plain(line).as_bytes())?;
    out.flush()
}

fn shown(output: Output, topic: Topic, event: &Event) -> anyhow::Result<String> {
    let name = topic.name();
    Ok(match output {
        Output::Json => format!("{}\n", json!({ "topic": name, "event": event.with_id() })),
        Output::Text => format!("{name:<34} {}\n", serde_json::to_string(&event.with_id())?),
    })
}

fn missed(output: Output, lost: Option<u64>) -> String {
    match (output, lost) {
        (Output::Json, lost) => format!("{}\n", json!({ "lost": lost })),
        (Output::Text, Some(lost)) => format!("{lost} events were missed\n"),
        (Output::Text, None) => "events may have been missed: the server changed or lost some\n".to_owned(),
    }
}

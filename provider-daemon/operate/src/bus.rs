//! `bus`: reads the events of a provider from another process.

use crate::args::bus::{BusCommand, TailArgs};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::Output;
use akash_provider_cli::node::block_on;
use akash_provider_cli::output;
use akash_provider_core::bus::{Bus, Delivery};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::types::{Event, Topic, event_schema};
use akash_provider_redis::RedisBus;
use anyhow::Context;
use futures::StreamExt;
use serde_json::json;
use std::process::ExitCode;

/// Runs a `bus` command.
///
/// # Errors
/// Returns an error if no bus is configured, or if the connection fails.
pub fn run(command: &BusCommand) -> anyhow::Result<ExitCode> {
    match command {
        BusCommand::Tail(args) => block_on(tail(args)),
        BusCommand::Schema => {
            output::write(&format!("{}\n", serde_json::to_string_pretty(&event_schema())?))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn tail(args: &TailArgs) -> anyhow::Result<ExitCode> {
    let location = args.bus.location()?;
    let location = location.with_context(|| WithHelp::new("missing --bus", "add --bus redis://HOST:6379"))?;
    let bus = RedisBus::new(location, LeadershipGate::new(false));
    let topics = match args.topics.as_slice() {
        [] => &Topic::ALL[..],
        some => some,
    };
    // Subscribed before the retained events are read, so that no event in between is lost.
    let mut deliveries = bus.subscribe(topics).await?;
    if args.last {
        for topic in topics {
            if let Some(event) = bus.last(*topic).await? {
                output::write(&format_event(args.output, *topic, &event)?)?;
            }
        }
    }
    while let Some(delivery) = deliveries.next().await {
        let line = match delivery {
            Delivery::Event { topic, event } => format_event(args.output, topic, &event)?,
            Delivery::Lagged(lost) => format_loss(args.output, lost),
        };
        output::write(&line)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn format_event(output: Output, topic: Topic, event: &Event) -> anyhow::Result<String> {
    let name = topic.name();
    Ok(match output {
        Output::Json => format!("{}\n", json!({ "topic": name, "event": event.with_id() })),
        Output::Text => format!("{name:<34} {}\n", serde_json::to_string(&event.with_id())?),
    })
}

fn format_loss(output: Output, lost: Option<u64>) -> String {
    match (output, lost) {
        (Output::Json, lost) => format!("{}\n", json!({ "lost": lost })),
        (Output::Text, Some(lost)) => format!("{lost} events lost\n"),
        (Output::Text, None) => "events may be lost: the server changed\n".to_owned(),
    }
}

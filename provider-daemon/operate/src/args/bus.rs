//! Flags of `bus`.

use akash_provider_cli::flags::Output;
use akash_provider_core::types::Topic;
use akash_provider_service::args::BusArgs;
use clap::{Args, Subcommand};

/// Actions of `bus`.
#[derive(Debug, Subcommand)]
pub enum BusCommand {
    /// Print events as they arrive, until the command is stopped
    Tail(Box<TailArgs>),
    /// Print the JSON Schema of events
    Schema,
}

/// Arguments of `bus tail`.
#[derive(Debug, Args)]
pub struct TailArgs {
    /// Topics to read [default: all]
    #[arg(value_name = "TOPIC", value_parser = topic)]
    pub topics: Vec<Topic>,
    /// Print the retained events of these topics first
    #[arg(long)]
    pub last: bool,
    /// Output format; json prints one object per line
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
    /// Event bus.
    #[command(flatten)]
    pub bus: BusArgs,
}

fn topic(text: &str) -> Result<Topic, String> {
    let found = Topic::ALL.into_iter().find(|topic| topic.name() == text);
    found.ok_or_else(|| {
        let names = Topic::ALL.map(Topic::name).join(", ");
        format!("expected one of {names}")
    })
}

//! Flags of `events`.

use akash_provider_cli::flags::NodeArgs;
use clap::Args;

/// Arguments of `events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Height of the first block [default: the newest block]
    #[arg(long, value_name = "HEIGHT", value_parser = clap::value_parser!(u64).range(1..))]
    pub from_height: Option<u64>,
    /// Stop after this number of blocks [default: until the command is stopped]
    #[arg(long, value_name = "COUNT")]
    pub blocks: Option<u64>,
    /// Nodes of the chain.
    #[command(flatten)]
    pub node: NodeArgs,
}

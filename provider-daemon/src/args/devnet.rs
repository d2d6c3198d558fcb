//! Flags of `devnet`.

use super::{Output, values};
use akash_provider_core::types::{Address, BidId, Coin};
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of `devnet`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DevnetArgs {
    /// Act on a network instead of serving one.
    #[command(subcommand)]
    pub act: Option<DevnetAct>,
    /// What is served.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// What is served.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where JSON-RPC and its websocket are served.
    #[arg(long, default_value = "127.0.0.1:26657", value_name = "ADDRESS")]
    pub listen_rpc: SocketAddr,
    /// Where gRPC is served.
    #[arg(long, default_value = "127.0.0.1:9090", value_name = "ADDRESS")]
    pub listen_grpc: SocketAddr,
    /// How much time passes between blocks.
    #[arg(long, default_value = "1s", value_parser = values::duration)]
    pub block_time: Duration,
    /// Id of a new chain.
    #[arg(long, default_value = "devnet")]
    pub chain_id: String,
    /// Keep the chain in this file and go on from it.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Money for an account, out of nothing; may be given several times.
    #[arg(long, value_name = "ADDRESS=COIN", value_parser = fund)]
    pub fund: Vec<(Address, Coin)>,
    /// Folder of the keyring (backend `test`); keys that are not there are made. By default
    /// `akash-provider/devnet` in the user's cache.
    #[arg(long, value_name = "DIR", alias = "keys")]
    pub keyring_dir: Option<PathBuf>,
    /// How to print what happens.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Who acts.
#[derive(Debug, Subcommand)]
pub enum DevnetAct {
    /// Act as a tenant, by signed transactions.
    Tenant(Box<TenantArgs>),
}

/// A tenant, and what it does.
#[derive(Debug, Args)]
pub struct TenantArgs {
    /// What it does.
    #[command(subcommand)]
    pub command: TenantCommand,
    /// The node: its JSON-RPC (`http://…`) or its gRPC (`grpc://…`); several, with commas, stand in for each other.
    #[arg(
        long,
        global = true,
        value_delimiter = ',',
        default_value = "http://127.0.0.1:26657",
        value_name = "URL"
    )]
    pub node: Vec<String>,
    /// Id of the chain.
    #[arg(long, global = true, default_value = "devnet")]
    pub chain_id: String,
    /// Name or address of the key.
    #[arg(long, global = true, default_value = "tenant", value_name = "KEY")]
    pub from: String,
    /// Folder of the keyring (backend `test`).
    #[arg(long, global = true, value_name = "DIR", alias = "keys")]
    pub keyring_dir: Option<PathBuf>,
    /// How to print what happens.
    #[arg(long, short, global = true, value_enum, default_value = "text")]
    pub output: Output,
}

/// What a tenant does.
#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Put the groups of an SDL on the chain as a deployment.
    Deploy {
        /// The SDL file; `-` reads standard input.
        sdl: PathBuf,
        /// Number of the deployment; by default the chain's height.
        #[arg(long)]
        dseq: Option<u64>,
        /// Money that it begins with.
        #[arg(long, default_value = "5000000uact", value_name = "COIN")]
        deposit: Coin,
    },
    /// Take a bid, or the cheapest bid of every open order of a deployment.
    Accept {
        /// A deployment's number, or a bid as `owner/dseq/gseq/oseq/provider`.
        #[arg(value_name = "DSEQ|BID", value_parser = accepted)]
        what: Accepted,
    },
    /// Change the manifest of a deployment to that of an SDL.
    Update {
        /// Number of the deployment.
        dseq: u64,
        /// The SDL file; `-` reads standard input.
        sdl: PathBuf,
    },
    /// End a deployment and all its leases.
    Close {
        /// Number of the tenant's deployment.
        dseq: u64,
    },
    /// Give a deployment more money.
    Deposit {
        /// Number of the tenant's deployment.
        dseq: u64,
        /// How much it gets, such as 5000000uact.
        coin: Coin,
    },
}

/// Which bids a tenant accepts: told by the number of a deployment, or by the id of one bid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// The cheapest bid of every open order of this deployment.
    Deployment(u64),
    /// This bid alone, whatever the others cost.
    Bid(Box<BidId>),
}

fn accepted(text: &str) -> Result<Accepted, String> {
    if let Ok(dseq) = text.parse() {
        return Ok(Accepted::Deployment(dseq));
    }
    let bid = text
        .parse()
        .map_err(|e| format!("{e}; or give a deployment's number"))?;
    Ok(Accepted::Bid(Box::new(bid)))
}

fn fund(text: &str) -> Result<(Address, Coin), String> {
    let (address, coin) = text
        .split_once('=')
        .ok_or_else(|| "write it as akash1…=5000000uakt".to_owned())?;
    let address = address.parse().map_err(|e| format!("{e}"))?;
    let coin = coin
        .parse()
        .map_err(|e| format!("{e}; write it as 5000000uakt"))?;
    Ok((address, coin))
}

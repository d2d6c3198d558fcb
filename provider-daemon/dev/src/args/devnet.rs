//! Flags of `devnet`.

use akash_provider_cli::flags::Output;
use akash_provider_cli::values;
use akash_provider_core::types::{Address, BidId, Coin};
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `devnet`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DevnetArgs {
    /// Action on a running network.
    #[command(subcommand)]
    pub act: Option<DevnetAct>,
    /// Network to serve.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// Development network to serve.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Listen address of JSON-RPC and its websocket
    #[arg(long, default_value = "127.0.0.1:26657", value_name = "ADDRESS")]
    pub listen_rpc: SocketAddr,
    /// Listen address of the gRPC endpoint
    #[arg(long, default_value = "127.0.0.1:9090", value_name = "ADDRESS")]
    pub listen_grpc: SocketAddr,
    /// Time between two blocks
    #[arg(long, default_value = "1s", value_parser = values::duration)]
    pub block_time: Duration,
    /// Chain ID of the new chain
    #[arg(long, default_value = "devnet")]
    pub chain_id: String,
    /// File that stores the chain between runs
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Initial balance of an account; repeatable
    #[arg(long, value_name = "ADDRESS=COIN", value_parser = fund)]
    pub fund: Vec<(Address, Coin)>,
    /// Keyring directory (backend test); missing keys are created [default: akash-provider/devnet in the user cache]
    #[arg(long, value_name = "DIR", alias = "keys")]
    pub keyring_dir: Option<PathBuf>,
    /// Output format of events
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Roles on a running network.
#[derive(Debug, Subcommand)]
pub enum DevnetAct {
    /// Act as a tenant, with signed transactions
    Tenant(Box<TenantArgs>),
}

/// Arguments of `devnet tenant`.
#[derive(Debug, Args)]
pub struct TenantArgs {
    /// Action of the tenant.
    #[command(subcommand)]
    pub command: TenantCommand,
    /// Node URLs, comma-separated for fail-over: http:// (JSON-RPC) or grpc://
    #[arg(
        long,
        global = true,
        value_delimiter = ',',
        default_value = "http://127.0.0.1:26657",
        value_name = "URL"
    )]
    pub node: Vec<String>,
    /// Chain ID of the network
    #[arg(long, global = true, default_value = "devnet")]
    pub chain_id: String,
    /// Name or address of the key
    #[arg(long, global = true, default_value = "tenant", value_name = "KEY")]
    pub from: String,
    /// Directory of the keyring (backend test)
    #[arg(long, global = true, value_name = "DIR", alias = "keys")]
    pub keyring_dir: Option<PathBuf>,
    /// Output format of the result
    #[arg(long, short, global = true, value_enum, default_value = "text")]
    pub output: Output,
}

/// Actions of a tenant.
#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Create a deployment from the groups of an SDL
    Deploy {
        /// SDL file; `-` reads standard input
        sdl: PathBuf,
        /// Sequence number of the deployment (dseq) [default: the height of the chain]
        #[arg(long)]
        dseq: Option<u64>,
        /// Initial deposit of the deployment
        #[arg(long, default_value = "5000000uact", value_name = "COIN")]
        deposit: Coin,
    },
    /// Accept one bid, or the cheapest bid on every open order of a deployment
    Accept {
        /// Sequence number of a deployment (dseq), or a bid as OWNER/DSEQ/GSEQ/OSEQ/PROVIDER
        #[arg(value_name = "DSEQ|BID", value_parser = selected_bids)]
        what: BidSelection,
    },
    /// Replace the manifest of a deployment with the manifest of an SDL
    Update {
        /// Sequence number of the deployment (dseq)
        dseq: u64,
        /// SDL file; `-` reads standard input
        sdl: PathBuf,
    },
    /// Close a deployment and all its leases
    Close {
        /// Sequence number of the deployment (dseq)
        dseq: u64,
    },
    /// Add a deposit to a deployment
    Deposit {
        /// Sequence number of the deployment (dseq)
        dseq: u64,
        /// Amount to deposit, for example 5000000uact
        coin: Coin,
    },
}

/// Bids that a tenant selects for acceptance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BidSelection {
    /// Cheapest bid on every open order of the deployment with this sequence number.
    Deployment(u64),
    /// Bid with this ID.
    Bid(Box<BidId>),
}

fn selected_bids(text: &str) -> Result<BidSelection, String> {
    if let Ok(dseq) = text.parse() {
        return Ok(BidSelection::Deployment(dseq));
    }
    let bid = text
        .parse()
        .map_err(|e| format!("{e}; expected the number of a deployment, or a bid ID"))?;
    Ok(BidSelection::Bid(Box::new(bid)))
}

fn fund(text: &str) -> Result<(Address, Coin), String> {
    let (address, coin) = text
        .split_once('=')
        .ok_or_else(|| "expected ADDRESS=COIN, such as akash1…=5000000uakt".to_owned())?;
    let address = address.parse().map_err(|e| format!("{e}"))?;
    let coin = coin
        .parse()
        .map_err(|e| format!("{e}; expected an amount such as 5000000uakt"))?;
    Ok((address, coin))
}

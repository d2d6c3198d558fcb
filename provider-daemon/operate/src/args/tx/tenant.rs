//! Flags of tenant transactions, with the names of the Go provider.

use akash_provider_cli::values;
use akash_provider_core::types::{Address, Coin};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Actions on deployments.
#[derive(Debug, Subcommand)]
pub enum DeploymentTx {
    /// Create a deployment: put the groups of an SDL on the chain
    Create(CreateArgs),
    /// Update the manifest of a deployment; the groups must not change
    Update {
        /// SDL file; `-` reads standard input
        sdl: PathBuf,
        /// Deployment.
        #[command(flatten)]
        which: DeploymentArgs,
    },
    /// Close a deployment and its leases, and return the remaining deposit
    Close {
        /// Deployment.
        #[command(flatten)]
        which: DeploymentArgs,
    },
}

/// Arguments of `tx deployment create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// SDL file; `-` reads standard input
    pub sdl: PathBuf,
    /// Sequence number of the deployment (dseq) [default: the height of the chain]
    #[arg(long)]
    pub dseq: Option<u64>,
    /// Initial deposit in the token of the SDL's prices [default: the minimum of the chain]
    #[arg(long, value_name = "COIN", value_parser = values::coin)]
    pub deposit: Option<Coin>,
    /// Tenant account; only the account of the key is valid
    #[arg(long, hide = true)]
    pub owner: Option<Address>,
}

/// Deployment of the key's account.
#[derive(Debug, Clone, Args)]
pub struct DeploymentArgs {
    /// Sequence number of the deployment (dseq)
    #[arg(long)]
    pub dseq: u64,
    /// Tenant account; only the account of the key is valid
    #[arg(long, hide = true)]
    pub owner: Option<Address>,
}

/// Actions on the market.
#[derive(Debug, Subcommand)]
pub enum MarketTx {
    /// Close a bid of the provider, and its lease
    #[command(subcommand)]
    Bid(BidTx),
    /// Create, close or settle leases
    #[command(subcommand)]
    Lease(LeaseTx),
}

/// Actions on bids.
#[derive(Debug, Subcommand)]
pub enum BidTx {
    /// Close an open bid, or the lease of a winning bid, as its provider
    Close {
        /// Bid.
        #[command(flatten)]
        which: BidArgs,
        /// Reason on the chain, from 10000 to 19999: 10000 unstable, 10001 decommission, 10002 unspecified, 10003
        /// manifest timeout
        #[arg(long, value_name = "NUMBER", default_value_t = 10_002,
              value_parser = clap::value_parser!(u32).range(10_000..20_000))]
        reason: u32,
    },
}

/// Actions on leases.
#[derive(Debug, Subcommand)]
pub enum LeaseTx {
    /// Accept the cheapest bid on every open order of a deployment, or the bids of --provider
    Create(LeaseCreateArgs),
    /// Settle a lease and withdraw its earnings, as its provider
    Withdraw(BidArgs),
    /// Close a lease, as its tenant
    Close(BidArgs),
}

/// ID of a bid, and of the lease of a winning bid.
#[derive(Debug, Args)]
pub struct BidArgs {
    /// Sequence number of the deployment (dseq)
    #[arg(long)]
    pub dseq: u64,
    /// Sequence number of the group (gseq)
    #[arg(long, default_value_t = 1)]
    pub gseq: u32,
    /// Sequence number of the order (oseq)
    #[arg(long, default_value_t = 1)]
    pub oseq: u32,
    /// Tenant account; not required with the key of the tenant
    #[arg(long, value_name = "ADDRESS")]
    pub owner: Option<Address>,
    /// Provider account; not required with the key of the provider
    #[arg(long, value_name = "ADDRESS")]
    pub provider: Option<Address>,
}

/// Arguments of `tx market lease create`.
#[derive(Debug, Args)]
pub struct LeaseCreateArgs {
    /// Deployment.
    #[command(flatten)]
    pub which: DeploymentArgs,
    /// Only orders of this group (gseq)
    #[arg(long)]
    pub gseq: Option<u32>,
    /// Only this order of the group (oseq)
    #[arg(long)]
    pub oseq: Option<u32>,
    /// Only the bid of this provider
    #[arg(long, value_name = "ADDRESS")]
    pub provider: Option<Address>,
    /// Maximum time to wait for a bid; --wait alone means 5m [default: no wait]
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "5m",
          value_parser = values::duration)]
    pub wait: Option<Duration>,
}

/// Actions on escrow accounts.
#[derive(Debug, Subcommand)]
pub enum EscrowTx {
    /// Deposit money into an escrow account
    #[command(subcommand)]
    Deposit(DepositTx),
}

/// Targets of a deposit.
#[derive(Debug, Subcommand)]
pub enum DepositTx {
    /// Deposit money for a deployment, from the balance of the account
    Deployment {
        /// Amount to deposit, for example `5000000uact`
        #[arg(value_name = "COIN", value_parser = values::coin)]
        amount: Coin,
        /// Deployment.
        #[command(flatten)]
        which: DeploymentArgs,
    },
}

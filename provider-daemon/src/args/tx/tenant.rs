//! Flags of the transactions of a tenant, named as in today's tool.

use super::super::values;
use akash_provider_core::types::{Address, Coin};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// About deployments.
#[derive(Debug, Subcommand)]
pub enum DeploymentTx {
    /// Put the groups of an SDL on the chain, where providers bid on them.
    Create(CreateArgs),
    /// Change the manifest to that of an SDL; its groups must be those of before.
    Update {
        /// The SDL; `-` reads standard input.
        sdl: PathBuf,
        /// Which.
        #[command(flatten)]
        which: DeploymentArgs,
    },
    /// End it with its leases, and take back what is left of its money.
    Close {
        /// Which.
        #[command(flatten)]
        which: DeploymentArgs,
    },
}

/// Settings of `tx deployment create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// The SDL; `-` reads standard input.
    pub sdl: PathBuf,
    /// Number of the deployment; without it the chain's height.
    #[arg(long)]
    pub dseq: Option<u64>,
    /// Its first money, in the token of the SDL's prices; without it the least that the chain takes.
    #[arg(long, value_name = "COIN", value_parser = values::coin)]
    pub deposit: Option<Coin>,
    /// The tenant; nobody but the key's own account can be one.
    #[arg(long, hide = true)]
    pub owner: Option<Address>,
}

/// One deployment of the key's account.
#[derive(Debug, Clone, Args)]
pub struct DeploymentArgs {
    /// Number of the deployment, as `create` printed it.
    #[arg(long)]
    pub dseq: u64,
    /// The tenant; nobody but the key's own account can be one.
    #[arg(long, hide = true)]
    pub owner: Option<Address>,
}

/// About the market.
#[derive(Debug, Subcommand)]
pub enum MarketTx {
    /// Make leases of the bids on orders.
    #[command(subcommand)]
    Lease(LeaseTx),
}

/// About leases.
#[derive(Debug, Subcommand)]
pub enum LeaseTx {
    /// Take bids: that of a provider, or the cheapest one of every open order of a deployment.
    Create(LeaseCreateArgs),
}

/// Settings of `tx market lease create`.
#[derive(Debug, Args)]
pub struct LeaseCreateArgs {
    /// Which.
    #[command(flatten)]
    pub which: DeploymentArgs,
    /// Only of this group.
    #[arg(long)]
    pub gseq: Option<u32>,
    /// Only of this order of the group.
    #[arg(long)]
    pub oseq: Option<u32>,
    /// Only the bid of this provider.
    #[arg(long, value_name = "ADDRESS")]
    pub provider: Option<Address>,
    /// Wait until there is a bid, for so long at most; 5m where no time is given.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "5m",
          value_parser = values::duration)]
    pub wait: Option<Duration>,
}

/// About accounts that pay for leases.
#[derive(Debug, Subcommand)]
pub enum EscrowTx {
    /// Add money to what leases are paid from.
    #[command(subcommand)]
    Deposit(DepositTx),
}

/// To what money is added.
#[derive(Debug, Subcommand)]
pub enum DepositTx {
    /// Add money to a deployment, from the account's own balance.
    Deployment {
        /// How much to add, for example `5000000uact`.
        #[arg(value_name = "COIN", value_parser = values::coin)]
        amount: Coin,
        /// Which.
        #[command(flatten)]
        which: DeploymentArgs,
    },
}

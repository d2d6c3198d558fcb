//! Flags of the commands that control a running provider.

use super::orders::{OrderArgs, OrdersArgs, SummaryArgs};
use akash_provider_cli::values::check_log_levels;
use akash_provider_core::types::{Address, CloseReason, LeaseId};
use akash_provider_service::args::{AuditArgs, OutputArgs};
use clap::{Args, Subcommand, ValueEnum};

/// Commands for the running provider that uses the home directory `--home`.
#[derive(Debug, Subcommand)]
pub enum OperatorCommand {
    /// Show or release the circuit breaker, which limits how many leases the provider closes
    Breaker(BreakerArgs),
    /// Let the running provider compare the chain, the cluster and its own state now, and repair the
    /// differences
    #[command(alias = "scan")]
    Reconcile(ReconcileArgs),
    /// List the leases of the running provider, with their states, prices, earnings and problems
    Leases(OutputArgs),
    /// Show the free capacity by node and GPU model, and the resources that are not offered, with remedies
    Capacity(OutputArgs),
    /// Apply the isolation settings of the provider to running leases; changed pods are replaced
    Harden(HardenArgs),
    /// Close a lease of the running provider on the chain, and remove its workload
    EndLease(EndLeaseArgs),
    /// Show the log level of the running provider, or change it until the provider stops
    LogLevel(LogLevelArgs),
    /// List recorded orders with their decisions, prices and outcomes
    Orders(OrdersArgs),
    /// Show the recorded timeline of an order, from its creation to the running workload
    Order(OrderArgs),
    /// List acts that spent money, destroyed data or changed the provider, with actor, reason and evidence
    Audit(AuditArgs),
    /// Summarize recorded orders, and list the price or capacity changes that would have won the most orders
    Summary(SummaryArgs),
}

/// Arguments of `log-level`.
#[derive(Debug, Args)]
pub struct LogLevelArgs {
    /// New log level or filter, as for --log-level; without it, the command shows the current level
    #[arg(value_parser = log_level)]
    pub level: Option<String>,
    /// Output options.
    #[command(flatten)]
    pub printed: OutputArgs,
}

fn log_level(text: &str) -> Result<String, String> {
    check_log_levels(text).map(|()| text.to_owned())
}

/// Arguments of `end-lease`.
#[derive(Debug, Args)]
pub struct EndLeaseArgs {
    /// Lease to close, as OWNER/DSEQ/GSEQ/OSEQ/PROVIDER
    pub lease: LeaseId,
    /// Reason that the chain records
    #[arg(long, value_enum, default_value = "unspecified")]
    pub reason: EndReason,
    /// Output options.
    #[command(flatten)]
    pub printed: OutputArgs,
}

/// Reason for which the operator of the provider closes a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EndReason {
    /// The workload is not healthy
    Unstable,
    /// The capacity is decommissioned
    Decommission,
    /// No reason is given
    Unspecified,
}

impl EndReason {
    /// Returns the reason that the chain stores for the closed lease.
    #[must_use]
    pub const fn on_chain(self) -> CloseReason {
        match self {
            Self::Unstable => CloseReason::Unstable,
            Self::Decommission => CloseReason::Decommission,
            Self::Unspecified => CloseReason::Unspecified,
        }
    }
}

/// Arguments of `breaker`.
#[derive(Debug, Args)]
pub struct BreakerArgs {
    /// Action on the circuit breaker.
    #[command(subcommand)]
    pub action: BreakerAction,
}

/// Actions of `breaker`.
#[derive(Debug, Subcommand)]
pub enum BreakerAction {
    /// Show whether the breaker has tripped, for which owners, and which leases wait to be closed
    Show(OutputArgs),
    /// Release the breaker: close the waiting leases, and start the suspended manifest timeouts
    Release(ReleaseArgs),
}

/// Arguments of `breaker release`.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Release the breaker for the leases of this owner only
    #[arg(long)]
    pub owner: Option<Address>,
    /// Output options.
    #[command(flatten)]
    pub printed: OutputArgs,
}

/// Arguments of `reconcile`.
#[derive(Debug, Args)]
pub struct ReconcileArgs {
    /// Report differences without repairing them
    #[arg(long)]
    pub dry_run: bool,
    /// Confirm the deletions that embedded operators withhold because many records disappeared
    #[arg(long, conflicts_with = "dry_run")]
    pub confirm: bool,
    /// Output options.
    #[command(flatten)]
    pub printed: OutputArgs,
}

/// Arguments of `harden`.
#[derive(Debug, Args)]
pub struct HardenArgs {
    /// Leases to harden, as OWNER/DSEQ/GSEQ/OSEQ/PROVIDER
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub lease: Vec<LeaseId>,
    /// Harden all leases of the provider, one after the other
    #[arg(long)]
    pub all: bool,
    /// Output options.
    #[command(flatten)]
    pub printed: OutputArgs,
}

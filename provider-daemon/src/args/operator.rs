//! Flags of the commands with which an operator speaks to a provider that runs.

use super::Output;
use akash_provider_core::types::{Address, CloseReason, LeaseId};
use clap::{Args, Subcommand, ValueEnum};

/// What an operator asks of the provider that runs with the home folder.
#[derive(Debug, Subcommand)]
pub enum OperatorCommand {
    /// The circuit breaker of the provider that runs: show it, or release it.
    Breaker(BreakerArgs),
    /// Let the provider that runs compare chain, cluster and its own books now, and mend what differs.
    #[command(alias = "scan")]
    Reconcile(ReconcileArgs),
    /// The leases of the provider that runs: how each is, and what keeps it from going on.
    Leases(Printed),
    /// Give the pods of running leases the isolation of the provider's settings; they are replaced where that
    /// changes them.
    Harden(HardenArgs),
    /// End a lease of the provider that runs: its bid is closed on the chain, and its workload is removed.
    EndLease(EndLeaseArgs),
}

/// Settings of `end-lease`.
#[derive(Debug, Args)]
pub struct EndLeaseArgs {
    /// The lease, as OWNER/DSEQ/GSEQ/OSEQ/PROVIDER.
    pub lease: LeaseId,
    /// Reason that the chain records.
    #[arg(long, value_enum, default_value = "unspecified")]
    pub reason: EndReason,
    /// How to print.
    #[command(flatten)]
    pub printed: Printed,
}

/// Reasons that a provider may give by command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EndReason {
    /// The workload is not healthy.
    Unstable,
    /// The capacity is taken away.
    Decommission,
    /// None is given.
    Unspecified,
}

impl EndReason {
    /// Returns the reason as the chain records it.
    #[must_use]
    pub const fn on_chain(self) -> CloseReason {
        match self {
            Self::Unstable => CloseReason::Unstable,
            Self::Decommission => CloseReason::Decommission,
            Self::Unspecified => CloseReason::Unspecified,
        }
    }
}

/// Settings of `breaker`.
#[derive(Debug, Args)]
pub struct BreakerArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub action: BreakerAction,
}

/// What to do with the circuit breaker.
#[derive(Debug, Subcommand)]
pub enum BreakerAction {
    /// Say whether it has tripped, for all or for which owners, and which leases wait.
    Show(Printed),
    /// Release it: the leases that wait are closed, and where no record of any lease was found, their time for a
    /// manifest begins.
    Release(ReleaseArgs),
}

/// Settings of `breaker release`.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Release it for this owner of leases alone, for whom alone it has tripped.
    #[arg(long)]
    pub owner: Option<Address>,
    /// How to print.
    #[command(flatten)]
    pub printed: Printed,
}

/// How a command prints.
#[derive(Debug, Clone, Copy, Args)]
pub struct Printed {
    /// How to print the answer.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Settings of `reconcile`.
#[derive(Debug, Args)]
pub struct ReconcileArgs {
    /// Only say what differs.
    #[arg(long)]
    pub dry_run: bool,
    /// Confirm the deletions that the operators in the process of the provider hold because many records went missing.
    #[arg(long, conflicts_with = "dry_run")]
    pub confirm: bool,
    /// How to print.
    #[command(flatten)]
    pub printed: Printed,
}

/// Settings of `harden`.
#[derive(Debug, Args)]
pub struct HardenArgs {
    /// The leases, as OWNER/DSEQ/GSEQ/OSEQ/PROVIDER.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub lease: Vec<LeaseId>,
    /// Every lease of the provider, one after the other.
    #[arg(long)]
    pub all: bool,
    /// How to print.
    #[command(flatten)]
    pub printed: Printed,
}

//! Parts of `run`, with the exit code of each.

use super::policy::RestartPolicy;
use std::process::ExitCode;

/// Supervised part of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Loop that passes events to the engine and executes the returned effects.
    Provider,
    /// Transaction writer.
    Writer,
    /// Connection to a real cluster, with its watches and embedded operators.
    Cluster,
    /// Clock of an in-memory cluster.
    MemoryCluster,
    /// Leader election of the provider's instances.
    Leadership,
    /// Gateway, with the renewal of its certificate.
    Gateway,
    /// Socket for operator commands.
    OperatorSocket,
    /// Output of events to stdout.
    Printing,
    /// Readiness check, which determines whether the provider can bid.
    Watch,
    /// Server of the metrics.
    Metrics,
}

impl Part {
    /// All parts, in the order of their exit codes.
    pub const ALL: [Self; 10] = [
        Self::Provider,
        Self::Writer,
        Self::Cluster,
        Self::MemoryCluster,
        Self::Leadership,
        Self::Gateway,
        Self::OperatorSocket,
        Self::Printing,
        Self::Watch,
        Self::Metrics,
    ];

    /// Returns the name, for logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Provider => "provider loop",
            Self::Writer => "transaction writer",
            Self::Cluster => "cluster connection",
            Self::MemoryCluster => "clock of the in-memory cluster",
            Self::Leadership => "leader election",
            Self::Gateway => "gateway",
            Self::OperatorSocket => "operator socket",
            Self::Printing => "event output",
            Self::Watch => "readiness check",
            Self::Metrics => "metrics server",
        }
    }

    /// Returns the exit code of the process after a failure of this part.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Provider => 40,
            Self::Writer => 41,
            Self::Cluster => 42,
            Self::MemoryCluster => 43,
            Self::Leadership => 44,
            Self::Gateway => 45,
            Self::OperatorSocket => 46,
            Self::Printing => 47,
            Self::Watch => 48,
            Self::Metrics => 49,
        }
    }

    /// Returns the restart policy.
    #[must_use]
    pub const fn policy(self) -> RestartPolicy {
        match self {
            // Their state is in memory: a new process rebuilds it from the chain and the cluster.
            Self::Provider | Self::Writer | Self::Cluster | Self::Leadership => RestartPolicy::NEVER,
            Self::MemoryCluster | Self::Gateway | Self::OperatorSocket | Self::Printing | Self::Watch => {
                RestartPolicy::USUAL
            }
            // Leases do not depend on metrics.
            Self::Metrics => RestartPolicy::UNLIMITED,
        }
    }
}

/// Permanent failure of a part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {name} failed{after}: {why} (exit code {code})",
    name = self.part.name(),
    after = after(self.restarts),
    code = self.part.code()
)]
pub struct PartFailed {
    part: Part,
    why: String,
    restarts: u32,
}

fn after(restarts: u32) -> String {
    match restarts {
        0 => String::new(),
        1 => " again after a restart".to_owned(),
        many => format!(" again after {many} restarts"),
    }
}

impl PartFailed {
    pub(crate) const fn new(part: Part, why: String, restarts: u32) -> Self {
        Self { part, why, restarts }
    }

    /// Returns the part.
    #[must_use]
    pub const fn part(&self) -> Part {
        self.part
    }

    /// Returns how many times the part was restarted before this failure.
    #[must_use]
    pub const fn restarts(&self) -> u32 {
        self.restarts
    }

    pub(crate) const fn help() -> &'static str {
        "restart the provider, and report this bug; open bids and leases are unchanged"
    }

    /// Returns the exit code for an error: the code of the failed part, or otherwise 1.
    #[must_use]
    pub fn exit_code(error: &anyhow::Error) -> ExitCode {
        let failed = error.chain().find_map(|cause| cause.downcast_ref::<Self>());
        failed.map_or(ExitCode::FAILURE, |failed| ExitCode::from(failed.part.code()))
    }
}

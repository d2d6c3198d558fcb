//! The parts of `run`, and the exit code of each.

use super::policy::Policy;
use std::process::ExitCode;

/// A part whose end is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The loop that feeds the engine and carries out what it decides.
    Provider,
    /// Signs transactions and sends them, one after the other.
    Writer,
    /// The connection to a real cluster, with its watches and the operators in this process.
    Cluster,
    /// The clock of a cluster in memory.
    MemoryCluster,
    /// Says whether this instance leads.
    Leadership,
    /// Where tenants are served, and what keeps its certificate.
    Gateway,
    /// Where operators ask.
    OperatorSocket,
    /// Prints what happens.
    Printing,
    /// Looks what bidding waits for.
    Watch,
}

impl Part {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 9] = [
        Self::Provider,
        Self::Writer,
        Self::Cluster,
        Self::MemoryCluster,
        Self::Leadership,
        Self::Gateway,
        Self::OperatorSocket,
        Self::Printing,
        Self::Watch,
    ];

    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Provider => "provider loop",
            Self::Writer => "transaction writer",
            Self::Cluster => "work on the cluster",
            Self::MemoryCluster => "clock of the cluster in memory",
            Self::Leadership => "following of the leadership",
            Self::Gateway => "gateway",
            Self::OperatorSocket => "operator socket",
            Self::Printing => "printing of events",
            Self::Watch => "watch over what is awaited",
        }
    }

    /// What the process ends with when this part is why.
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
        }
    }

    /// What is done when it fails.
    #[must_use]
    pub const fn policy(self) -> Policy {
        match self {
            // What they know lives in them alone: a fresh process makes it anew from the chain and the cluster.
            Self::Provider | Self::Writer | Self::Cluster | Self::Leadership => Policy::NEVER,
            Self::MemoryCluster | Self::Gateway | Self::OperatorSocket | Self::Printing | Self::Watch => {
                Policy::USUAL
            }
        }
    }
}

/// A part has failed for good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {name} failed{after}: {why}. This is a fault of the program. Open bids and leases stay as they are; start it \
     again (exit code {code})",
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

    /// Which.
    #[must_use]
    pub const fn part(&self) -> Part {
        self.part
    }

    /// Restarts that it failed again after.
    #[must_use]
    pub const fn restarts(&self) -> u32 {
        self.restarts
    }

    /// What the process ends with for an error: the code of the part that failed, or 1.
    #[must_use]
    pub fn exit_code(error: &anyhow::Error) -> ExitCode {
        let failed = error.chain().find_map(|cause| cause.downcast_ref::<Self>());
        failed.map_or(ExitCode::FAILURE, |failed| ExitCode::from(failed.part.code()))
    }
}

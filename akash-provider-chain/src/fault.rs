//! What goes wrong when a node is asked, and whose fault it is.

use akash_provider_core::error::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// A question to a node that got no usable answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", told(.endpoint, .method, .fault))]
pub struct NodeError {
    /// The endpoint, without what is secret in its address.
    pub endpoint: Arc<str>,
    /// The method or query path.
    pub method: Arc<str>,
    /// What happened; [`Fault::blame`] says whose fault it is.
    pub fault: Fault,
}

/// Which question it was says nothing where there was no connection.
fn told(endpoint: &str, method: &str, fault: &Fault) -> String {
    match fault {
        Fault::NotConnected(why) => format!("cannot connect to {endpoint} {why}"),
        fault => format!("{endpoint}, {method}: {fault}"),
    }
}

/// Why an answer is no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No connection, or it broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// No connection, so the question was certainly not heard: why, in parentheses, and the mend.
    #[error("{0}")]
    NotConnected(String),
    /// No answer in time.
    #[error("gave no answer within {0:?}")]
    Timeout(Duration),
    /// More bytes than an answer may have.
    #[error("answered with more than {limit} bytes")]
    TooLarge {
        /// Bytes that an answer may have at most.
        limit: usize,
    },
    /// An HTTP status other than success.
    #[error("answered with HTTP status {status}: {beginning}")]
    Http {
        /// Status code of the answer, outside of 200 to 299.
        status: u16,
        /// How its body begins.
        beginning: String,
    },
    /// Not what the protocol says.
    #[error("answered what the protocol does not allow: {0}")]
    Malformed(String),
    /// There is no such record.
    #[error("knows no such record: {text}")]
    NotFound {
        /// The node's text, shortened.
        text: String,
        /// The height it looked at, where it says so.
        height: Option<u64>,
    },
    /// The height is not, or not yet, on that node.
    #[error("cannot answer for that height: {0}")]
    HeightUnavailable(String),
    /// The node has dropped that height.
    #[error("no longer knows that height: {0}")]
    Pruned(String),
    /// The node refuses the question.
    #[error("refuses: {text} ({codespace}/{code})")]
    Refused {
        /// Codespace, or the protocol.
        codespace: String,
        /// Code within it: of a module, of gRPC or of JSON-RPC.
        code: i64,
        /// The node's text, shortened.
        text: String,
    },
    /// A node of another chain.
    #[error("belongs to chain `{found}`, not `{expected}`; correct the address or the chain id")]
    OtherChain {
        /// Id of the chain that is set.
        expected: String,
        /// Id that the node gives, shortened.
        found: String,
    },
    /// An answer about another height than the one asked for.
    #[error("was asked about height {asked} and answered about {answered}")]
    WrongHeight {
        /// Height the question was about.
        asked: u64,
        /// Height the answer is from.
        answered: u64,
    },
    /// The node is still replaying the past.
    #[error("is catching up at height {height}")]
    CatchingUp {
        /// How far it is.
        height: u64,
    },
    /// The node is behind what has been processed already.
    #[error("is at height {height}, and {floor} has been processed already")]
    Behind {
        /// Height its answer is from, or of its newest block.
        height: u64,
        /// Height that has been processed here, or that the best node has.
        floor: u64,
    },
    /// The node names a height, a time or a record that the clock, the processed blocks or another node contradict.
    #[error("is not trusted: {0}")]
    Untrusted(String),
    /// The node names a time in the future.
    #[error(
        "its newest block is {} s ahead of the clock of this machine. If the clock is wrong, set it: \
         `timedatectl set-ntp true`. If the clock is right, name another node with --node",
        .by.as_secs()
    )]
    Ahead {
        /// Time that the newest block is ahead of the corrected clock.
        by: Duration,
    },
    /// The node speaks no version we speak.
    #[error("offers {}; a version with market/v1beta5 and deployment/v1beta4 is needed", offered_text(.offered))]
    Version {
        /// Versions it offers, each with those of its modules that are spoken here; empty when it offers none.
        offered: Vec<String>,
    },
}

fn offered_text(offered: &[String]) -> String {
    if offered.is_empty() {
        return "no version of the Akash interface".to_owned();
    }
    format!("the versions {}", offered.join(", "))
}

/// Whose fault it is, which decides who is asked next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The endpoint's: another one may do better.
    Endpoint,
    /// The question's: every endpoint says the same.
    Question,
    /// The moment's: the height is missing here; the same endpoint is fine otherwise.
    Height,
}

impl Fault {
    /// Returns true for an equal fault, and for one that differs in heights or times only.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ahead { .. }, Self::Ahead { .. })
            | (Self::Behind { .. }, Self::Behind { .. })
            | (Self::CatchingUp { .. }, Self::CatchingUp { .. }) => true,
            _ => self == other,
        }
    }

    /// See [`NodeError::blaming_the_node`].
    pub(crate) fn blaming_the_node(self) -> Self {
        match self {
            Self::Refused { .. } => Self::Malformed(format!("a node must answer this, and it {self}")),
            other => other,
        }
    }

    /// False when the node certainly did nothing with the question.
    pub(crate) const fn perhaps_heard(&self) -> bool {
        !matches!(
            self,
            Self::NotConnected(_) | Self::Refused { .. } | Self::NotFound { .. }
        )
    }

    /// Whose fault it is.
    #[must_use]
    pub const fn blame(&self) -> Blame {
        match self {
            Self::Unreachable(_)
            | Self::NotConnected(_)
            | Self::Timeout(_)
            | Self::TooLarge { .. }
            | Self::Http { .. }
            | Self::Malformed(_)
            | Self::OtherChain { .. }
            | Self::WrongHeight { .. }
            | Self::CatchingUp { .. }
            | Self::Behind { .. }
            | Self::Untrusted(_)
            | Self::Ahead { .. }
            | Self::Version { .. } => Blame::Endpoint,
            // Asking others takes time and brings the same answer.
            Self::NotFound { .. } | Self::Refused { .. } => Blame::Question,
            Self::HeightUnavailable(_) | Self::Pruned(_) => Blame::Height,
        }
    }
}

impl NodeError {
    /// As an error of a port.
    #[must_use]
    pub fn into_port(self, operation: &'static str) -> Error {
        let kind = match &self.fault {
            Fault::Timeout(_) => ErrorKind::Timeout,
            Fault::NotFound { .. } => ErrorKind::NotFound,
            Fault::Refused { .. } => ErrorKind::Invalid,
            Fault::Unreachable(_)
            | Fault::NotConnected(_)
            | Fault::TooLarge { .. }
            | Fault::Http { .. }
            | Fault::Malformed(_)
            | Fault::HeightUnavailable(_)
            | Fault::Pruned(_)
            | Fault::OtherChain { .. }
            | Fault::WrongHeight { .. }
            | Fault::CatchingUp { .. }
            | Fault::Behind { .. }
            | Fault::Untrusted(_)
            | Fault::Ahead { .. }
            | Fault::Version { .. } => ErrorKind::Unavailable,
        };
        Error::new(kind, operation, self.to_string()).with_source(self.fault)
    }

    /// A refusal of a question that every node must answer says something about the node.
    #[must_use]
    pub(crate) fn blaming_the_node(mut self) -> Self {
        self.fault = self.fault.blaming_the_node();
        self
    }

    /// True when the height asked for is not, no longer or not yet, there.
    #[must_use]
    pub const fn is_about_height(&self) -> bool {
        matches!(self.fault, Fault::HeightUnavailable(_) | Fault::Pruned(_))
    }

    /// True when the record does not exist.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self.fault, Fault::NotFound { .. })
    }
}

/// The text of an error with its causes, for faults that come from a library.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    akash_provider_core::error::chain_text(error)
}

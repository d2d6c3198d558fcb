//! Errors of requests to nodes, and the cause of each error.

use akash_provider_core::error::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// Failed request to a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", message(.endpoint, .method, .fault))]
pub struct NodeError {
    /// Address of the endpoint, without credentials.
    pub endpoint: Arc<str>,
    /// Name of the RPC method, or path of the query.
    pub method: Arc<str>,
    /// Reason of the failure.
    pub fault: Fault,
}

/// Formats an error. Omits the method if the connection was not established.
fn message(endpoint: &str, method: &str, fault: &Fault) -> String {
    match fault {
        Fault::NotConnected(why) => format!("cannot connect to {endpoint} {why}"),
        fault => format!("{endpoint}, {method}: {fault}"),
    }
}

/// Reason why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The connection failed or was closed.
    #[error("the connection failed: {0}")]
    Unreachable(String),
    /// The connection was not established, so the node did not receive the request. Contains the reason and a
    /// remedy.
    #[error("{0}")]
    NotConnected(String),
    /// The node did not respond within this time.
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// The response is larger than the limit.
    #[error("response is larger than {limit} bytes")]
    TooLarge {
        /// Maximum size of a response, in bytes.
        limit: usize,
    },
    /// The node responded with an HTTP error status.
    #[error("the node responded with HTTP status {status}: {beginning}")]
    Http {
        /// HTTP status code other than 2xx.
        status: u16,
        /// Start of the response body.
        beginning: String,
    },
    /// The response violates the protocol. Contains the reason.
    #[error("malformed response: {0}")]
    Malformed(String),
    /// The record does not exist.
    #[error("record not found: {text}")]
    NotFound {
        /// Error text of the node, truncated.
        text: String,
        /// Height of the response. `None` if the node does not report the height.
        height: Option<u64>,
    },
    /// The node does not have the requested height. Contains the text of the node.
    #[error("height is not available: {0}")]
    HeightUnavailable(String),
    /// The node has pruned the requested height. Contains the text of the node.
    #[error("height is pruned: {0}")]
    Pruned(String),
    /// The node refused the request.
    #[error("request refused: {text} ({codespace}/{code})")]
    Refused {
        /// Codespace of a chain module, or `grpc`, or `json-rpc`.
        codespace: String,
        /// Error code of the module, of gRPC or of JSON-RPC.
        code: i64,
        /// Error text of the node, truncated.
        text: String,
    },
    /// The node belongs to another chain.
    #[error("the node belongs to chain `{found}`, not `{expected}`; correct the address or the chain id")]
    OtherChain {
        /// Configured chain id.
        expected: String,
        /// Chain id of the node, truncated.
        found: String,
    },
    /// The height of the response is not the requested height.
    #[error("requested height {requested}, but the response is for height {received}")]
    WrongHeight {
        /// Requested height.
        requested: u64,
        /// Height of the response.
        received: u64,
    },
    /// The node is still catching up with the chain.
    #[error("the node is catching up at height {height}")]
    CatchingUp {
        /// Current height of the node.
        height: u64,
    },
    /// The node is behind the processed block, or too many blocks behind another node.
    #[error("the node is at height {height}, below the required height {floor}")]
    Behind {
        /// Height of the response, or newest height of the node in a health check.
        height: u64,
        /// Expected height. For a response, this is the height of the processed block. For a health check,
        /// this is the larger of two heights: the processed block, and the newest block of the best node.
        floor: u64,
    },
    /// The response contradicts the clock, the processed blocks or another node. Contains the reason.
    #[error("the response is not trusted: {0}")]
    Untrusted(String),
    /// The node reports a newest block that has a time in the future.
    #[error(
        "the newest block is {} s ahead of the clock of this machine. If the clock is wrong, set the clock: \
         `timedatectl set-ntp true`. If the clock is right, select another node with --node",
        .by.as_secs()
    )]
    Ahead {
        /// Time by which the newest block is ahead of the corrected clock.
        by: Duration,
    },
    /// The node and this crate support no common version of the API.
    #[error("the node offers {}; this provider requires market/v1beta5 and deployment/v1beta4", offered_text(.offered))]
    Version {
        /// API versions that the node supports. Empty if the node reports no versions.
        offered: Vec<String>,
    },
}

fn offered_text(offered: &[String]) -> String {
    if offered.is_empty() {
        return "no version of the Akash API".to_owned();
    }
    format!("the versions {}", offered.join(", "))
}

/// Cause of a failed request. The cause determines whether the client queries another endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The endpoint caused the failure: another endpoint may succeed.
    Endpoint,
    /// The request caused the failure. Every endpoint would return the same error.
    Request,
    /// The endpoint does not have the requested height, but is healthy.
    Height,
}

impl Fault {
    /// Returns true if both faults are equal, or differ only in heights or times.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ahead { .. }, Self::Ahead { .. })
            | (Self::Behind { .. }, Self::Behind { .. })
            | (Self::CatchingUp { .. }, Self::CatchingUp { .. }) => true,
            _ => self == other,
        }
    }

    /// Converts [`Fault::Refused`] to [`Fault::Malformed`], as [`NodeError::blaming_the_node`] describes.
    pub(crate) fn blaming_the_node(self) -> Self {
        match self {
            Self::Refused { .. } => Self::Malformed(format!("the node must support this request: {self}")),
            other => other,
        }
    }

    /// Returns true if the node may have processed the request.
    pub(crate) const fn may_have_been_received(&self) -> bool {
        !matches!(
            self,
            Self::NotConnected(_) | Self::Refused { .. } | Self::NotFound { .. }
        )
    }

    /// Returns the name of the fault, for statistics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::NotConnected(_) => "not_connected",
            Self::Timeout(_) => "timeout",
            Self::TooLarge { .. } => "too_large",
            Self::Http { .. } => "http_status",
            Self::Malformed(_) => "malformed",
            Self::NotFound { .. } => "not_found",
            Self::HeightUnavailable(_) => "height_unavailable",
            Self::Pruned(_) => "pruned",
            Self::Refused { .. } => "refused",
            Self::OtherChain { .. } => "other_chain",
            Self::WrongHeight { .. } => "wrong_height",
            Self::CatchingUp { .. } => "catching_up",
            Self::Behind { .. } => "behind",
            Self::Untrusted(_) => "untrusted",
            Self::Ahead { .. } => "ahead",
            Self::Version { .. } => "version",
        }
    }

    /// Returns the cause of the fault: the endpoint, the request or the requested height.
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
            // Other endpoints return the same response.
            Self::NotFound { .. } | Self::Refused { .. } => Blame::Request,
            Self::HeightUnavailable(_) | Self::Pruned(_) => Blame::Height,
        }
    }
}

impl NodeError {
    /// Converts the error to an [`Error`] of the core crate.
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

    /// Converts [`Fault::Refused`] to [`Fault::Malformed`], so that another endpoint is tried.
    ///
    /// Used for requests that every node must support.
    pub(crate) fn blaming_the_node(mut self) -> Self {
        self.fault = self.fault.blaming_the_node();
        self
    }

    /// Returns true if the node does not have the requested height.
    #[must_use]
    pub const fn is_about_height(&self) -> bool {
        matches!(self.fault, Fault::HeightUnavailable(_) | Fault::Pruned(_))
    }

    /// Returns true if the record does not exist.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self.fault, Fault::NotFound { .. })
    }
}

/// Formats an error together with all its causes.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    akash_provider_core::error::chain_text(error)
}

//! The error type of the ports, and its serializable form for the engine.
//!
//! `Display` prints the error without its sources. [`chain_text`] formats an error with all its sources for a
//! log line.

use serde::{Deserialize, Serialize};
use std::error::Error as StdError;
use std::fmt;
use std::io;

/// Category of an error. The caller selects its reaction by this category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The object does not exist. This error alone is never a sufficient reason to destroy anything.
    NotFound,
    /// The request is invalid, so a retry cannot succeed.
    Invalid,
    /// The provider lacks the permission for the operation.
    Denied,
    /// The request conflicts with the current state.
    Conflict,
    /// The called system is unreachable or overloaded.
    Unavailable,
    /// The called system did not respond in time. It is unknown whether the operation took effect.
    Timeout,
    /// The cluster was not ready within the configured time.
    ClusterNotReady,
    /// The provider is not registered on the chain.
    NotRegistered,
    /// The operation was aborted, for example by a second termination signal.
    Aborted,
    /// The provider is stopping or has stopped.
    Stopped,
    /// A defect in this software.
    Internal,
}

/// Error of an operation, such as a call to the chain or the cluster.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    operation: &'static str,
    message: String,
    transient: bool,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Creates an error of `operation`. The error is transient for [`ErrorKind::Unavailable`] and
    /// [`ErrorKind::Timeout`], and permanent for all other kinds.
    #[must_use]
    pub fn new(kind: ErrorKind, operation: &'static str, message: impl Into<String>) -> Self {
        let transient = matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout);
        Self {
            kind,
            operation,
            message: message.into(),
            transient,
            source: None,
        }
    }

    /// Adds the error that caused this error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Marks the error as transient: a retry can succeed.
    #[must_use]
    pub const fn transient(mut self) -> Self {
        self.transient = true;
        self
    }

    /// Marks the error as permanent: a retry cannot succeed.
    #[must_use]
    pub const fn permanent(mut self) -> Self {
        self.transient = false;
        self
    }

    /// Returns the category of the error.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the failed operation.
    #[must_use]
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// Returns the description of the failure, without the operation and without causes.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns whether a retry of the same call can succeed.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        self.transient
    }

    /// Returns the error in serializable form, with the text of all its sources.
    #[must_use]
    pub fn to_failure(&self) -> Failure {
        Failure {
            kind: self.kind,
            transient: self.transient,
            message: chain_text(self),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|s| s as _)
    }
}

/// Serializable form of an [`Error`], as the engine receives it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Failure {
    /// Category of the error.
    pub kind: ErrorKind,
    /// Whether a retry of the same call can succeed.
    pub transient: bool,
    /// Description of the failure.
    pub message: String,
}

impl Failure {
    /// Creates a failure after which a retry of the same call can succeed.
    #[must_use]
    pub fn transient(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            transient: true,
            message: message.into(),
        }
    }

    /// Creates a failure after which a retry of the same call fails too.
    #[must_use]
    pub fn permanent(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            transient: false,
            ..Self::transient(kind, message)
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Formats an error with its sources, separated by `: `. Omits a source if the preceding text already
/// contains the text of the source.
#[must_use]
pub fn chain_text(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}

/// Describes the failure to listen on an address, with the remedy.
#[must_use]
pub fn listen_text(error: &io::Error) -> String {
    let text = match error.kind() {
        io::ErrorKind::AddrInUse => "another program uses this address: stop it, or set another address",
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have this address: set an address of the machine, or 0.0.0.0"
        }
        io::ErrorKind::PermissionDenied => "this user cannot use this port: set a port of 1024 or higher",
        _ => return format!("cannot listen: {error}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_text_contains_each_cause_once() {
        let image = || Error::new(ErrorKind::Invalid, "render", "service web: no image");
        let own = Error::new(ErrorKind::Invalid, "record", image().to_string()).with_source(image());
        assert_eq!(chain_text(&own), "record: render: service web: no image");
        let other = Error::new(ErrorKind::Invalid, "record", "refused").with_source(image());
        assert_eq!(
            chain_text(&other),
            "record: refused: render: service web: no image"
        );
    }

    #[test]
    fn a_listen_failure_contains_the_remedy() {
        let of = |kind: io::ErrorKind| listen_text(&kind.into());
        assert!(of(io::ErrorKind::AddrInUse).ends_with("stop it, or set another address"));
        assert!(of(io::ErrorKind::AddrNotAvailable).ends_with("or 0.0.0.0"));
        assert!(of(io::ErrorKind::PermissionDenied).ends_with("set a port of 1024 or higher"));
        assert!(of(io::ErrorKind::TimedOut).starts_with("cannot listen: "));
    }
}

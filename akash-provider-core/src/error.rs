//! The one error of the ports, and the same as data for the engine.
//!
//! `Display` never prints the source; [`chain_text`] walks the chain for a log line.

use serde::{Deserialize, Serialize};
use std::error::Error as StdError;
use std::fmt;
use std::io;

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such thing. Never evidence that something may be destroyed.
    NotFound,
    /// The request cannot be right; repeating it changes nothing.
    Invalid,
    /// We are not allowed to do it.
    Denied,
    /// It clashes with what is there.
    Conflict,
    /// The other side cannot be reached or is overloaded.
    Unavailable,
    /// No answer within the limit; whether it was done is unknown.
    Timeout,
    /// The cluster did not become ready within the configured limit.
    ClusterNotReady,
    /// The provider is not registered on the chain.
    NotRegistered,
    /// Stopped by a second signal.
    Aborted,
    /// The provider is stopping or has stopped.
    Stopped,
    /// A defect on this side.
    Internal,
}

/// Error of a port.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    operation: &'static str,
    message: String,
    transient: bool,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `operation`. [`ErrorKind::Unavailable`] and [`ErrorKind::Timeout`] are transient unless
    /// [`Error::permanent`] says otherwise.
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

    /// With the error that caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Marks it as worth trying again, whatever its kind.
    #[must_use]
    pub const fn transient(mut self) -> Self {
        self.transient = true;
        self
    }

    /// Not worth trying again.
    #[must_use]
    pub const fn permanent(mut self) -> Self {
        self.transient = false;
        self
    }

    /// What kind of error it is, which callers decide by.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What was being done.
    #[must_use]
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// What went wrong, without the operation and without causes.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// True when the same call may succeed later.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        self.transient
    }

    /// The error as data, with the text of the whole chain.
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

/// An error as data: what the engine is told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// True when the same call may succeed later.
    pub transient: bool,
    /// What went wrong, in words for people.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error with its causes, `: ` between them. A cause that the text before it says already is left out: it is often
/// kept as the source of an error that was made from its text.
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

/// Why an address cannot be listened at, in words with the mend: for whatever serves something beside a provider.
#[must_use]
pub fn listen_text(error: &io::Error) -> String {
    let known = match error.kind() {
        io::ErrorKind::AddrInUse => "another program listens there: stop it, or give another address",
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address: give one of its own, or 0.0.0.0"
        }
        io::ErrorKind::PermissionDenied => "this user may not listen there: give a port from 1024 on",
        _ => return format!("cannot be listened at: {error}"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_each_cause_once() {
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
    fn who_cannot_listen_is_told_the_mend() {
        let of = |kind: io::ErrorKind| listen_text(&kind.into());
        assert!(of(io::ErrorKind::AddrInUse).ends_with("stop it, or give another address"));
        assert!(of(io::ErrorKind::AddrNotAvailable).ends_with("or 0.0.0.0"));
        assert!(of(io::ErrorKind::PermissionDenied).ends_with("give a port from 1024 on"));
        assert!(of(io::ErrorKind::TimedOut).starts_with("cannot be listened at: "));
    }
}

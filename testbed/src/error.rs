//! Error type of the testbed.

use std::fmt;
use std::path::Path;

/// Result of the testbed.
pub type Result<T> = std::result::Result<T, Error>;

/// Message with the failed operation, its location, and a known remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    pub(crate) fn at(path: &Path, error: impl fmt::Display) -> Self {
        Self(format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

//! What can go wrong: a sentence for the person at the desk.

use std::fmt;
use std::path::Path;

/// The result of what this crate does.
pub type Result<T> = std::result::Result<T, Error>;

/// A sentence that says what failed, where, and how to mend it when that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// What failed at a path.
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

//! Error type of the development commands.

use std::fmt;

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Message with the failed operation, its location, and a known remedy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Error(String);

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Returns an error with all findings, or `Ok` without findings.
    pub(crate) fn from_findings(what: &str, findings: &[String]) -> Result<()> {
        if findings.is_empty() {
            return Ok(());
        }
        Err(Self(format!("{what}:\n  {}", findings.join("\n  "))))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<testbed::Error> for Error {
    fn from(error: testbed::Error) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_findings_is_no_error() {
        assert_eq!(Error::from_findings("links", &[]), Ok(()));
    }

    #[test]
    fn findings_are_printed_one_per_line() {
        let error = Error::from_findings("links", &["a".to_owned(), "b".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "links:\n  a\n  b");
    }
}

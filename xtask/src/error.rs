//! What can go wrong in a development command: a sentence for the person who ran it.

use std::fmt;

/// The result of a development command.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A sentence that says what failed, where, and how to mend it when that is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Error(String);

impl Error {
    /// An error that reads as `message`.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// One error out of a list of findings; `Ok` when there are none.
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
    fn findings_stand_one_a_line() {
        let error = Error::from_findings("links", &["a".to_owned(), "b".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "links:\n  a\n  b");
    }
}

//! Errors with a remedy, and the text of errors on stderr.

use crate::plain::plain;
use crate::supervise::PartFailed;
use akash_provider_core::error::chain_text;
use std::error::Error;
use std::fmt;

/// Error message with a remedy, which is printed as `help: …` on a separate line.
#[derive(Debug)]
pub(crate) struct WithHelp {
    message: String,
    help: String,
}

impl WithHelp {
    /// Creates an error with a message and a remedy.
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: help.into(),
        }
    }
}

impl fmt::Display for WithHelp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for WithHelp {}

/// Returns the lines of an error for stderr: `error: …` with all causes, and `help: …` if there is a remedy.
#[must_use]
pub fn error_text(error: &anyhow::Error) -> String {
    let text = format!("error: {}", chain_text(error.as_ref()));
    let text = match help(error) {
        Some(help) => format!("{text}\nhelp: {help}"),
        None => text,
    };
    plain(&text).into_owned()
}

/// Returns the first remedy among an error and its causes.
pub(crate) fn help(error: &anyhow::Error) -> Option<&str> {
    error.chain().find_map(|cause| {
        let with_help = cause.downcast_ref::<WithHelp>().map(|error| error.help.as_str());
        let failed = || cause.is::<PartFailed>().then(PartFailed::help);
        with_help.or_else(failed).or_else(|| crate::tenant::help(cause))
    })
}

#[cfg(test)]
mod tests;

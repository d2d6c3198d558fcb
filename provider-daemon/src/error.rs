//! Remedies of the errors of this program.

use crate::state::StateError;
use crate::supervise::PartFailed;
use akash_provider_chain::keyring::KeyringError;
use akash_provider_cli::error::{self as cli, Remedy};
use akash_provider_cli::node;

const REMEDIES: [Remedy; 5] = [
    |cause| cause.is::<PartFailed>().then(PartFailed::help),
    |cause| cause.downcast_ref::<StateError>().and_then(StateError::help),
    |cause| cause.downcast_ref::<KeyringError>().and_then(KeyringError::help),
    |cause| node::help(cause),
    |cause| akash_provider_tenant::help(cause),
];

/// Returns the lines of an error for stderr, as [`akash_provider_cli::error::error_text`] does.
#[must_use]
pub fn error_text(error: &anyhow::Error) -> String {
    cli::error_text(error, &REMEDIES)
}

/// Returns the message of an error with all causes. A known remedy follows on a separate line: `help: …`.
pub(crate) fn message_text(error: &anyhow::Error) -> String {
    cli::message_text(error, &REMEDIES)
}

/// Returns the remedy of an error, if any.
pub(crate) fn help(error: &anyhow::Error) -> Option<&str> {
    cli::help(error, &REMEDIES)
}

#[cfg(test)]
mod tests;

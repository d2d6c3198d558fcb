//! Remedies of the errors of a provider.

use crate::state::StateError;
use crate::supervise::PartFailed;
use akash_provider_chain::keyring::KeyringError;
use akash_provider_cli::error::{self as cli, Remedy};
use akash_provider_cli::node;

/// Functions that return the remedy of an error.
pub const REMEDIES: [Remedy; 4] = [
    |cause| cause.is::<PartFailed>().then(PartFailed::help),
    |cause| cause.downcast_ref::<StateError>().and_then(StateError::help),
    |cause| cause.downcast_ref::<KeyringError>().and_then(KeyringError::help),
    |cause| node::help(cause),
];

/// Returns an error for stderr, as [`akash_provider_cli::error::stderr_text`] does.
#[must_use]
pub fn error_text(error: &anyhow::Error) -> String {
    cli::stderr_text(error, &REMEDIES)
}

/// Returns the message of an error with all causes. A known remedy follows on a separate line: `help: …`.
pub fn message_text(error: &anyhow::Error) -> String {
    cli::message_text(error, &REMEDIES)
}

/// Returns the remedy of an error, if any.
pub fn help(error: &anyhow::Error) -> Option<&str> {
    cli::help(error, &REMEDIES)
}

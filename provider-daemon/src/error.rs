//! Errors of the program, with their remedies.

use akash_provider_cli::error::{self as cli, Remedy};
use akash_provider_service::error::REMEDIES;

/// Returns an error for stderr, as [`akash_provider_cli::error::stderr_text`] does.
#[must_use]
pub fn error_text(error: &anyhow::Error) -> String {
    let tenant: Remedy = |cause| akash_provider_tenant::help(cause);
    let remedies: Vec<Remedy> = REMEDIES.into_iter().chain([tenant]).collect();
    cli::stderr_text(error, &remedies)
}

#[cfg(test)]
mod tests;

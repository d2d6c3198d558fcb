//! Operators of an Akash compute provider, without the provider.

#[path = "../allocator.rs"]
mod allocator;

use akash_provider_service::error::error_text;
use provider_daemon::args::operators::OperatorsCli;
use std::process::ExitCode;

fn main() -> ExitCode {
    provider_daemon::exit_code(
        provider_daemon::run_operators(&OperatorsCli::from_process()),
        error_text,
    )
}

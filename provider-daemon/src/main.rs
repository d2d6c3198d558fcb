//! The Akash compute provider as a daemon.

use provider_daemon::args::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    provider_daemon::run(&Cli::of_process()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

//! The Akash compute provider as a daemon.

use clap::Parser;
use provider_daemon::args::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    provider_daemon::run(Cli::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

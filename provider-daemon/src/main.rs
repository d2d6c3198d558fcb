//! The Akash compute provider as a daemon.

use provider_daemon::args::Cli;
use provider_daemon::plain::plain;
use std::process::ExitCode;

fn main() -> ExitCode {
    provider_daemon::run(&Cli::of_process()).unwrap_or_else(|error| {
        eprintln!("{}", plain(&format!("error: {error:#}")));
        ExitCode::FAILURE
    })
}

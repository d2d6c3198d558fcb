//! The Akash compute provider as a daemon.

use akash_provider_core::error::chain_text;
use provider_daemon::args::Cli;
use provider_daemon::plain::plain;
use provider_daemon::supervise::PartFailed;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = provider_daemon::script_supervisor::start() {
        return code;
    }
    provider_daemon::run(&Cli::of_process()).unwrap_or_else(|error| {
        eprintln!("{}", plain(&format!("error: {}", chain_text(error.as_ref()))));
        PartFailed::exit_code(&error)
    })
}

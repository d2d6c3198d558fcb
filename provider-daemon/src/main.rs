//! Akash compute provider daemon.

mod allocator;

use akash_provider_service::script_supervisor;
use provider_daemon::args::Cli;
use provider_daemon::error::error_text;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = script_supervisor::start() {
        return code;
    }
    provider_daemon::completions::respond();
    provider_daemon::exit_code(provider_daemon::run(&Cli::from_process()), error_text)
}

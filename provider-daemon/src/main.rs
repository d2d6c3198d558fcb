//! Akash compute provider daemon.

use akash_provider_service::script_supervisor;
use akash_provider_service::supervise::PartFailed;
use provider_daemon::args::Cli;
use provider_daemon::error::error_text;
use std::process::ExitCode;

/// Allocator that returns unused memory to the system within seconds. The allocator of glibc retains unused
/// memory.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    if let Some(code) = script_supervisor::start() {
        return code;
    }
    provider_daemon::run(&Cli::from_process()).unwrap_or_else(|error| {
        eprintln!("{}", error_text(&error));
        PartFailed::exit_code(&error)
    })
}

//! Supervisor of price scripts: for each run of a script, this program starts itself again as the supervisor
//! process.

use akash_provider_core::pricing::supervise;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// First argument of a supervisor process, before the script path. No command has this name.
const ARGUMENT: &str = "--supervise-price-script";

static IS_AVAILABLE: AtomicBool = AtomicBool::new(false);

/// If this process is a supervisor, runs the price script and returns the exit code. Otherwise enables
/// supervisors for the scripts of this process, and returns `None`. `main` must call this function first.
pub fn start() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != ARGUMENT {
        IS_AVAILABLE.store(true, Ordering::Relaxed);
        return None;
    }
    let script = words.next()?;
    Some(supervise(&script).unwrap_or_else(|error| {
        eprintln!("cannot start the price script: {error}");
        ExitCode::FAILURE
    }))
}

/// Returns the command prefix that runs a script under a supervisor; empty if supervisors are unavailable, as
/// in tests.
pub(crate) fn command() -> Vec<OsString> {
    if IS_AVAILABLE.load(Ordering::Relaxed) {
        vec!["/proc/self/exe".into(), ARGUMENT.into()]
    } else {
        Vec::new()
    }
}

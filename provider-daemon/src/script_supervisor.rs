//! This program as the supervisor of price scripts: it starts itself once for each run of a script.

use akash_provider_core::pricing::supervise;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// First argument of a supervisor; the path of the script follows. No command of the command line has this name.
const ARGUMENT: &str = "--supervise-price-script";

static IS_AVAILABLE: AtomicBool = AtomicBool::new(false);

/// Supervises a script if this process was started for that, and returns the exit code. Otherwise enables supervision for
/// the scripts of this process, and returns `None`. The program calls it first.
pub fn start() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != ARGUMENT {
        IS_AVAILABLE.store(true, Ordering::Relaxed);
        return None;
    }
    let script = words.next()?;
    Some(supervise(&script).unwrap_or_else(|error| {
        eprintln!("cannot be started: {error}");
        ExitCode::FAILURE
    }))
}

/// Returns the command that supervises a script; empty in a program that is not this one, such as a test.
pub(crate) fn command() -> Vec<OsString> {
    if IS_AVAILABLE.load(Ordering::Relaxed) {
        vec!["/proc/self/exe".into(), ARGUMENT.into()]
    } else {
        Vec::new()
    }
}

//! Name under which the program was started.

use std::path::Path;

pub(crate) const PROGRAM: &str = "provider-daemon";
/// Program of the Go provider. A link with this name starts this program.
pub(crate) const ALIAS: &str = "provider-services";

/// Returns [`ALIAS`] if this process was started by that name, and [`PROGRAM`] otherwise.
pub(crate) fn of_this_process() -> &'static str {
    let path = std::env::args_os().next().unwrap_or_default();
    match Path::new(&path).file_name() {
        Some(name) if name == ALIAS => ALIAS,
        _ => PROGRAM,
    }
}

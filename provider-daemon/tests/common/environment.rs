//! Environment of programs under test.

use std::process::Command;

/// Removes the provider settings (`AP_…`, `AKASH_…`) from the environment of a program.
pub(crate) fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("AP_") || name.starts_with("AKASH_") {
            command.env_remove(&*name);
        }
    }
}

//! The environment that programs under test are started with.

use std::process::Command;

/// Takes the settings of whoever runs the tests out of a program's environment.
pub(crate) fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("AP_") || name.starts_with("AKASH_") {
            command.env_remove(&*name);
        }
    }
}

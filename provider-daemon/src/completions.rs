//! Shell completion. The script of `completions` runs the program, which completes the typed arguments.

use crate::args::Cli;
use anyhow::Context;
use clap::Command;
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};

/// Environment variable of a completion request. Contains the name of the shell.
const VARIABLE: &str = "PROVIDER_DAEMON_COMPLETE";

/// Responds to the completion request of a shell, and exits the process. Returns if the process was started for
/// another purpose.
pub fn respond() {
    CompleteEnv::with_factory(|| with_hidden_aliases(Cli::for_a_real_chain()))
        .var(VARIABLE)
        .complete();
}

/// Hides the aliases of all commands. Of a command and its visible aliases, a shell would offer only one, such as `q`.
fn with_hidden_aliases(command: Command) -> Command {
    let aliases: Vec<String> = command.get_all_aliases().map(str::to_owned).collect();
    let command = command.visible_alias(None).alias(None).aliases(aliases);
    command.mut_subcommands(with_hidden_aliases)
}

/// Returns the completion script of a shell for the program `name`. The script finds the program in `PATH`.
///
/// # Errors
/// Returns an error if the shell is not supported.
pub(crate) fn script(shell: Shell, program: &str) -> anyhow::Result<String> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&name);
    let completer = completer.with_context(|| format!("no completion script for {name}"))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, program, program, program, &mut script)?;
    Ok(String::from_utf8_lossy(&script).trim_start().to_owned())
}

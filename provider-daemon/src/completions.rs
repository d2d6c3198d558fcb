//! `completions`: completion scripts for shells.

use crate::args::Cli;
use clap::CommandFactory;
use clap_complete::Shell;

/// Returns the completion script of a shell for the program `name`.
pub(crate) fn script(shell: Shell, name: &str) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), name, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => one_name(&script, name),
        _ => script,
    }
}

/// Fixes the bash script, which escapes the hyphen of the program name in two different ways.
fn one_name(script: &str, name: &str) -> String {
    script.replace(&name.replace('-', "__subcmd__"), &name.replace('-', "__"))
}

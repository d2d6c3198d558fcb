//! `completions`: completion scripts for shells.

use crate::args::Cli;
use clap::CommandFactory;
use clap_complete::Shell;

const PROGRAM: &str = "provider-daemon";

/// Returns the completion script for a shell.
pub(crate) fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), PROGRAM, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => one_name(&script),
        _ => script,
    }
}

/// Fixes the bash script, which escapes the hyphen of the program name in two different ways.
fn one_name(script: &str) -> String {
    script.replace(&PROGRAM.replace('-', "__subcmd__"), &PROGRAM.replace('-', "__"))
}

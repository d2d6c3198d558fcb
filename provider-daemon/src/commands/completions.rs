//! `completions`: scripts with which shells complete what is typed.

use crate::args::Cli;
use clap::CommandFactory;
use clap_complete::Shell;

const PROGRAM: &str = "provider-daemon";

/// The script of a shell.
#[must_use]
pub fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), PROGRAM, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => one_name(&script),
        _ => script,
    }
}

/// For bash the generator writes the hyphen of the program's name in one way where it follows what was typed, and in
/// another where it looks the result up, so that nothing below the first level is found.
fn one_name(script: &str) -> String {
    script.replace(&PROGRAM.replace('-', "__subcmd__"), &PROGRAM.replace('-', "__"))
}

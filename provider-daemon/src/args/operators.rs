//! Command line of `provider-operators`.

use super::{environment, help};
use akash_provider_cli::flags::with_go_booleans;
use akash_provider_service::args::{GlobalArgs, OperatorsCommand};
use clap::{Command, CommandFactory, FromArgMatches, Parser};

/// Operators of an Akash compute provider.
#[derive(Debug, Parser)]
#[command(name = "provider-operators", version, about, max_term_width = help::WIDTH_MAX, args_override_self = true)]
pub struct OperatorsCli {
    /// Flags of all commands.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// Operator to run.
    #[command(subcommand)]
    pub command: OperatorsCommand,
}

impl OperatorsCli {
    /// Parses the command line of this process; unset flags use the environment. Exits the process if the
    /// command line is invalid, or after printing help.
    #[must_use]
    pub fn from_process() -> Self {
        let matches = Self::with_variables(|name| std::env::var(name).ok()).try_get_matches();
        let parsed = matches.and_then(|matches| Self::from_arg_matches(&matches));
        parsed.unwrap_or_else(|error| super::refuse(&error))
    }

    /// Returns the command line with examples and variables. `look` returns the value of a variable.
    fn with_variables(look: impl Fn(&str) -> Option<String>) -> Command {
        let root = help::with_examples_of_operators(with_go_booleans(Self::command()));
        environment::read_in_all(root, &look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;

    /// Returns each command with its flags, variables, defaults and help.
    fn rows(command: &Command, path: &str, rows: &mut Vec<String>) {
        let about = command.get_about().map(ToString::to_string);
        rows.push(format!("{path}: {about:?} {:?}", command.is_args_override_self()));
        for arg in command.get_arguments() {
            rows.push(format!("{path}: {arg:?}"));
        }
        let examples = command.get_after_help().map(ToString::to_string);
        let examples = examples.unwrap_or_default();
        rows.extend(examples.lines().map(|line| format!("{path}: {line}")));
        for below in command.get_subcommands() {
            self::rows(below, &format!("{path} {}", below.get_name()), rows);
        }
    }

    #[test]
    fn both_programs_accept_the_same_flags_for_operators() {
        let look = |name: &str| (name == "AKASH_REST_PORT").then(|| "1".to_owned());
        let mut daemon = help::with_examples(Cli::for_a_real_chain());
        daemon = environment::read_in(daemon, false, |_| true, look);
        let mut own = OperatorsCli::with_variables(look);
        daemon.build();
        own.build();
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        let operator = daemon.find_subcommand("operator").unwrap();
        for command in operator.get_subcommands() {
            rows(command, command.get_name(), &mut expected);
        }
        for command in own.get_subcommands() {
            rows(command, command.get_name(), &mut found);
        }
        let renamed = |row: String| row.replace("provider-daemon operator ", "provider-operators ");
        let expected: Vec<String> = expected.into_iter().map(renamed).collect();
        assert!(expected.len() > 100, "{expected:?}");
        assert_eq!(found, expected);
    }
}

//! Settings from the environment. The variable `AP_SOME_FLAG`, or else `AKASH_SOME_FLAG`, sets the flag `--some-flag`.
//! A flag on the command line takes precedence over both variables.
//!
//! `dev` and `devnet` are for trials and do not read the environment: variables with the settings of a real
//! provider could otherwise connect a trial to a real cluster. `explain` reads the environment only if its
//! command line names a real provider. Only the subcommand `devnet tenant` reads the environment, like other
//! commands that query a node.

use akash_provider_cli::environment::{names, variable};
use akash_provider_cli::setting::NoVariable;
use clap::builder::Resettable;
use clap::{Arg, Command};
use std::fmt::Write as _;

/// Commands that read their flags from the environment.
pub(crate) const COMMANDS: [&str; 26] = [
    "audit",
    "keys",
    "query",
    "events",
    "tx",
    "run",
    "config",
    "doctor",
    "operator",
    "migrate",
    "state",
    "bus",
    "tools",
    "send-manifest",
    "get-manifest",
    "lease-status",
    "service-status",
    "lease-logs",
    "lease-events",
    "lease-shell",
    "lease-attestation",
    "status",
    "migrate-hostnames",
    "migrate-endpoints",
    "sdl-to-manifest",
    "show-cluster-ns",
];

/// Flags of `explain` that are not read from environment variables. Tenant commands use variables with the
/// same names for another purpose.
const TYPED: [&str; 2] = ["provider", "provider-url"];

/// Lets each flag of `root`, and of the commands for which `is_used` is true, take its value from an environment
/// variable. `look` returns the value of a variable. `is_real` is true if the command line contains `--from` or
/// `--provider`.
#[must_use]
pub fn read_in(
    root: Command,
    is_real: bool,
    is_used: impl Fn(&Command) -> bool,
    look: impl Fn(&str) -> Option<String>,
) -> Command {
    let root = root.mut_args(|arg| settable(arg, &look));
    root.mut_subcommands(|command| {
        let name = command.get_name();
        if !is_used(&command) {
            command
        } else if COMMANDS.contains(&name) {
            read_in_all(command, &look)
        } else if is_real && name == "explain" {
            command.mut_args(|arg| match arg.get_long() {
                Some(typed) if TYPED.contains(&typed) => arg,
                _ => settable(arg, &look),
            })
        } else if name == "devnet" {
            // `devnet` serves a trial network; its subcommands act on a network.
            command.mut_subcommands(|below| read_in_all(below, &look))
        } else {
            command
        }
    })
}

/// Lets each flag of `command` and of its subcommands take its value from an environment variable. `look` returns
/// the value of a variable.
pub(super) fn read_in_all(command: Command, look: &impl Fn(&str) -> Option<String>) -> Command {
    let command = command.mut_args(|arg| settable(arg, look));
    command.mut_subcommands(|below| read_in_all(below, look))
}

fn settable(arg: Arg, look: &impl Fn(&str) -> Option<String>) -> Arg {
    let Some(long) = arg.get_long().filter(|_| arg.get::<NoVariable>().is_none()) else {
        return arg;
    };
    let (set, [first, second]) = (variable(long, look), names(long));
    let mut help = arg.get_help().cloned().unwrap_or_default();
    // Writing into a `StyledStr` does not fail.
    let _ = write!(help, " [env: {first}, {second}]");
    // `clap` would show one variable, and its value, which may be a secret.
    let arg = arg.help(help).hide_env(true);
    match set {
        Some(name) => arg.env(name),
        None if look(&first).is_none() => arg.env(first),
        // An empty variable does not set the flag.
        None => arg.env(Resettable::Reset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn prefers_the_short_prefix_and_ignores_empty_variables() {
        let set = BTreeMap::from([
            ("AP_NODE", "one"),
            ("AKASH_NODE", "two"),
            ("AKASH_CHAIN_ID", "three"),
            ("AP_FROM", ""),
            ("AKASH_FROM", "four"),
            ("AP_GAS", ""),
        ]);
        let variable = |flag| variable(flag, |name| set.get(name).map(ToString::to_string));
        assert_eq!(variable("node").as_deref(), Some("AP_NODE"));
        assert_eq!(variable("chain-id").as_deref(), Some("AKASH_CHAIN_ID"));
        assert_eq!(variable("from").as_deref(), Some("AKASH_FROM"));
        assert_eq!(variable("gas"), None);
    }

    #[test]
    fn ignores_the_environment_in_trials() {
        use clap::CommandFactory;
        let with = |is_real| {
            read_in(
                crate::args::Cli::command(),
                is_real,
                |_| true,
                |_| Some("x".to_owned()),
            )
        };
        let (command, real) = (with(false), with(true));
        let env_in = |command: &Command, name: &str, flag: &str| {
            let below = command.find_subcommand(name).unwrap();
            let arg = below
                .get_arguments()
                .find(|a| a.get_long() == Some(flag))
                .unwrap();
            arg.get_env().map(|e| e.to_string_lossy().into_owned())
        };
        for trial in ["dev", "explain"] {
            assert_eq!(env_in(&command, trial, "kubeconfig"), None);
        }
        assert_eq!(env_in(&command, "query", "node").as_deref(), Some("AP_NODE"));
        assert_eq!(env_in(&real, "dev", "kubeconfig"), None);
        let explained = env_in(&real, "explain", "kubeconfig");
        assert_eq!(explained.as_deref(), Some("AP_KUBECONFIG"));
        // `explain` takes its provider from the command line only: `AP_PROVIDER` is set for tenant commands.
        assert_eq!(env_in(&real, "explain", "provider"), None);
    }

    #[test]
    fn reads_the_node_of_every_command_from_the_environment() {
        use clap::CommandFactory;
        let root = read_in(
            crate::args::Cli::command(),
            true,
            |_| true,
            |name| name.starts_with("AKASH_").then(|| "x".to_owned()),
        );
        fn look(command: &Command, path: &str, asked: &mut Vec<String>) {
            let path = format!("{path} {}", command.get_name());
            for arg in command.get_arguments() {
                if arg.get_long() != Some("node") {
                    continue;
                }
                let set = arg.get_env().map(|name| name.to_string_lossy().into_owned());
                assert_eq!(set.as_deref(), Some("AKASH_NODE"), "{path}");
                asked.push(path.clone());
            }
            for below in command.get_subcommands() {
                look(below, &path, asked);
            }
        }
        let mut asked = Vec::new();
        look(&root, "", &mut asked);
        for name in ["query", "tx", "run", "explain", "devnet tenant", "lease-status"] {
            let path = format!(" provider-daemon {name}");
            assert!(asked.contains(&path), "{path}: {asked:?}");
        }
    }

    #[test]
    fn uses_one_name_for_the_keyring_directory() {
        use clap::{CommandFactory, Parser};
        fn look(command: &Command, names: &mut Vec<String>) {
            let flags = command.get_arguments().filter_map(Arg::get_long);
            names.extend(flags.filter(|name| name.starts_with("key")).map(str::to_owned));
            command.get_subcommands().for_each(|below| look(below, names));
        }
        let mut names = Vec::new();
        look(&crate::args::Cli::command(), &mut names);
        assert!(names.iter().any(|name| name == "keyring-dir"));
        assert!(!names.iter().any(|name| name == "keys"), "{names:?}");
        for words in [
            &["x", "devnet", "--keys", "a"][..],
            &["x", "devnet", "--keyring-dir", "a"],
            &["x", "devnet", "tenant", "close", "1", "--keys", "a"],
            &["x", "devnet", "tenant", "--keyring-dir", "a", "close", "1"],
        ] {
            assert!(crate::args::Cli::try_parse_from(words).is_ok(), "{words:?}");
        }
    }
}

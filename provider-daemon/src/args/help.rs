//! Additions to the help of commands: examples, environment variables and exit codes.

mod examples;

use crate::supervise::Part;
use clap::Command;
use clap::builder::StyledStr;
use std::fmt::Write as _;

/// Adds examples to the help of every command.
#[must_use]
pub fn with_examples(root: Command) -> Command {
    let root = root.after_help(EVERYWHERE);
    root.mut_subcommands(|command| {
        let path = command.get_name().to_owned();
        exemplified(command, &path)
    })
}

/// Groups of commands, shown below the list of commands because clap cannot group subcommands.
const EVERYWHERE: &str = "\
For providers:  keys, tx, query, run, config, doctor, operator, migrate, bus, price, tools, explain, replay, bundle, state, breaker, reconcile, leases, harden, end-lease, log-level, orders, order, summary
For tenants:    sdl, send-manifest, get-manifest, lease-status, service-status, lease-logs, lease-events, lease-shell, \
status, migrate-hostnames, migrate-endpoints, sdl-to-manifest, show-cluster-ns
For trials:     dev, devnet

Flags are set in the environment too: --chain-id is AP_CHAIN_ID or AKASH_CHAIN_ID. The help of a command says which, and \
has examples: provider-daemon query leases --help";

/// Command with a list of exit codes in its help.
const RUN: &str = "run";
/// Command with a list of exit codes in its help.
const DOCTOR: &str = "doctor";

const DOCTOR_CODES: &str = "\n   0  no failure; there may be warnings\n   1  the checks could not run\n   2  invalid command \
                            line\n   3  at least one failure";

fn exit_codes() -> String {
    let mut text = "\n   0  shut down in order\n   1  invalid setting, unusable file or home directory, or stopped by a second \
                    signal\n   2  invalid command line"
        .to_owned();
    for part in Part::ALL {
        let _ = write!(text, "\n  {}  failed: {}", part.code(), part.name());
    }
    text
}

fn exemplified(command: Command, path: &str) -> Command {
    let command = match examples::examples(path) {
        [] => command,
        lines => {
            let mut text = StyledStr::new();
            let style = clap::builder::Styles::styled().get_header().to_owned();
            // Writing into a `String` does not fail.
            let _ = write!(text, "{style}Examples:{style:#}");
            for line in lines {
                let _ = write!(text, "\n  provider-daemon {line}");
            }
            if path == DOCTOR {
                let _ = write!(text, "\n\n{style}Exit codes:{style:#}{DOCTOR_CODES}");
            }
            if path == RUN {
                let _ = write!(text, "\n\n{style}Exit codes:{style:#}{}", exit_codes());
            }
            command.after_help(text)
        }
    };
    command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        exemplified(below, &path)
    })
}

#[cfg(test)]
mod tests;

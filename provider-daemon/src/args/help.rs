//! Additions to the help of commands: examples, environment variables and exit codes.

mod examples;

use akash_provider_service::supervise::Part;
use clap::Command;
use clap::builder::StyledStr;
use std::fmt::Write as _;

/// Maximum width of a help text, in columns.
pub(super) const WIDTH_MAX: usize = 110;

/// Heading and commands of each group, in the order of the help.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Run a provider",
        &[
            "run", "doctor", "config", "keys", "tx", "query", "events", "operator", "price", "explain",
            "migrate", "tools",
        ],
    ),
    (
        "Inspect and control a provider",
        &[
            "leases",
            "capacity",
            "orders",
            "order",
            "summary",
            "audit",
            "reconcile",
            "breaker",
            "harden",
            "end-lease",
            "log-level",
            "bus",
            "state",
            "replay",
            "bundle",
        ],
    ),
    (
        "Deploy as a tenant",
        &[
            "sdl",
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
        ],
    ),
    (
        "Try and develop",
        &["dev", "devnet", "version", "completions", "man-pages"],
    ),
];

const EVERYWHERE: &str = "\
Environment variables set flags too: AP_CHAIN_ID or AKASH_CHAIN_ID sets --chain-id. The help of each command lists the \
variables and has examples: provider-daemon query leases --help";

/// Name of a program in its examples.
#[derive(Debug, Clone, Copy)]
struct Program {
    name: &'static str,
    /// Command of `provider-daemon` with the commands of this program; empty for `provider-daemon`.
    group: &'static str,
}

const DAEMON: Program = Program {
    name: "provider-daemon",
    group: "",
};
const OPERATORS: Program = Program {
    name: "provider-operators",
    group: "operator ",
};

/// Adds examples to the help of every command. The help of the program lists the commands in groups.
#[must_use]
pub fn with_examples(root: Command) -> Command {
    let template = grouped(&root, |list| list);
    let root = root.help_template(template).after_help(EVERYWHERE);
    exemplified_below(root, DAEMON)
}

/// Adds examples to the help of every command of `provider-operators`.
pub(super) fn with_examples_of_operators(root: Command) -> Command {
    exemplified_below(root, OPERATORS)
}

fn exemplified_below(root: Command, program: Program) -> Command {
    root.mut_subcommands(|command| {
        let path = format!("{}{}", program.group, command.get_name());
        exemplified(command, &path, program)
    })
}

/// Returns the help template of the program. A separate command renders each group, because `clap` cannot
/// group subcommands. `fit` can set the width.
fn grouped(root: &Command, fit: impl Fn(Command) -> Command) -> StyledStr {
    let header = clap::builder::Styles::styled().get_header().to_owned();
    let mut text = StyledStr::new();
    // Writing into a `String` does not fail.
    let _ = write!(text, "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n");
    for (title, names) in GROUPS {
        let list = Command::new("list")
            .disable_help_subcommand(true)
            .max_term_width(WIDTH_MAX);
        let commands = names.iter().filter_map(|name| root.find_subcommand(name));
        let entries = commands
            .enumerate()
            .map(|(order, command)| entry(command).display_order(order));
        let list = fit(list)
            .help_template("{subcommands}")
            .subcommands(entries)
            .render_help();
        let _ = write!(text, "\n{header}{title}:{header:#}\n{}", list.ansi());
    }
    let _ = write!(text, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    text
}

fn entry(command: &Command) -> Command {
    let aliases: Vec<String> = command.get_visible_aliases().map(str::to_owned).collect();
    let entry = Command::new(command.get_name().to_owned()).visible_aliases(aliases);
    match command.get_about() {
        Some(about) => entry.about(about.clone()),
        None => entry,
    }
}

const RUN: &str = "run";
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

fn exemplified(command: Command, path: &str, program: Program) -> Command {
    let command = match examples::examples(path) {
        None => command,
        Some(lines) => {
            let mut text = StyledStr::new();
            let style = clap::builder::Styles::styled().get_header().to_owned();
            // Writing into a `String` does not fail.
            let _ = write!(text, "{style}Examples:{style:#}");
            for line in lines {
                let line = line.strip_prefix(program.group).unwrap_or(line);
                let _ = write!(text, "\n  {} {line}", program.name);
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
        exemplified(below, &path, program)
    })
}

#[cfg(test)]
mod tests;

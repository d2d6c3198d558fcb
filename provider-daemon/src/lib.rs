//! The daemon: command line, wiring of the default backends, and an embedded market to develop against.
//!
//! It is a library too, so that an embedder can reuse its parts; the binary is a few lines around [`run()`].

pub mod args;
mod cluster_client;
pub mod commands;
pub mod dev;
mod download;
mod files;
pub mod flight;
mod hardware;
pub mod json;
pub mod operator;
pub mod operators;
pub mod plain;
mod prices;
pub mod run;
pub mod script_supervisor;
mod sealed;
pub mod secrets;
pub mod shown;
mod signals;
pub mod state;
pub mod supervise;
pub mod tenant;

use akash_provider_gateway::Program;
use args::{Cli, Command, DEFAULT_LEVEL, LogFormat};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// The commit that this was built from, in hexadecimal, or `unknown`: release builds in a checkout know it, others where
/// `AP_BUILD_COMMIT` named it.
const COMMIT: &str = env!("AP_BUILD_COMMIT");

/// This program, as its gateway names it to tenants.
pub(crate) fn program() -> Program {
    Program {
        name: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        commit: if COMMIT == "unknown" { "" } else { COMMIT },
    }
}

/// Runs one command of the command line.
///
/// # Errors
/// What the command could not do, for people, with its causes.
pub fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let wrong =
        |why: String| anyhow::anyhow!("--log-level `{}`: {why}; try `info` or `debug`", cli.log_level);
    args::values::check_log_levels(&cli.log_level).map_err(wrong)?;
    let filter =
        EnvFilter::try_new(levels(&cli.log_level, &cli.command)).map_err(|e| wrong(e.to_string()))?;
    let is_json = cli.log_format == LogFormat::Json;
    let has_colours = !is_json && cli.log_color.unwrap_or_else(|| std::io::stderr().is_terminal());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || plain::Logs::new(std::io::stderr(), has_colours))
        .with_ansi(has_colours);
    if is_json {
        log.json().init();
    } else {
        log.init();
    }
    // Before any key is read.
    sealed::seal();
    let home = cli.home();
    match &cli.command {
        Command::Dev(args) => commands::dev::run(args),
        Command::Devnet(args) => commands::devnet::run(args),
        Command::Sdl(args) => commands::sdl::run(args),
        Command::Explain(args) => commands::explain::run(args, || home),
        Command::Keys(args) => commands::keys::run(args, &home?),
        Command::Query(args) => commands::query::run(args),
        Command::Tx(args) => commands::tx::run(args, &home?),
        Command::Run(args) => commands::run::run(args, &home?),
        Command::Config(command) => commands::config::run(command, home),
        Command::Operator(command) => operator::run(command, &home?),
        Command::Operators(command) => operators::run(command, home),
        Command::Migrate(command) => commands::migrate::run(command, &home?),
        Command::Replay(args) => flight::replay(args),
        Command::State(action) => commands::state::run(action, &home?),
        Command::Bundle(args) => flight::bundle(args),
        Command::Bus(command) => commands::bus::run(command),
        Command::Price(command) => commands::price::run(command),
        Command::Tools(command) => commands::tools::run(command),
        Command::Tenant(command) => tenant::run(command, home),
        Command::Version => {
            say(&format!(
                "provider-daemon {}\ncommit {COMMIT}\n",
                env!("CARGO_PKG_VERSION")
            ));
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            say(&commands::completions::script(*shell));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The library behind the Kubernetes backend logs every failed call by itself, and we log what comes of it: it
/// is heard only where it is named.
fn levels(chosen: &str, command: &Command) -> String {
    const TWICE: &str = "kube_client";
    /// Nodes that cannot be used: a command that ends for want of one says so itself.
    const NODES: &str = "akash_provider_chain::endpoints";
    let mut levels = args::values::log_levels(chosen);
    if !chosen.contains(TWICE) {
        levels.push_str(&format!(",{TWICE}=off"));
    }
    let ends_soon = matches!(command, Command::Query(_) | Command::Tx(_) | Command::Tenant(_));
    if ends_soon && chosen == DEFAULT_LEVEL {
        levels.push_str(&format!(",{NODES}=error"));
    }
    levels
}

/// Writes to the standard output, with nothing in it that acts on a terminal. A reader that has gone away (`… | head`) ends the output, not the program.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // There is nobody left to tell that the output cannot be written.
    drop(
        out.write_all(plain::plain(text).as_bytes())
            .and_then(|()| out.flush()),
    );
}

/// Writes a line, its second half in a style where somebody watches; `NO_COLOR` is heard.
pub(crate) fn say_styled(head: &str, style: anstyle::Style, tail: &str) {
    let mut out = std::io::stdout().lock();
    let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let style = if is_wanted && out.is_terminal() {
        style
    } else {
        anstyle::Style::new()
    };
    let (head, tail) = (plain::plain(head), plain::plain(tail));
    // As above.
    drop(writeln!(out, "{head}{style}{tail}{style:#}").and_then(|()| out.flush()));
}

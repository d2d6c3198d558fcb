//! The daemon: command line, default backends, and an embedded market for development.
//!
//! The crate is a library, so that embedders can reuse its parts. The binary calls [`run()`].

pub mod args;
pub mod audit;
pub mod backend;
pub mod chain_json;
mod cluster_client;
pub mod commands;
mod core_dumps;
pub mod dev;
mod download;
pub mod error;
mod files;
pub mod flight;
mod hardware;
pub mod history;
mod logging;
pub mod metrics;
mod numbered_files;
pub mod operator;
pub mod operators;
#[cfg(feature = "otlp")]
pub mod otlp;
mod prices;
pub mod printer;
pub mod run;
pub mod script_supervisor;
mod signals;
pub mod state;
pub mod supervise;
pub mod trial;
mod writers;

use akash_provider_cli::output::say;
use akash_provider_gateway::ProgramVersion;
use args::{Cli, Command};
use std::process::ExitCode;

/// Commit of the build in hexadecimal, or `unknown`. From Git in a checkout, otherwise from
/// `AP_BUILD_COMMIT`.
const COMMIT: &str = env!("AP_BUILD_COMMIT");

pub(crate) fn program() -> ProgramVersion {
    ProgramVersion {
        name: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        commit: if COMMIT == "unknown" { "" } else { COMMIT },
    }
}

/// Runs the command of a command line.
///
/// # Errors
/// Returns the failure of the command with its causes.
pub fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    logging::start(cli)?;
    // Sealed before any key is read.
    core_dumps::disable();
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
        Command::Doctor(args) => commands::doctor::run(args, home),
        Command::Operator(command) => operator::run(command, &home?),
        Command::Operators(command) => operators::run(command, home),
        Command::Migrate(command) => commands::migrate::run(command, &home?),
        Command::Replay(args) => flight::replay(args),
        Command::State(action) => commands::state::run(action, &home?),
        Command::Bundle(args) => flight::bundle(args),
        Command::Bus(command) => commands::bus::run(command),
        Command::Price(command) => commands::price::run(command),
        Command::Tools(command) => commands::tools::run(command),
        Command::Tenant(command) => akash_provider_tenant::run(command, home),
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

//! The daemon: command line, wiring of the default backends, and an embedded market to develop against.
//!
//! It is a library too, so that an embedder can reuse its parts; the binary is a few lines around [`run`].

pub mod args;
pub mod commands;
pub mod dev;

use args::{Cli, Command};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Runs one command of the command line.
///
/// # Errors
/// What the command could not do, for people, with its causes.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let filter = EnvFilter::try_new(&cli.log_level)
        .map_err(|e| anyhow::anyhow!("--log-level `{}`: {e}; try `info` or `debug`", cli.log_level))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match cli.command {
        Command::Dev(args) => commands::dev::run(&args),
        Command::Sdl(args) => commands::sdl::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Version => {
            println!("provider-daemon {}", env!("CARGO_PKG_VERSION"));
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            let mut command = <Cli as clap::CommandFactory>::command();
            clap_complete::generate(shell, &mut command, "provider-daemon", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    }
}

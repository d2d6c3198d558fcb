//! The program of an Akash provider: its command line, with the commands of all audiences.
//!
//! The binary `provider-daemon` calls [`run()`]. The binary `provider-operators` calls [`run_operators`], and contains
//! only the operators. The commands are in crates of their own, which embedders can reuse.

pub mod args;
pub mod completions;
pub mod error;
mod man_pages;
mod program_name;
pub mod version;

use akash_provider_cli::output::say;
use akash_provider_dev::{dev, devnet};
use akash_provider_operate::{
    bus, config, doctor, events, explain, keys, migrate, operator, operators, price, query, sdl, state,
    tools, tx,
};
use akash_provider_service::args::{GlobalArgs, RunArgs};
use akash_provider_service::supervise::PartFailed;
use akash_provider_service::{core_dumps, flight, logging, run};
use args::operators::OperatorsCli;
use args::{Cli, Command};
use std::process::ExitCode;

/// Runs the command of a command line.
///
/// # Errors
/// Returns the failure of the command with its causes.
pub fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let is_short = matches!(
        cli.command,
        Command::Query(_) | Command::Events(_) | Command::Tx(_) | Command::Tenant(_) | Command::Doctor(_)
    );
    let provider = match &cli.command {
        Command::Run(args) => Some(&**args),
        _ => None,
    };
    prepare(&cli.global, is_short, provider)?;
    let home = cli.global.home();
    match &cli.command {
        Command::Dev(args) => dev::run(args),
        Command::Devnet(args) => devnet::run(args),
        Command::Sdl(args) => sdl::run(args),
        Command::Explain(args) => explain::run(args, || home),
        Command::Keys(args) => keys::run(args, &home?),
        Command::Query(args) => query::run(args),
        Command::Events(args) => events::run(args),
        Command::Tx(args) => tx::run(args, &home?),
        Command::Run(args) => run::run(args, &home?),
        Command::Config(command) => config::run(command, home, Cli::flags_of_run),
        Command::Doctor(args) => doctor::run(args, home),
        Command::Operator(command) => operator::run(command, &home?),
        Command::Operators(command) => operators::run(command, home),
        Command::Migrate(command) => migrate::run(command, &home?),
        Command::Replay(args) => flight::replay(args),
        Command::State(action) => state::run(action, &home?),
        Command::Bundle(args) => flight::bundle(args),
        Command::Bus(command) => bus::run(command),
        Command::Price(command) => price::run(command),
        Command::Tools(command) => tools::run(command),
        Command::Tenant(command) => akash_provider_tenant::run(command, home),
        Command::Version(args) => version::run(args),
        Command::Completions { shell } => {
            say(&completions::script(*shell, program_name::of_this_process())?);
            Ok(ExitCode::SUCCESS)
        }
        Command::ManPages { folder } => man_pages::write(folder),
    }
}

/// Runs the command of a command line of `provider-operators`.
///
/// # Errors
/// Returns the failure of the command with its causes.
pub fn run_operators(cli: &OperatorsCli) -> anyhow::Result<ExitCode> {
    prepare(&cli.global, false, None)?;
    operators::run(&cli.command, cli.global.home())
}

/// Returns the exit code of a program. Prints the error of a failed command in the form of `error_text`.
pub fn exit_code(
    result: anyhow::Result<ExitCode>,
    error_text: impl FnOnce(&anyhow::Error) -> String,
) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("{}", error_text(&error));
        PartFailed::exit_code(&error)
    })
}

/// Starts the log and disables core dumps.
fn prepare(global: &GlobalArgs, is_short: bool, provider: Option<&RunArgs>) -> anyhow::Result<()> {
    logging::start(global, is_short, provider)?;
    // Sealed before any key is read.
    core_dumps::disable();
    Ok(())
}

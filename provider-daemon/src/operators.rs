//! What runs in the cluster beside the provider, each with a port on which it is asked how it is.

pub mod hostname;
pub mod inventory;
mod serve;

use crate::args::operators::{HostnameAction, OperatorsCommand};
use std::process::ExitCode;

/// Runs an operator, or asks one that runs.
///
/// # Errors
/// It cannot be started, or there is none to ask.
pub fn run(command: &OperatorsCommand) -> anyhow::Result<ExitCode> {
    match command {
        OperatorsCommand::Hostname(args) => match &args.action {
            None => hostname::run(args),
            Some(HostnameAction::Forget(asked)) => hostname::forget(asked),
        },
        OperatorsCommand::Inventory(args) => inventory::run(args),
    }
}

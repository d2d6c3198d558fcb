//! `operator`: runs an operator of the cluster, or sends a command to a running one.

use crate::operator;
use akash_provider_service::args::operators::{HostnameAction, IpAction, OperatorsCommand};
use akash_provider_service::operators::{commands, hostname, inventory, ip};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs an operator, or sends a command to a running operator.
///
/// # Errors
/// Returns an error if the operator cannot start, or if no operator receives the command.
pub fn run(command: &OperatorsCommand, home: anyhow::Result<PathBuf>) -> anyhow::Result<ExitCode> {
    match command {
        OperatorsCommand::Status(printed) => operator::operators(&home?, printed.output),
        OperatorsCommand::Hostname(args) => match &args.action {
            None => hostname::run(args),
            Some(HostnameAction::Forget(asked)) => commands::forget(asked, "hostname"),
            Some(HostnameAction::Confirm(asked)) => commands::confirm(asked),
        },
        OperatorsCommand::Ip(args) => match &args.action {
            None => ip::run(args),
            Some(IpAction::Forget(asked)) => commands::forget(asked, "leased port"),
            Some(IpAction::Confirm(asked)) => commands::confirm(asked),
        },
        OperatorsCommand::Inventory(args) => inventory::run(args),
    }
}

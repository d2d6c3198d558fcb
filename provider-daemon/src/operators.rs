//! What runs in the cluster beside the provider, each with a port on which it is asked how it is.

mod forget;
pub mod hostname;
pub mod ip;
mod serve;
mod words;

use crate::args::operators::{HostnameAction, IpAction, OperatorsCommand};
use std::process::ExitCode;

/// Runs an operator, or asks one that runs.
///
/// # Errors
/// It cannot be started, or there is none to ask.
pub fn run(command: &OperatorsCommand) -> anyhow::Result<ExitCode> {
    match command {
        OperatorsCommand::Hostname(args) => match &args.action {
            None => hostname::run(args),
            Some(HostnameAction::Forget(asked)) => forget::forget(asked, "hostname"),
        },
        OperatorsCommand::Ip(args) => match &args.action {
            None => ip::run(args),
            Some(IpAction::Forget(asked)) => forget::forget(asked, "leased port"),
        },
    }
}

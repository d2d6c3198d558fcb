//! What runs in the cluster beside the provider, each with a port on which it is asked how it is.

pub mod hostname;
mod serve;

use crate::args::operators::{HostnameAction, OperatorsCommand};
use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::Path;
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
    }
}

/// A client for a kubeconfig file, or for the cluster that the environment knows.
async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let config = match kubeconfig {
        Some(path) => {
            let file = || format!("kubeconfig {}", path.display());
            let read = Kubeconfig::read_from(path).with_context(file)?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
                .await
                .with_context(file)?
        }
        None => Config::infer().await.context(
            "no cluster is known: name one with --kubeconfig, or run in a pod with a service account",
        )?,
    };
    Client::try_from(config).context("the client of the cluster")
}

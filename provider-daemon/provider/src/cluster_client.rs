//! Creation of clients for a Kubernetes cluster.

use akash_provider_chain::regular_file;
use akash_provider_cli::error::WithHelp;
use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::Path;

/// Maximum size of a kubeconfig file, in bytes.
const KUBECONFIG_BYTES_MAX: u64 = 4 << 20;

/// Creates a client for the cluster of a kubeconfig file, or else of `KUBECONFIG`, `~/.kube/config` or this
/// pod.
///
/// # Errors
/// Returns an error if the configuration cannot be read, or if the certificates or credentials are invalid.
pub async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    Client::try_from(config(kubeconfig).await?).with_context(|| source(kubeconfig))
}

pub(crate) fn source(kubeconfig: Option<&Path>) -> String {
    match kubeconfig {
        Some(path) => format!("cannot use kubeconfig {}", path.display()),
        None => "cannot create the client of the cluster".to_owned(),
    }
}

/// Reads the cluster configuration from a kubeconfig file, or else from `KUBECONFIG`, `~/.kube/config` or this pod.
///
/// # Errors
/// Returns an error if the file is invalid, or if no cluster is configured. An unavailable cluster is not an error.
pub(crate) async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    let Some(path) = kubeconfig else {
        return Config::infer().await.with_context(|| {
            WithHelp::new(
                "no cluster configured",
                "set --kubeconfig, or run in a pod with a service account",
            )
        });
    };
    let file = || source(kubeconfig);
    // Read again below, because paths in the file are relative to its directory.
    regular_file::read(path, KUBECONFIG_BYTES_MAX).with_context(file)?;
    let read = Kubeconfig::read_from(path).with_context(file)?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    config.with_context(file)
}

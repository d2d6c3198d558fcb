//! The client of a Kubernetes cluster, for whoever in the daemon speaks to one.

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::Path;

/// A client for the cluster of a kubeconfig file, or without one for that of the environment or the one this runs in.
///
/// # Errors
/// The file is wrong, or no cluster is known. That a cluster is away is none.
pub(crate) async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let Some(path) = kubeconfig else {
        let config = Config::infer().await.context(
            "no cluster is known: name one with --kubeconfig, or run in a pod with a service account",
        )?;
        return Client::try_from(config).context("the client of the cluster");
    };
    let file = || format!("kubeconfig {}", path.display());
    let read = Kubeconfig::read_from(path).with_context(file)?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    Client::try_from(config.with_context(file)?).with_context(file)
}

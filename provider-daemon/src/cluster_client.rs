//! The client of a Kubernetes cluster, for whoever in the daemon speaks to one.

use akash_provider_chain::regular_file;
use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::Path;

/// Largest kubeconfig file: each cluster has a few kilobytes of certificates.
const KUBECONFIG_BYTES_MAX: u64 = 4 << 20;

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
    // Read again below, where paths in the file are resolved against its folder.
    regular_file::read(path, KUBECONFIG_BYTES_MAX).with_context(file)?;
    let read = Kubeconfig::read_from(path).with_context(file)?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    Client::try_from(config.with_context(file)?).with_context(file)
}

//! Where the leases run: in memory, or on a real cluster that is asked until it answers.

use super::awaited::Watch;
use crate::args::RunArgs;
use crate::dev::{Backend, Kubernetes};
use akash_provider_core::Config;
use akash_provider_core::cluster::Cluster;
use akash_provider_core::inventory::InventorySource;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Time between two steps of a cluster in memory: what starts there is healthy with the next one.
const TICK: Duration = Duration::from_secs(1);
/// First wait for a cluster that does not answer; it doubles.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// Longest such wait: a cluster that is back is used half a minute later.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A cluster and its capacity.
#[derive(Debug)]
pub(super) struct Hardware {
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) inventory: Arc<dyn InventorySource>,
}

impl Hardware {
    /// Connects; `None` when a signal comes before the cluster answers.
    pub(super) async fn start(
        args: &RunArgs,
        config: &mut Config,
        watch: &Watch,
        shutdown: &CancellationToken,
        background: &CancellationToken,
        helpers: &mut Vec<JoinHandle<()>>,
    ) -> anyhow::Result<Option<Self>> {
        let backend = if args.cluster_k8s || args.kubernetes.kubeconfig.is_some() {
            // Addresses are handed out by operators of the cluster that this does not speak to.
            config.leased_ips = false;
            match connect(args, config, watch, shutdown).await {
                Some(kubernetes) => Backend::Kubernetes(Box::new(kubernetes)),
                None => return Ok(None),
            }
        } else {
            config.leased_ips = args.cluster.leased_ips > 0;
            Backend::in_memory(&args.cluster).await
        };
        let (backend, until) = (Arc::new(backend), background.clone());
        let hardware = Self {
            cluster: backend.cluster(),
            inventory: backend.inventory(),
        };
        helpers.push(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(TICK);
            loop {
                tokio::select! {
                    biased;
                    () = until.cancelled() => return,
                    _ = ticks.tick() => {}
                }
                backend.tick().await;
            }
        }));
        Ok(Some(hardware))
    }
}

async fn connect(
    args: &RunArgs,
    config: &Config,
    watch: &Watch,
    shutdown: &CancellationToken,
) -> Option<Kubernetes> {
    let options = args.cluster.inventory_options();
    let mut wait = WAIT_MIN;
    loop {
        let kubeconfig = args.kubernetes.kubeconfig.as_deref();
        let (provider, chain_id) = (config.provider.clone(), &config.chain_id);
        let connecting = Kubernetes::adopt(kubeconfig, &args.kubernetes, provider, chain_id, &options);
        let connected = tokio::select! {
            biased;
            () = shutdown.cancelled() => return None,
            connected = connecting => connected,
        };
        match connected {
            Ok(kubernetes) => return Some(kubernetes),
            Err(error) => watch.cluster_is_away(&error),
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return None,
            () = tokio::time::sleep(wait) => {}
        }
        wait = (wait * 2).min(WAIT_MAX);
    }
}

//! Cluster of the leases: in memory, or a Kubernetes cluster that is connected in the background.

use super::cluster_proxy::ClusterProxy;
use super::readiness::{Conditions, WaitCondition};
use crate::args::{KubernetesArgs, RunArgs};
use crate::backend::{Backend, Kubernetes};
use crate::error::help;
use crate::metrics::KubernetesSource;
use crate::operators::OperatorPlan;
use crate::supervise::{Part, Pulse, Supervisor};
use crate::writers::Writers;
use akash_provider_core::Config;
use akash_provider_core::cluster::Cluster;
use akash_provider_core::inventory::InventorySource;
use akash_provider_core::provider::ProviderBuilder;
use akash_provider_core::types::Address;
use akash_provider_k8s::cluster::LeadershipGate;
use akash_provider_k8s::inventory::CapacityOptions;
use akash_provider_k8s::state::EventStore;
use akash_provider_k8s::task;
use futures::FutureExt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval of the in-memory cluster's updates. A new workload is healthy after one update.
const TICK: Duration = Duration::from_secs(1);
/// Maximum time between two heartbeats of the update task.
const TICK_LIMIT: Duration = Duration::from_secs(30);
/// Initial back-off of the connection to the cluster. Each failure doubles the back-off.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// Maximum back-off of the connection to the cluster.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Cluster of the leases, with its inventory.
#[derive(Debug)]
pub(super) struct ClusterAccess {
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) inventory: Arc<dyn InventorySource>,
    /// Proxy of the Kubernetes cluster; `None` for the in-memory cluster.
    pub(super) proxy: Option<ClusterProxy>,
}

impl ClusterAccess {
    /// Connects to a Kubernetes cluster in the background, or creates an in-memory cluster.
    pub(super) async fn start(
        args: &RunArgs,
        config: &Config,
        conditions: &Conditions,
        background: &CancellationToken,
        parts: &mut Supervisor,
        prepared: (OperatorPlan, Arc<dyn EventStore>),
    ) -> Self {
        if args.cluster_k8s || args.kubernetes.kubeconfig.is_some() {
            let proxy = ClusterProxy::new(args.kubernetes.ip_operator);
            let (operators, events) = prepared;
            let connector = ClusterConnector {
                kubernetes: args.kubernetes.clone(),
                options: operators.share(args.cluster.inventory_options()),
                provider: config.provider.clone(),
                chain_id: config.chain_id.clone(),
                condition: conditions.cluster.clone(),
                leading: conditions.leading.clone(),
                writers: conditions.writers.clone(),
                operators,
                events,
            };
            let working = connector.work(proxy.clone(), background.clone());
            parts.once(Part::Cluster, |_| working.boxed());
            return Self {
                cluster: Arc::new(proxy.clone()),
                inventory: Arc::new(proxy.clone()),
                proxy: Some(proxy),
            };
        }
        let backend = Backend::in_memory(&args.cluster)
            .await
            .at_public_host(&args.kubernetes.cluster_public_hostname);
        let hardware = Self {
            cluster: backend.cluster(),
            inventory: backend.inventory(),
            proxy: None,
        };
        let (backend, until) = (Arc::new(backend), background.clone());
        parts.again(Part::MemoryCluster, move |pulse| {
            tick(Arc::clone(&backend), until.clone(), pulse.clone())
                .map(Ok)
                .boxed()
        });
        hardware
    }
}

impl ClusterAccess {
    /// Returns the metrics source of the Kubernetes cluster; `None` for the in-memory cluster.
    pub(super) fn metric_source(&self, writers: &Writers) -> Option<KubernetesSource> {
        let proxy = self.proxy.clone()?;
        Some(KubernetesSource::new(writers.calls().clone(), proxy))
    }

    pub(super) fn add_to(&self, builder: ProviderBuilder) -> ProviderBuilder {
        let inventory = Arc::clone(&self.inventory);
        builder.cluster(Arc::clone(&self.cluster)).inventory(inventory)
    }
}

/// Updates the in-memory cluster periodically until `until` is cancelled.
async fn tick(backend: Arc<Backend>, until: CancellationToken, pulse: Pulse) {
    let mut ticks = tokio::time::interval(TICK);
    while until.run_until_cancelled(ticks.tick()).await.is_some() {
        backend.tick().await;
        pulse.beat(TICK_LIMIT);
    }
}

/// Settings of the connection to a cluster.
struct ClusterConnector {
    kubernetes: KubernetesArgs,
    options: CapacityOptions,
    provider: Address,
    chain_id: String,
    condition: WaitCondition,
    leading: LeadershipGate,
    writers: Writers,
    /// Embedded operators, which start when the cluster is connected.
    operators: OperatorPlan,
    /// Store that persists the events of leases.
    events: Arc<dyn EventStore>,
}

impl ClusterConnector {
    async fn work(self, proxy: ClusterProxy, until: CancellationToken) -> Result<(), String> {
        let connector = async {
            self.run(proxy, until.clone()).await;
            until.cancelled().await;
        };
        tokio::select! {
            biased;
            () = connector => Ok(()),
            failed = task::first_panic() => Err(failed.to_string()),
        }
    }

    /// Connects the cluster, with retries. Then starts the embedded operators and the storage of lease
    /// events.
    async fn run(self, proxy: ClusterProxy, until: CancellationToken) {
        let mut wait = WAIT_MIN;
        loop {
            let connector = Kubernetes::adopt(
                self.kubernetes.kubeconfig.as_deref(),
                &self.kubernetes,
                self.provider.clone(),
                &self.chain_id,
                &self.options,
                self.leading.clone(),
                &self.writers,
            );
            let Some(connected) = until.run_until_cancelled(connector).await else {
                return;
            };
            match connected {
                Ok(kubernetes) => {
                    kubernetes.run_operators(self.operators);
                    kubernetes.persist_events(self.events);
                    proxy.set(Backend::Kubernetes(Box::new(kubernetes)));
                    self.condition.set(None);
                    return;
                }
                Err(error) => {
                    tracing::warn!(error = %format_args!("{error:#}"), "cannot connect to the cluster, retrying; check the kubeconfig and the API server");
                    let remedy = help(&error).map(|help| format!("; {help}")).unwrap_or_default();
                    self.condition
                        .set(Some(format!("the cluster: {error:#}{remedy}")));
                }
            }
            if until
                .run_until_cancelled(tokio::time::sleep(wait))
                .await
                .is_none()
            {
                return;
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
    }
}

//! Where the leases run: in memory, or on a real cluster that is asked until it answers.

use super::awaited::{Desk, Desks};
use super::distant::Distant;
use super::writers::Writers;
use crate::args::{KubernetesArgs, RunArgs};
use crate::dev::{Backend, Kubernetes};
use crate::operators::OperatorPlan;
use crate::supervise::{Part, Pulse, Supervisor};
use akash_provider_core::Config;
use akash_provider_core::cluster::Cluster;
use akash_provider_core::inventory::InventorySource;
use akash_provider_core::provider::ProviderBuilder;
use akash_provider_core::types::Address;
use akash_provider_k8s::cluster::LeadershipGate;
use akash_provider_k8s::inventory::Options;
use akash_provider_k8s::state::EventStore;
use akash_provider_k8s::task;
use futures::FutureExt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time between two steps of a cluster in memory: what starts there is healthy with the next one.
const TICK: Duration = Duration::from_secs(1);
/// It is busy for longer than that only when it stands still.
const TICK_WITHIN: Duration = Duration::from_secs(30);
/// First wait for a cluster that does not answer; it doubles.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// Longest such wait: a cluster that comes late is used so soon after it.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A cluster and its capacity.
#[derive(Debug)]
pub(super) struct Hardware {
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) inventory: Arc<dyn InventorySource>,
    /// The real cluster, where it is one.
    pub(super) distant: Option<Distant>,
}

impl Hardware {
    /// Begins to connect to a real cluster, and goes on whether that answers or not.
    pub(super) async fn start(
        args: &RunArgs,
        config: &Config,
        desks: &Desks,
        background: &CancellationToken,
        parts: &mut Supervisor,
        prepared: (OperatorPlan, Arc<dyn EventStore>),
    ) -> Self {
        if args.cluster_k8s || args.kubernetes.kubeconfig.is_some() {
            let distant = Distant::new(args.kubernetes.ip_operator);
            let (operators, events) = prepared;
            let connecting = Connecting {
                kubernetes: args.kubernetes.clone(),
                options: args.cluster.inventory_options(),
                provider: config.provider.clone(),
                chain_id: config.chain_id.clone(),
                desk: desks.cluster.clone(),
                leading: desks.leading.clone(),
                writers: desks.writers.clone(),
                operators,
                events,
            };
            let working = connecting.work(distant.clone(), background.clone());
            parts.once(Part::Cluster, |_| working.boxed());
            return Self {
                cluster: Arc::new(distant.clone()),
                inventory: Arc::new(distant.clone()),
                distant: Some(distant),
            };
        }
        let backend = Backend::in_memory(&args.cluster)
            .await
            .at_public_host(&args.kubernetes.cluster_public_hostname);
        let hardware = Self {
            cluster: backend.cluster(),
            inventory: backend.inventory(),
            distant: None,
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

impl Hardware {
    /// A provider on it.
    pub(super) fn given_to(&self, builder: ProviderBuilder) -> ProviderBuilder {
        let inventory = Arc::clone(&self.inventory);
        builder.cluster(Arc::clone(&self.cluster)).inventory(inventory)
    }
}

/// The clock of a cluster in memory.
async fn tick(backend: Arc<Backend>, until: CancellationToken, pulse: Pulse) {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            biased;
            () = until.cancelled() => return,
            _ = ticks.tick() => {}
        }
        backend.tick().await;
        pulse.beat(TICK_WITHIN);
    }
}

/// What a real cluster is connected with.
struct Connecting {
    kubernetes: KubernetesArgs,
    options: Options,
    provider: Address,
    chain_id: String,
    desk: Desk,
    leading: LeadershipGate,
    writers: Writers,
    /// What runs beside the provider once the cluster is there.
    operators: OperatorPlan,
    /// Storage of the events of leases.
    events: Arc<dyn EventStore>,
}

impl Connecting {
    /// Connects, and looks after what works besides from then on.
    async fn work(self, distant: Distant, until: CancellationToken) -> Result<(), String> {
        let connecting = async {
            self.run(distant, until.clone()).await;
            until.cancelled().await;
        };
        tokio::select! {
            biased;
            () = connecting => Ok(()),
            failed = task::first_panic() => Err(failed.to_string()),
        }
    }

    /// Tries until the cluster answers.
    async fn run(self, distant: Distant, until: CancellationToken) {
        let mut wait = WAIT_MIN;
        loop {
            let connecting = Kubernetes::adopt(
                self.kubernetes.kubeconfig.as_deref(),
                &self.kubernetes,
                self.provider.clone(),
                &self.chain_id,
                &self.options,
                self.leading.clone(),
                &self.writers,
            );
            let connected = tokio::select! {
                biased;
                () = until.cancelled() => return,
                connected = connecting => connected,
            };
            match connected {
                Ok(kubernetes) => {
                    kubernetes.run_operators(self.operators);
                    kubernetes.persist_events(self.events);
                    distant.set(Backend::Kubernetes(Box::new(kubernetes)));
                    self.desk.put(None);
                    return;
                }
                Err(error) => {
                    tracing::warn!("the cluster does not answer: {error:#}");
                    self.desk.put(Some(format!("the cluster: {error:#}")));
                }
            }
            tokio::select! {
                biased;
                () = until.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
    }
}

//! Cluster on which leases run: in memory, as local processes, or on Kubernetes.

mod kubernetes;
mod processes;
pub(crate) mod served;

pub use kubernetes::{Kubernetes, remove_leftovers};
pub use processes::Processes;

use crate::args::ClusterArgs;
use akash_provider_core::cluster::{Cluster, Facets, MemoryCluster};
use akash_provider_core::inventory::node_inventory::MemoryInventorySource;
use akash_provider_core::inventory::{InventorySource, InventoryUpdate, NodeInventory};
use std::sync::{Arc, Mutex, PoisonError};

/// Notice in the logs and shells of simulated workloads.
const BANNER: &str = "this workload is simulated: nothing of it runs";

/// Cluster and inventory of a provider.
#[derive(Debug)]
pub enum Backend {
    /// In-memory cluster: workloads are reported as running, but nothing runs.
    Memory(InMemory),
    /// Processes of the local machine.
    Processes(Box<Processes>),
    /// Pods of a Kubernetes cluster, which continue to run when this program ends.
    Kubernetes(Box<Kubernetes>),
}

/// In-memory cluster.
#[derive(Debug)]
pub struct InMemory {
    cluster: MemoryCluster,
    inventory: Arc<NodeInventory>,
    source: Arc<MemoryInventorySource>,
    last: Mutex<Option<InventoryUpdate>>,
}

impl Backend {
    /// Creates an in-memory cluster with this hardware.
    pub async fn in_memory(hardware: &ClusterArgs) -> Self {
        let mut facets = Facets::default();
        facets.leased_ips = (hardware.leased_ips > 0).then_some(hardware.leased_ips);
        let cluster = MemoryCluster::new(facets);
        // A workload becomes healthy with the next block, so that its start is visible.
        cluster.set_start_ticks(1);
        cluster.set_banner(BANNER);
        let memory = InMemory {
            cluster,
            inventory: Arc::new(NodeInventory::new(&hardware.spec())),
            source: Arc::new(MemoryInventorySource::new()),
            last: Mutex::default(),
        };
        memory.tell_capacity().await;
        Self::Memory(memory)
    }

    /// Sets the public host for forwarded ports of an in-memory cluster. No effect on other clusters.
    #[must_use]
    pub fn at_public_host(self, host: &str) -> Self {
        match &self {
            Self::Memory(memory) if !host.is_empty() => memory.cluster.set_public_host(host),
            Self::Memory(_) | Self::Processes(_) | Self::Kubernetes(_) => {}
        }
        self
    }

    /// Returns the cluster. All calls return the same cluster.
    #[must_use]
    pub fn cluster(&self) -> Arc<dyn Cluster> {
        match self {
            Self::Memory(memory) => Arc::new(memory.cluster.clone()),
            Self::Processes(processes) => Arc::new(processes.cluster.clone()),
            Self::Kubernetes(kubernetes) => kubernetes.cluster.clone(),
        }
    }

    /// Returns a keyword and a notice about the workloads, or `None` if the workloads run as pods.
    #[must_use]
    pub const fn notice(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Memory(_) => Some((
                "simulated",
                "workloads are simulated: they are scheduled and reported as running, but nothing runs; --processes \
                 runs their commands on this machine, --kubeconfig FILE runs them as pods",
            )),
            Self::Processes(_) => Some(("processes", processes::NOTICE)),
            Self::Kubernetes(_) => None,
        }
    }

    /// Returns the inventory of the cluster.
    #[must_use]
    pub fn inventory(&self) -> Arc<dyn InventorySource> {
        match self {
            Self::Memory(memory) => memory.source.clone(),
            Self::Processes(processes) => processes.inventory.clone(),
            Self::Kubernetes(kubernetes) => kubernetes.inventory.clone(),
        }
    }

    /// Advances an in-memory cluster by one block.
    pub async fn tick(&self) {
        match self {
            Self::Memory(memory) => {
                memory.cluster.tick();
                memory.tell_capacity().await;
            }
            // These clusters use the real time.
            Self::Processes(_) | Self::Kubernetes(_) => {}
        }
    }

    /// Returns the remaining lease objects in the cluster, one line each.
    ///
    /// # Errors
    /// Returns an error if the cluster does not respond.
    pub async fn leftovers(&self) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Memory(memory) => Ok(memory.leftovers()),
            Self::Processes(processes) => processes.leftovers().await,
            Self::Kubernetes(kubernetes) => kubernetes.leftovers().await,
        }
    }

    /// Stops the processes of a process cluster. Pods of a Kubernetes cluster continue to run.
    ///
    /// # Errors
    /// Returns an error if the working directory cannot be removed.
    pub async fn close(&self) -> anyhow::Result<()> {
        match self {
            Self::Processes(processes) => processes.close().await,
            Self::Memory(_) | Self::Kubernetes(_) => Ok(()),
        }
    }
}

impl InMemory {
    /// Publishes the number of used IP addresses if this number has changed.
    async fn tell_capacity(&self) {
        let leased_ips = match self.cluster.leased_ips() {
            Some(facet) => facet.usage().await.ok(),
            None => None,
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // Published only after a change, because this function runs with every block.
        if last.as_ref().is_some_and(|sent| sent.leased_ips == leased_ips) {
            return;
        }
        let update = InventoryUpdate {
            inventory: self.inventory.clone(),
            placements: Vec::new(),
            leased_ips,
        };
        *last = Some(update.clone());
        self.source.push(update);
    }

    fn leftovers(&self) -> Vec<String> {
        let contents = self.cluster.contents();
        let running = contents.running.keys().map(|l| format!("workload {l}"));
        let recorded = contents.recorded.keys();
        let recorded = recorded.map(|l| format!("recorded deployment {l}"));
        let hostnames = contents.hostnames.keys();
        let hostnames = hostnames.map(|name| format!("declared hostname {name}"));
        let ips = contents.ips.keys().map(|l| format!("declared addresses of {l}"));
        running.chain(recorded).chain(hostnames).chain(ips).collect()
    }
}

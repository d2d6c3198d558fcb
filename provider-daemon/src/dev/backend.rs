//! Where the provider of the embedded market runs its leases.

use super::{Kubernetes, Processes, processes};
use crate::args::ClusterArgs;
use akash_provider_core::cluster::{Cluster, Facets, MemoryCluster};
use akash_provider_core::inventory::node_inventory::MemoryInventorySource;
use akash_provider_core::inventory::{InventorySource, InventoryUpdate, NodeInventory};
use std::sync::{Arc, Mutex, PoisonError};

/// What workloads in memory say of themselves, in their logs and where somebody opens a shell.
const BANNER: &str = "this workload is simulated: nothing of it runs";

/// A cluster and its capacity.
#[derive(Debug)]
pub enum Backend {
    /// Nothing really runs: workloads are scheduled, and shown as running.
    Memory(InMemory),
    /// Processes of this machine run.
    Processes(Box<Processes>),
    /// Pods of a real cluster run, and go on when this program ends.
    Kubernetes(Box<Kubernetes>),
}

/// A cluster in memory.
#[derive(Debug)]
pub struct InMemory {
    cluster: MemoryCluster,
    inventory: Arc<NodeInventory>,
    source: Arc<MemoryInventorySource>,
    last: Mutex<Option<InventoryUpdate>>,
}

impl Backend {
    /// A cluster in memory with this hardware.
    pub async fn in_memory(hardware: &ClusterArgs) -> Self {
        let cluster = MemoryCluster::new(Facets {
            hostnames: true,
            leased_ips: (hardware.leased_ips > 0).then_some(hardware.leased_ips),
            shell: true,
        });
        // Healthy with the next block, so that one sees it start.
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

    /// A cluster in memory says that its forwarded ports are at this host; a real one has been told.
    #[must_use]
    pub fn at_public_host(self, host: &str) -> Self {
        match &self {
            Self::Memory(memory) if !host.is_empty() => memory.cluster.set_public_host(host),
            Self::Memory(_) | Self::Processes(_) | Self::Kubernetes(_) => {}
        }
        self
    }

    /// Where leases run. Each call gives the same cluster.
    #[must_use]
    pub fn cluster(&self) -> Arc<dyn Cluster> {
        match self {
            Self::Memory(memory) => Arc::new(memory.cluster.clone()),
            Self::Processes(processes) => Arc::new(processes.cluster.clone()),
            Self::Kubernetes(kubernetes) => kubernetes.cluster.clone(),
        }
    }

    /// What workloads are, in a word, and what people would take for more than it is.
    #[must_use]
    pub const fn notice(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Memory(_) => Some((
                "simulated",
                "workloads are simulated: they are scheduled and shown as running, and nothing of them runs; --processes \
                 runs their commands here, --kubeconfig FILE runs them as pods",
            )),
            Self::Processes(_) => Some(("processes", processes::NOTICE)),
            Self::Kubernetes(_) => None,
        }
    }

    /// Where the provider learns what its cluster has room for.
    #[must_use]
    pub fn inventory(&self) -> Arc<dyn InventorySource> {
        match self {
            Self::Memory(memory) => memory.source.clone(),
            Self::Processes(processes) => processes.inventory.clone(),
            Self::Kubernetes(kubernetes) => kubernetes.inventory.clone(),
        }
    }

    /// A block was made.
    pub async fn tick(&self) {
        match self {
            Self::Memory(memory) => {
                memory.cluster.tick();
                memory.tell_capacity().await;
            }
            // The real thing has a clock of its own.
            Self::Processes(_) | Self::Kubernetes(_) => {}
        }
    }

    /// What is there of leases, one line each.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub async fn leftovers(&self) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Memory(memory) => Ok(memory.leftovers()),
            Self::Processes(processes) => processes.leftovers().await,
            Self::Kubernetes(kubernetes) => kubernetes.leftovers().await,
        }
    }

    /// Ends what ends with this program; pods go on.
    ///
    /// # Errors
    /// What it kept for itself cannot be removed.
    pub async fn close(&self) -> anyhow::Result<()> {
        match self {
            Self::Processes(processes) => processes.close().await,
            Self::Memory(_) | Self::Kubernetes(_) => Ok(()),
        }
    }
}

impl InMemory {
    /// Tells how many addresses are taken, when that has changed.
    async fn tell_capacity(&self) {
        let leased_ips = match self.cluster.leased_ips() {
            Some(facet) => facet.usage().await.ok(),
            None => None,
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // Told only when it differs: this is called with every block, and most of them change nothing.
        if last.as_ref().is_some_and(|told| told.leased_ips == leased_ips) {
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

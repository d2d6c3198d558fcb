//! Inventory operator: reports the resources of a cluster, and labels its nodes.
//!
//! ```text
//! nodes   ┐           ┌─ rules, list of GPUs ┐
//! classes ┴─ watches ─► index ─► desired labels ─► queue ─► writer ─► API server
//!                         ▲                                  │
//!                         └───────── its responses ◄─────────┘
//! nodes, pods, classes, volumes ─► inventory of the provider ─► report
//! ```
//!
//! [`rules`] holds the choices of the administrator, [`database`] maps devices to GPU models, [`mod@wanted`] computes
//! the labels of a node, and `index` combines them; all four are pure. The report uses the same count as the
//! inventory of the provider in [`inventory`]. A GPU model is offered after its label is set, because pods are
//! bound to nodes by this label.

pub mod database;
pub mod discovery;
mod index;
pub mod node;
pub mod rules;
mod shared;
mod status;
pub mod wanted;
mod watch;
mod writer;

pub use super::OperationCounts;
pub use discovery::runner::{DiscoveryStatus, MachineStatus};
pub use shared::ClusterReport;
pub use status::{InventoryOperatorStatus, NodeStatus};

use super::WorkStatistics;
use super::worker::{OperatorTasks, WorkerTiming};
use akash_provider_kube_kernel::audit::DeletionLog;
use akash_provider_kube_kernel::calls::KubeCalls;
use akash_provider_kube_kernel::watch::WatchConfig;
use akash_provider_kube_kernel::write_client::WriteClient;
use akash_provider_kube_model::inventory::{self, WholeInventory};
use database::Database;
use discovery::runner::DiscoveryRunner;
use index::InventoryEvent;
use k8s_openapi::api::core::v1::Node;
use kube::core::ApiResource;
use rules::Rules;
use shared::{InventoryOperatorState, LazyInventory};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch as channel;
use writer::LabelWriter;

/// Interval at which data about deleted nodes is removed from memory.
const PRUNE_EVERY: Duration = Duration::from_secs(600);

/// Settings of the operator. [`InventoryOperatorOptions::default`] has the defaults of the command line.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InventoryOperatorOptions {
    /// Initial rules for nodes and storage classes. [`InventoryOperator::set_rules`] replaces them.
    pub rules: Rules,
    /// Settings of the capacity count.
    pub count: inventory::CapacityOptions,
    /// First back-off after a failed write of labels; doubles up to five minutes (`--retry-delay`).
    pub retry_delay: Duration,
    /// Maximum duration of one call to the API server.
    pub call_timeout: Duration,
    /// Timeouts and back-off of the watches.
    pub watch_config: WatchConfig,
    /// Hardware discovery on nodes without GPU model labels; `None` disables it.
    pub discovery: Option<discovery::DiscoveryOptions>,
    /// Audit log of deleted discovery pods.
    pub deletions: DeletionLog,
}

impl Default for InventoryOperatorOptions {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            count: inventory::CapacityOptions::default(),
            retry_delay: Duration::from_secs(3),
            call_timeout: Duration::from_secs(10),
            watch_config: WatchConfig::default(),
            discovery: None,
            deletions: DeletionLog::default(),
        }
    }
}

/// Running inventory operator. Dropping the value stops the operator at once. [`InventoryOperator::stop`]
/// first waits for the work in progress.
#[derive(Debug)]
pub struct InventoryOperator {
    shared: Arc<InventoryOperatorState>,
    running: OperatorTasks,
}

impl InventoryOperator {
    /// Starts the watches. Requires a tokio runtime.
    #[must_use]
    pub fn start(client: &WriteClient, options: InventoryOperatorOptions) -> Self {
        let (client, gate) = (client.client(), client.gate());
        let shared = Arc::new(InventoryOperatorState::new(
            options.rules,
            options.retry_delay,
            options.count.definitions.clone(),
            options.discovery.is_some(),
        ));
        let writer = LabelWriter {
            shared: Arc::clone(&shared),
            calls: KubeCalls::new(client.clone(), options.call_timeout, "write the labels of a node")
                .guarded(gate.clone()),
            resource: ApiResource::erase::<Node>(&()),
        };
        let pace = WorkerTiming {
            prune: PRUNE_EVERY,
            grace: options.call_timeout,
        };
        let mut running = OperatorTasks::start(writer, pace, gate.clone());
        if let Some(discovery) = options.discovery {
            let calls = KubeCalls::new(
                client.clone(),
                options.call_timeout,
                "discover the hardware of a node",
            );
            let (calls, deletions) = (calls.guarded(gate.clone()), options.deletions);
            let runner = DiscoveryRunner::new(&shared, client, calls, discovery, deletions);
            running.lead(gate.clone(), move |until| runner.clone().run(until));
        }
        running.add(watch::start(client, &shared.state, options.watch_config));
        running.spawn(count(
            WholeInventory::start(client, &options.count),
            Arc::clone(&shared),
        ));
        Self { shared, running }
    }

    /// Replaces the rules for reports and for node labels.
    pub fn set_rules(&self, rules: Rules) {
        self.shared.choose(InventoryEvent::Rules(rules));
    }

    /// Replaces the list of GPU models, and computes the labels of all nodes again.
    pub fn set_list(&self, list: Database) {
        self.shared.choose(InventoryEvent::List(list));
    }

    /// Waits for the first capacity count and the first lists of nodes and storage classes.
    pub async fn ready(&self) {
        // The sender is a field of the shared state, so the channel is open.
        let _ = self.reports().wait_for(Option::is_some).await;
        self.shared.state.listed().await;
    }

    /// Returns the depth of the work queue, and the write statistics since the start.
    #[must_use]
    pub fn work_statistics(&self) -> WorkStatistics {
        self.shared.state.work_statistics()
    }

    /// Returns true after the first capacity count and the first lists of nodes and storage classes.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.reports.borrow().is_some() && self.shared.state.is_listed()
    }

    /// Subscribes to the report of the cluster. The report is `None` before the first count. During an
    /// outage, the last report is retained.
    #[must_use]
    pub fn reports(&self) -> channel::Receiver<Option<Arc<ClusterReport>>> {
        self.shared.reports.subscribe()
    }

    /// Returns the status of the operator and of all nodes.
    #[must_use]
    pub fn status(&self) -> InventoryOperatorStatus {
        self.shared.status()
    }

    /// Stops the operator. Running work can continue for at most the timeout of one call.
    pub async fn stop(&self) {
        self.running.stop().await;
    }
}

/// Receives capacity counts, forever.
async fn count(mut inventory: WholeInventory, shared: Arc<InventoryOperatorState>) {
    loop {
        let outcome = inventory.next().await;
        shared.counted(outcome.map(|counting| LazyInventory::new(move || counting.count())));
    }
}

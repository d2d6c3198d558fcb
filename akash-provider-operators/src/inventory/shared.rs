//! State that the watches, the writer, the inventory and the status share: the index, the last capacity count and the
//! published report.

use super::database::Database;
use super::discovery::Processors;
use super::discovery::queue::DiscoveryQueue;
use super::index::{InventoryEvent, LabelIndex};
use super::rules::Rules;
use crate::operator_state::OperatorState;
use crate::queue::RetryPolicy;
use akash_provider_core::inventory::{Inventory, Metrics};
use akash_provider_kube_kernel::watch::Definitions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Names of the watches in the status.
pub(super) const NODES: &str = "nodes";
pub(super) const CLASSES: &str = "storageclasses";

/// Inventory counted on the first use, from the cluster state at that time.
#[derive(Clone)]
pub(super) struct LazyInventory(Arc<LazyLock<Arc<dyn Inventory>, Count>>);

type Count = Box<dyn FnOnce() -> Arc<dyn Inventory> + Send>;

impl LazyInventory {
    pub(super) fn new(count: impl FnOnce() -> Arc<dyn Inventory> + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(count))))
    }

    pub(super) fn metrics(&self) -> Metrics {
        self.0.metrics()
    }
}

impl fmt::Debug for LazyInventory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("LazyInventory").finish_non_exhaustive()
    }
}

/// Report of the nodes, storage and processors of the cluster. The offered capacity is computed on the first
/// use, because most reports are never read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClusterReport {
    counted: LazyInventory,
    rules: Arc<Rules>,
    offered: OnceLock<Metrics>,
    /// List of GPUs.
    pub list: Arc<Database>,
    /// Discovered processors of the nodes.
    pub processors: Arc<Processors>,
}

impl ClusterReport {
    /// Returns the offered nodes and storage.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        self.offered
            .get_or_init(|| offered(self.counted.metrics(), &self.rules))
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.counted.0, &other.counted.0)
            && Arc::ptr_eq(&self.rules, &other.rules)
            && Arc::ptr_eq(&self.list, &other.list)
            && Arc::ptr_eq(&self.processors, &other.processors)
    }
}

/// Last capacity count, including nodes and storage classes that the rules exclude.
#[derive(Debug, Clone, Default)]
pub(super) struct LastCount {
    /// Result of the last count; `None` before the first count.
    pub(super) inventory: Option<LazyInventory>,
    /// Reason why the capacity count may be outdated.
    pub(super) error: Option<String>,
}

#[derive(Debug)]
pub(super) struct InventoryOperatorState {
    pub(super) state: Arc<OperatorState<LabelIndex>>,
    /// Last capacity count. Locked before `state`.
    count: Mutex<LastCount>,
    pub(super) reports: watch::Sender<Option<Arc<ClusterReport>>>,
    /// Queue of hardware discovery; `None` if disabled. Locked before `state`.
    pub(super) discovery_queue: Option<Mutex<DiscoveryQueue>>,
}

impl InventoryOperatorState {
    pub(super) fn new(rules: Rules, retry_delay: Duration, definitions: Definitions, looks: bool) -> Self {
        let patience = RetryPolicy {
            retry_delay,
            // The labels of a node are retried forever, with any refusal.
            refusals: u32::MAX,
            ..RetryPolicy::default()
        };
        Self {
            state: Arc::new(OperatorState::new(
                LabelIndex::new(rules),
                patience,
                [NODES, CLASSES],
                definitions,
            )),
            count: Mutex::default(),
            reports: watch::Sender::new(None),
            discovery_queue: looks.then(|| Mutex::new(DiscoveryQueue::new(patience))),
        }
    }

    pub(super) fn discovery_queue(&self) -> Option<MutexGuard<'_, DiscoveryQueue>> {
        let discovery_queue = self.discovery_queue.as_ref()?;
        Some(discovery_queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn count(&self) -> LastCount {
        self.count.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Applies new rules or a new GPU list, and publishes the report.
    pub(super) fn choose(&self, event: InventoryEvent) {
        self.state.apply(event);
        self.show(|_| ());
    }

    /// Stores a capacity count or its error, and publishes a new [`ClusterReport`] if the report changed.
    pub(super) fn counted(&self, outcome: Result<LazyInventory, String>) {
        self.show(|count| match outcome {
            Ok(inventory) => {
                count.inventory = Some(inventory);
                count.error = None;
            }
            Err(error) => count.error = Some(error),
        });
    }

    fn show(&self, change: impl FnOnce(&mut LastCount)) {
        // Locked until the end, so that the last change is published last.
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut count);
        let (rules, list, processors) = {
            let index = &self.state.inner().index;
            (
                Arc::clone(index.rules()),
                Arc::clone(index.list()),
                Arc::clone(index.processors()),
            )
        };
        let Some(counted) = count.inventory.clone() else {
            return;
        };
        let report = ClusterReport {
            counted,
            rules,
            offered: OnceLock::new(),
            list,
            processors,
        };
        self.reports.send_if_modified(|last| {
            let is_new = last.as_ref().is_none_or(|last| !last.is_same(&report));
            if is_new {
                *last = Some(Arc::new(report));
            }
            is_new
        });
    }

    /// Counts a write of labels, and updates the index before the watch reports the write.
    pub(super) fn written(&self, name: &str, meta: ObjectMeta) {
        self.state.inner().counts.written += 1;
        self.apply_response(name, meta);
    }

    pub(super) fn apply_response(&self, name: &str, meta: ObjectMeta) {
        self.state
            .apply(InventoryEvent::Answered(name.to_owned(), Box::new(meta)));
    }
}

/// Removes the nodes and storage classes that the current rules exclude.
fn offered(mut metrics: Metrics, rules: &Rules) -> Metrics {
    metrics.nodes.retain(|node| !rules.excludes(&node.name));
    metrics.storage.retain(|class, _| rules.offers(class));
    for node in &mut metrics.nodes {
        let name = node.name.clone();
        let may = |class: &String| {
            rules
                .classes_of(&name)
                .any(|offered_class| offered_class == class)
        };
        node.storage_classes.retain(may);
    }
    metrics
}

#[cfg(test)]
mod tests;

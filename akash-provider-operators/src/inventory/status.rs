//! Status of the inventory operator.

use super::discovery::queue::{DiscoveryQueue, DiscoveryStatus, MachineStatus};
use super::index::LabelIndex;
use super::node::NodeView;
use super::shared::{InventoryOperatorState, LastCount};
use super::wanted::{self, OfferState};
use crate::operator_state::{OperationCounts, OperatorIndex, OperatorShared};
use crate::report::WatchStatus;
use serde::Serialize;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Status of the inventory operator.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct InventoryOperatorStatus {
    /// True if the capacity was counted, and if all nodes and storage classes were listed.
    pub is_ready: bool,
    /// States of the watches, by watched kind.
    pub watches: BTreeMap<&'static str, WatchStatus>,
    /// Reason why the capacity count may be outdated.
    pub count_error: Option<String>,
    /// Numbers of writes and failures since the start.
    pub counts: OperationCounts,
    /// Number of nodes with a queued or running write of their labels.
    pub busy: usize,
    /// Number of devices in the list of GPUs.
    pub known_gpus: usize,
    /// All nodes, offered or not.
    pub nodes: BTreeMap<String, NodeStatus>,
    /// Nodes, storage classes and other resources that are not offered, each with the reason.
    pub ignored: Vec<String>,
    /// Status of hardware discovery; `None` if disabled.
    pub discovery: Option<DiscoveryStatus>,
}

/// Status of a node.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct NodeStatus {
    /// Whether the node is offered, and if not, the reason.
    pub standing: OfferState,
    /// The labels are in the desired state; false before the initial lists.
    pub is_written: bool,
    /// Devices and storage classes that the labels omit, each with the reason.
    pub notes: Vec<String>,
    /// Last error of the API server for a write of the labels.
    pub error: Option<String>,
    /// Number of failed or reverted writes since the labels last matched the desired labels.
    pub setbacks: u32,
    /// Seconds until the next write of the labels.
    pub waits_seconds: Option<u64>,
    /// Status of the discovery of this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery: Option<MachineStatus>,
}

impl InventoryOperatorState {
    pub(super) fn status(&self) -> InventoryOperatorStatus {
        let count = self.count();
        let now = Instant::now();
        let discovery_queue = self.discovery_queue();
        let inner = self.state.inner();
        let index = &inner.index;
        InventoryOperatorStatus {
            is_ready: count.inventory.is_some() && index.is_known(),
            watches: self.state.watch_status(&inner),
            counts: inner.counts,
            busy: inner.queue.busy(),
            known_gpus: index.list().len(),
            nodes: index
                .nodes()
                .map(|(name, node)| {
                    let mut status = inner.node(name, node, now);
                    let discovery_queue = discovery_queue.as_deref();
                    status.discovery = discovery_queue
                        .and_then(|discovery_queue| discovery_queue.machine(name, index.found(node), now));
                    (name.clone(), status)
                })
                .collect(),
            ignored: ignored(index, &count),
            count_error: count.error,
            discovery: discovery_queue.as_deref().map(DiscoveryQueue::status),
        }
    }
}

impl OperatorShared<LabelIndex> {
    fn node(&self, name: &str, node: &NodeView, now: Instant) -> NodeStatus {
        let wanted = self.index.wanted(node);
        let is_written = self.index.is_known() && wanted::patch(node, &wanted).is_none();
        let failed = self.queue.failure(name);
        let wait = failed.and_then(|failed| failed.due.checked_duration_since(now));
        NodeStatus {
            standing: wanted.standing,
            is_written,
            notes: wanted.notes,
            error: failed.map(|failed| failed.error.clone()),
            setbacks: failed.map_or(0, |failed| failed.failures),
            waits_seconds: wait.filter(|_| !is_written).map(|wait| wait.as_secs()),
            discovery: None,
        }
    }
}

fn ignored(index: &LabelIndex, count: &LastCount) -> Vec<String> {
    let rules = index.rules();
    let excluded = index.nodes().filter(|(name, _)| rules.excludes(name));
    let mut all: Vec<_> = excluded
        .map(|(name, _)| format!("node `{name}` is excluded by `exclude.nodes`"))
        .collect();
    if let Some(classes) = index.classes() {
        let missing = rules.classes().filter(|class| !classes.contains_key(*class));
        all.extend(missing.map(|class| {
            format!("storage class `{class}` of `cluster_storage` does not exist in the cluster")
        }));
        let unlisted = classes
            .iter()
            .filter(|(class, offered)| **offered && !rules.offers(class));
        all.extend(unlisted.map(|(class, _)| {
            format!("storage class `{class}` has the label of the network but is not in `cluster_storage`")
        }));
    }
    let counted = count
        .inventory
        .iter()
        .flat_map(|counted| counted.metrics().ignored)
        .map(|ignored| ignored.to_string());
    all.extend(counted);
    all
}

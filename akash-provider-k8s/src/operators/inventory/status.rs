//! What the operator says of itself.

use super::discovery::seeker::{Desk, DiscoveryStatus, MachineStatus};
use super::index::Index;
use super::node::NodeView;
use super::shared::{Known, Shared};
use super::wanted::{self, Standing};
use crate::operators::board::{Counts, Inner};
use crate::operators::said::WatchStatus;
use serde::Serialize;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Everything that the operator says of itself.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// The cluster was counted once, and all that labels hang on was listed.
    pub is_ready: bool,
    /// How the watches for the labels fare, by what they watch.
    pub watches: BTreeMap<&'static str, WatchStatus>,
    /// Why the count may be out of date.
    pub count_error: Option<String>,
    /// Writes of labels, and those that failed, since the start.
    pub counts: Counts,
    /// Nodes whose turn it is.
    pub busy: usize,
    /// Devices in the list of GPUs.
    pub known_gpus: usize,
    /// Each node, offered or not.
    pub nodes: BTreeMap<String, NodeStatus>,
    /// What exists and is not offered, and why.
    pub ignored: Vec<String>,
    /// How looking at machines fares; `None` where that is not wanted.
    pub discovery: Option<DiscoveryStatus>,
}

/// How a node is.
#[derive(Debug, Clone, Serialize)]
pub struct NodeStatus {
    /// What is to become of it.
    pub standing: Standing,
    /// It has its labels; never before all was listed that they hang on.
    pub is_written: bool,
    /// What could not be said in labels, and why.
    pub notes: Vec<String>,
    /// What the API server said last against its labels.
    pub error: Option<String>,
    /// Failures, or writes that somebody undid, since it last had them.
    pub setbacks: u32,
    /// So many seconds until the next try.
    pub waits_seconds: Option<u64>,
    /// How looking at the machine fares, where its labels do not say which GPUs it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery: Option<MachineStatus>,
}

impl Shared {
    pub(super) fn status(&self) -> Status {
        let count = self.count();
        let now = Instant::now();
        let desk = self.desk();
        let inner = self.board.inner();
        let index = &inner.index;
        Status {
            is_ready: count.inventory.is_some() && index.is_known(),
            watches: self.board.watch_status(&inner),
            counts: inner.counts,
            busy: inner.queue.busy(),
            known_gpus: index.list().len(),
            nodes: index
                .nodes()
                .map(|(name, node)| {
                    let mut status = inner.node(name, node, now);
                    let desk = desk.as_deref();
                    status.discovery = desk.and_then(|desk| desk.machine(name, index.found(node), now));
                    (name.clone(), status)
                })
                .collect(),
            ignored: ignored(index, &count),
            count_error: count.error,
            discovery: desk.as_deref().map(Desk::status),
        }
    }
}

impl Inner<Index> {
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

fn ignored(index: &Index, count: &Known) -> Vec<String> {
    let rules = index.rules();
    let excluded = index.nodes().filter(|(name, _)| rules.excludes(name));
    let mut all: Vec<_> = excluded
        .map(|(name, _)| format!("node `{name}` is left out by `exclude.nodes`"))
        .collect();
    if let Some(classes) = index.classes() {
        let missing = rules.classes().filter(|class| !classes.contains_key(*class));
        all.extend(
            missing
                .map(|class| format!("storage class `{class}` of `cluster_storage` is not in the cluster")),
        );
        let unlisted = classes
            .iter()
            .filter(|(class, offered)| **offered && !rules.offers(class));
        all.extend(unlisted.map(|(class, _)| {
            format!("storage class `{class}` has the network's label and is not in `cluster_storage`")
        }));
    }
    let counted = count
        .inventory
        .iter()
        .flat_map(|counted| counted.metrics().ignored);
    all.extend(counted);
    all
}

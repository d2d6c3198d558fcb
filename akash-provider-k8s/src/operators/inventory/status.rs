//! What the operator says of itself.

use super::shared::{Inner, Kind};
use super::wanted::{self, Standing};
use crate::operators::Counts;
use crate::operators::WatchStatus;
use serde::Serialize;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Everything that the operator says of itself.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// The cluster was counted once.
    pub is_ready: bool,
    /// How the watches for the labels fare, by what they watch.
    pub watches: BTreeMap<&'static str, WatchStatus>,
    /// Why the count may be out of date.
    pub count_error: Option<String>,
    /// Writes of labels, and those that failed, since the start.
    pub counts: Counts,
    /// Devices in the list of GPUs.
    pub known_gpus: usize,
    /// Each node, offered or not.
    pub nodes: BTreeMap<String, NodeStatus>,
    /// What exists and is not offered, and why.
    pub ignored: Vec<String>,
}

/// How a node is.
#[derive(Debug, Clone, Serialize)]
pub struct NodeStatus {
    /// What is to become of it.
    pub standing: Standing,
    /// It has its labels.
    pub is_written: bool,
    /// What could not be said in labels, and why.
    pub notes: Vec<String>,
    /// What the API server said last against its labels.
    pub error: Option<String>,
    /// Failures, or writes that somebody undid, since it last changed.
    pub setbacks: u32,
    /// So many seconds until the next try.
    pub waits_seconds: Option<u64>,
}

impl Inner {
    pub(super) fn status(&self) -> Status {
        let now = Instant::now();
        let classes = self.offered_classes();
        let nodes = self.nodes.iter().map(|(name, entry)| {
            let wanted = wanted::wanted(&entry.view, &self.rules, classes.as_ref(), &self.list);
            let is_written = wanted::patch(&entry.view, &wanted).is_none();
            let wait = entry
                .pace
                .not_before
                .and_then(|then| then.checked_duration_since(now));
            let status = NodeStatus {
                standing: wanted.standing,
                is_written,
                notes: wanted.notes,
                error: entry.pace.error.clone(),
                setbacks: entry.pace.setbacks,
                waits_seconds: wait.filter(|_| !is_written).map(|wait| wait.as_secs()),
            };
            (name.clone(), status)
        });
        let watches = self.watches.iter().map(|(kind, watch)| {
            let status = WatchStatus {
                // Without the other kinds there is no count, as without these.
                is_needed: true,
                synced: watch.synced,
                down_for_seconds: watch.down_for().map(|down| down.as_secs()),
                last_error: watch.last_error.clone(),
            };
            (kind.name(), status)
        });
        Status {
            is_ready: self.counted.is_some(),
            watches: watches.collect(),
            count_error: self.count_error.clone(),
            counts: self.counts,
            known_gpus: self.list.len(),
            nodes: nodes.collect(),
            ignored: self.ignored(),
        }
    }

    fn ignored(&self) -> Vec<String> {
        let excluded = self.nodes.keys().filter(|name| self.rules.excludes(name));
        let mut all: Vec<_> = excluded
            .map(|name| format!("node `{name}` is left out by `exclude.nodes`"))
            .collect();
        if let Some(classes) = &self.classes {
            let missing = self.rules.classes().filter(|class| !classes.contains_key(*class));
            all.extend(
                missing.map(|class| {
                    format!("storage class `{class}` of `cluster_storage` is not in the cluster")
                }),
            );
            let unlisted = classes
                .iter()
                .filter(|(class, offered)| **offered && !self.rules.offers(class));
            all.extend(unlisted.map(|(class, _)| {
                format!("storage class `{class}` has the network's label and is not in `cluster_storage`")
            }));
        }
        let counted = self.counted.iter().flat_map(|counted| &counted.ignored);
        all.extend(counted.cloned());
        all
    }
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Nodes, Self::Classes];
}

//! Texts about resources that are not offered.

use super::{NodeEntry, Tally};
use crate::labels;
use crate::statistics::IgnoredResources;

/// Maximum number of lines, to limit memory.
const LINES: usize = 200;

impl Tally {
    /// Returns the number of resources that are not offered. The number of storage classes is that of the last
    /// snapshot.
    pub(crate) fn ignored_resources(&self) -> IgnoredResources {
        let nodes = || self.nodes.values().filter(|node| node.facts.is_some());
        let is_closed = |node: &&NodeEntry| {
            let facts = node.listed();
            facts.is_some_and(|facts| facts.closed_now(node.pods()).is_some())
        };
        IgnoredResources {
            unlabelled_nodes: nodes().filter(|node| node.listed().is_none()).count(),
            closed_nodes: nodes().filter(is_closed).count(),
            storage_classes: self.storage_notes.len() + self.unmounted().count(),
            unreadable_manifests: self.spaces.values().filter(|space| space.bad.is_some()).count(),
            unreadable_kinds: self.troubles.len(),
        }
    }

    /// Returns all resources that are not offered (of unreadable kinds, storage classes, Manifests and nodes), each
    /// with the reason.
    pub(super) fn reasons(&self) -> Vec<String> {
        let mut lines = Vec::new();
        // Lines about the whole cluster come first, because the end is truncated.
        for (kind, why) in &self.troubles {
            lines.push(format!("{} cannot be read: {why}", kind.plural()));
        }
        lines.extend(self.storage_notes.iter().cloned());
        lines.extend(self.unmounted());
        let mut bad: Vec<_> = self.spaces.values().filter_map(|s| s.bad.clone()).collect();
        // A hash map has no order, and equal lists must not differ.
        bad.sort_unstable();
        lines.extend(bad);
        let mut left = LINES.saturating_sub(lines.len());
        let mut more = lines.len().saturating_sub(LINES);
        lines.truncate(LINES);
        for (name, entry) in &self.nodes {
            for line in of_node(name, entry) {
                if left == 0 {
                    more += 1;
                } else {
                    left -= 1;
                    lines.push(line);
                }
            }
        }
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        lines
    }

    /// Returns the classes that no node mounts.
    fn unmounted(&self) -> impl Iterator<Item = String> {
        let mounted = |class: &str| {
            let mut nodes = self.nodes.values().filter_map(NodeEntry::listed);
            nodes.any(|n| n.classes.iter().any(|c| c == class))
        };
        let unmounted = self.storage.keys().filter(move |class| !mounted(class));
        unmounted.map(|class| {
            format!(
                "storage class `{class}`: no node has the label akash.network/capabilities.storage.class.{class}"
            )
        })
    }
}

fn of_node(name: &str, entry: &NodeEntry) -> Vec<String> {
    let Some(facts) = &entry.facts else {
        return Vec::new();
    };
    if entry.listed().is_none() {
        return vec![format!("node `{name}`: missing label {}", labels::SELECTOR)];
    }
    let closed = facts.closed_now(entry.pods());
    let closed = closed.map(|why| format!("node `{name}` accepts no new pods: {why}"));
    let notes = facts.notes.iter().map(|note| format!("node `{name}`: {note}"));
    closed.into_iter().chain(notes).collect()
}

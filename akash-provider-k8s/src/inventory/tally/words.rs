//! What exists and is not offered, in words.

use super::{NodeEntry, Tally};
use crate::labels;

/// Lines kept: a cluster where everything is wrong says so without filling memory.
const LINES: usize = 200;

impl Tally {
    /// Everything that is not offered, and why: kinds that cannot be read, storage, manifests, nodes.
    pub(super) fn words(&self) -> Vec<String> {
        let mut lines = Vec::new();
        // What concerns the whole cluster comes first, because the end is cut off.
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

    /// Classes that no node mounts.
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
        return vec![format!("node `{name}` lacks the label {}", labels::SELECTOR)];
    }
    let closed = facts.closed_now(entry.pods());
    let closed = closed.map(|why| format!("node `{name}` takes nothing new: {why}"));
    let notes = facts.notes.iter().map(|note| format!("node `{name}`: {note}"));
    closed.into_iter().chain(notes).collect()
}

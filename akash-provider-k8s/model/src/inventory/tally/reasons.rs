//! Resources that are not offered, each with the reason and the remedy.

use super::{NodeEntry, Tally};
use crate::inventory::reason::{self, ClassProblem, ClosedReason, IgnoredClass};
use akash_provider_core::inventory::IgnoredResource;

/// Maximum number of entries, to limit memory.
const ENTRIES_MAX: usize = 200;

/// Number of resources that the provider does not offer, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct IgnoredResources {
    /// Nodes without the label `akash.network=true`.
    pub unlabelled_nodes: usize,
    /// Nodes that accept no new pods, for example cordoned nodes.
    pub closed_nodes: usize,
    /// Storage classes without the label `akash.network=true`, with an unknown size, or without a node that
    /// mounts them.
    pub storage_classes: usize,
    /// Manifest records that cannot be read.
    pub unreadable_manifests: usize,
    /// Kinds that the API server does not list.
    pub unreadable_kinds: usize,
}

impl Tally {
    /// Returns how many resources of each type are not offered. The number of storage classes is from the
    /// last snapshot.
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

    /// Returns every resource that is not offered, with the reason and the remedy.
    pub(super) fn reasons(&self) -> Vec<IgnoredResource> {
        // Entries about the whole cluster come first, because the end is truncated.
        let kinds = self.troubles.iter();
        let mut entries: Vec<_> = kinds
            .map(|(kind, why)| reason::unreadable_kind(*kind, why))
            .collect();
        entries.extend(self.storage_notes.iter().map(IgnoredClass::resource));
        entries.extend(self.unmounted().map(|class| class.resource()));
        let spaces = self.spaces.iter();
        let bad = spaces.filter_map(|(name, space)| Some(reason::invalid_record(name, space.bad.as_ref()?)));
        let mut bad: Vec<_> = bad.collect();
        // A hash map has no order, and equal lists must not differ.
        bad.sort_unstable();
        entries.extend(bad);
        let mut left = ENTRIES_MAX.saturating_sub(entries.len());
        let mut more = entries.len().saturating_sub(ENTRIES_MAX);
        entries.truncate(ENTRIES_MAX);
        for (name, entry) in &self.nodes {
            for resource in of_node(name, entry) {
                if left == 0 {
                    more += 1;
                } else {
                    left -= 1;
                    entries.push(resource);
                }
            }
        }
        if more > 0 {
            entries.push(reason::omitted(more));
        }
        entries
    }

    fn unmounted(&self) -> impl Iterator<Item = IgnoredClass> {
        let mounted = |class: &str| {
            let mut nodes = self.nodes.values().filter_map(NodeEntry::listed);
            nodes.any(|n| n.classes.iter().any(|c| c == class))
        };
        let unmounted = self.storage.keys().filter(move |class| !mounted(class));
        unmounted.map(|class| IgnoredClass::new(class, ClassProblem::Unmounted))
    }
}

fn of_node(name: &str, entry: &NodeEntry) -> Vec<IgnoredResource> {
    let Some(facts) = &entry.facts else {
        return Vec::new();
    };
    if entry.listed().is_none() {
        return vec![ClosedReason::Unlabelled.resource(name)];
    }
    let closed = facts.closed_now(entry.pods());
    let closed = closed.map(|reason| reason.resource(name));
    let notes = facts.notes.iter().map(|problem| problem.resource(name));
    closed.into_iter().chain(notes).collect()
}

//! Snapshots: the last snapshot with the changed nodes replaced, or a new one after structural changes.

use super::{CapacityCount, Dirty, NodeEntry, Tally};
use crate::inventory::storage::{self, StorageInputs};
use akash_provider_core::inventory::{ClusterSpec, NodeInventory};
use std::sync::Arc;

impl Tally {
    /// Returns a snapshot of the counted capacity, and marks the changes as published.
    pub fn snapshot(&mut self) -> CapacityCount {
        let mut dirty = std::mem::take(&mut self.dirty);
        // Storage comes first, because it affects the list of ignored resources.
        if dirty.storage {
            dirty.words |= self.count_storage();
        }
        if dirty.words {
            self.ignored = Arc::new(self.reasons());
        }
        for namespace in &dirty.spaces {
            match self.spaces.get(namespace).and_then(super::Space::placement) {
                Some(placement) => self.placements.insert(Arc::clone(namespace), placement),
                None => self.placements.remove(namespace),
            };
        }
        let revised = self.revised(&dirty);
        let inventory = revised.unwrap_or_else(|| NodeInventory::new(&self.spec()));
        let inventory = Arc::new(inventory);
        self.last = Some(Arc::clone(&inventory));
        CapacityCount {
            inventory,
            placements: self.placements.values().cloned().collect(),
        }
    }

    /// Returns the current capacity count without marking the changes as published.
    pub(crate) fn recount(&mut self) -> Arc<NodeInventory> {
        let untold = self.dirty.any;
        let inventory = self.snapshot().inventory;
        self.dirty.any = untold;
        inventory
    }

    /// Returns the nodes, storage and ignored resources as plain data. Storage and ignored resources are from
    /// the last snapshot, so they can be older than the nodes.
    #[must_use]
    pub fn spec(&self) -> ClusterSpec {
        ClusterSpec {
            nodes: self
                .nodes
                .values()
                .filter_map(|entry| self.node_spec(entry))
                .collect(),
            storage: self.storage.clone(),
            ignored: self.ignored.to_vec(),
        }
    }

    fn revised(&self, dirty: &Dirty) -> Option<NodeInventory> {
        let last = self.last.as_ref().filter(|_| !dirty.structure)?;
        let changed = dirty.nodes.iter().filter_map(|name| self.nodes.get(name));
        let changed: Vec<_> = changed.filter_map(|entry| self.node_spec(entry)).collect();
        last.revised(&changed, &self.storage, &self.ignored)
    }

    /// Counts the storage again; returns true if the offered classes changed.
    fn count_storage(&mut self) -> bool {
        if let Some(served) = &self.served {
            let storage = self.served_storage(served);
            let same = storage.keys().eq(self.storage.keys());
            self.storage = storage;
            return !same;
        }
        let ours = |namespace: &str| self.is_own(namespace);
        let disks = |class: &str| {
            let mounts = |n: &&NodeEntry| {
                let facts = n.listed();
                facts.is_some_and(|f| f.classes.iter().any(|c| c == class))
            };
            let nodes = self.nodes.values().filter(mounts);
            nodes.fold((0, 0), |(size, used), node| {
                let disk = node.facts.as_ref().map_or(0, |f| i128::from(f.ephemeral));
                let by_pods = node.ours.ephemeral() + node.others.ephemeral();
                (size + disk, used + by_pods)
            })
        };
        let clusters: Vec<_> = self.clusters.values().cloned().collect();
        let pools: Vec<_> = self.pools.values().cloned().collect();
        let (storage, notes) = storage::pools(StorageInputs {
            classes: &self.classes,
            volumes: &mut self.volumes.values(),
            capacities: &mut self.capacities.values(),
            clusters: &clusters,
            pools: &pools,
            ours: &ours,
            disks: &disks,
            options: &self.options,
        });
        // Amounts differ at every count. The texts depend only on the set of classes.
        let same = storage.keys().eq(self.storage.keys()) && notes == self.storage_notes;
        self.storage = storage;
        self.storage_notes = notes;
        !same
    }
}

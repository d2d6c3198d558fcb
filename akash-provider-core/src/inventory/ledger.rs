//! Implementation of [`Inventory`] by the list of nodes.

use super::layout::pair;
use super::spec::Quantity;
use super::{
    AdjustOptions, Allocation, Explanation, InsufficientCapacity, Inventory, Metrics, NodeInventory,
    NodeMetrics, Pair, explain, pack,
};
use crate::types::ResourceUnit;

impl Inventory for NodeInventory {
    fn adjust(
        &mut self,
        units: &[ResourceUnit],
        options: AdjustOptions,
    ) -> Result<Allocation, InsufficientCapacity> {
        pack::fit(self, units, options.dry_run)
    }

    fn restore(&mut self, allocation: &Allocation) {
        self.move_allocation(allocation, 1);
    }

    fn release(&mut self, allocation: &Allocation) {
        self.move_allocation(allocation, -1);
    }

    fn explain(&self, units: &[ResourceUnit]) -> Explanation {
        explain::explain(self, units)
    }

    fn metrics(&self) -> Metrics {
        let nodes = self.layout.nodes.iter().zip(&self.free);
        let nodes = nodes.enumerate().map(|(index, (node, free))| {
            let pair = |quantity, free| {
                let amounts = pair(quantity, free);
                // Free capacity of a closed node is not available.
                let available = if node.closed.is_some() {
                    0
                } else {
                    amounts.available
                };
                Pair { available, ..amounts }
            };
            NodeMetrics {
                name: node.name.to_string(),
                cpu: pair(node.cpu, free.cpu),
                gpu: pair(Quantity::free(node.gpu_allocatable), free.gpu),
                memory: pair(node.memory, free.memory),
                storage_ephemeral: pair(node.ephemeral, free.ephemeral),
                gpus: self.gpus(index),
                storage_classes: self.layout.class_names(node),
                hardware: (*node.hardware).clone(),
            }
        });
        let storage = self.layout.classes.iter().zip(&self.storage);
        Metrics {
            nodes: nodes.collect(),
            storage: storage
                .map(|(class, free)| (class.name.clone(), pair(class.quantity, *free)))
                .collect(),
            overcommitted_replicas: self.overcommitted(),
            ignored: self.layout.ignored().cloned().collect(),
        }
    }

    fn dup(&self) -> Box<dyn Inventory> {
        Box::new(self.clone())
    }

    fn as_nodes(&self) -> Option<&Self> {
        Some(self)
    }
}

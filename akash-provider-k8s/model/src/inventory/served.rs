//! Capacity that an inventory operator reports, instead of watches of nodes and storage.
//!
//! The operator counts the pods and volumes of all leases as use. The provider subtracts those of its own leases,
//! because the reservations of these leases already count.

use super::facts::InventoryKind;
use super::gpu::Devices;
use super::node::NodeFacts;
use super::requests::Requests;
use super::shared::{CapacityTracker, WatchHealth};
use super::vendor::{KINDS, Vendor};
use akash_provider_core::inventory::{ClusterSpec, NodeSpec};
use std::sync::Arc;
use tokio::time::Instant;

/// Input of a [`KubeInventory`](super::KubeInventory) that takes its capacity from an inventory operator.
#[derive(Debug)]
pub struct OperatorFeed(pub(super) Arc<CapacityTracker>);

impl OperatorFeed {
    /// Replaces the capacity. The used amounts of `cluster` include the pods and volumes of this provider's leases.
    pub fn received(&self, cluster: &ClusterSpec) {
        self.0.count(InventoryKind::Node, |counts| {
            counts.received = Some(Instant::now())
        });
        {
            let mut inner = self.0.inner();
            inner.tally.serve(cluster);
            if let Some(age) = &mut inner.age {
                age.received = Some(Instant::now());
            }
        }
        self.0.update_watch(InventoryKind::Node, |watch| {
            *watch = WatchHealth {
                synced: true,
                counts: watch.counts,
                ..WatchHealth::default()
            };
        });
        self.0.change.notify_one();
    }

    /// Counts a connection to the operator.
    pub fn connected(&self) {
        self.0.count(InventoryKind::Node, |counts| counts.starts += 1);
    }

    /// Reports that the capacity is unknown, with the reason.
    pub fn failed(&self, why: String) {
        self.0.count(InventoryKind::Node, |counts| counts.failures += 1);
        self.0.update_watch(InventoryKind::Node, |watch| {
            watch.down.get_or_insert(why);
        });
    }
}

impl NodeFacts {
    /// Returns the fields of a node in a message of an inventory operator.
    pub(super) fn served(node: &NodeSpec) -> Self {
        let of = |vendor: Vendor| {
            node.gpus
                .iter()
                .filter(move |g| g.vendor.eq_ignore_ascii_case(vendor.name()))
        };
        let total = node
            .gpus
            .iter()
            .fold(0, |sum: u32, kind| sum.saturating_add(kind.count));
        let healthy = i64::from(node.gpu_allocatable.unwrap_or(total));
        let devices = Vendor::ALL.into_iter().filter_map(|vendor| {
            let kinds: Vec<_> = of(vendor).take(KINDS).cloned().collect();
            let count: i64 = kinds.iter().map(|kind| i64::from(kind.count)).sum();
            (count > 0).then_some(Devices {
                vendor,
                capacity: count,
                allocatable: count.min(healthy),
                kinds,
            })
        });
        // A message has one number for all vendors, so each vendor counts with the whole number.
        let gpus = Vendor::ALL.map(|_| i64::from(node.gpu_allocated));
        Self {
            name: node.name.as_str().into(),
            offered: true,
            closed: None,
            cpu: node.cpu.allocatable,
            memory: node.memory.allocatable,
            ephemeral: node.ephemeral.allocatable,
            pods: None,
            devices: devices.collect(),
            classes: node.storage_classes.clone(),
            hardware: Box::new(node.hardware.clone()),
            notes: Vec::new(),
            served: Some(Box::new(Requests {
                cpu: node.cpu.allocated,
                memory: node.memory.allocated,
                ephemeral: node.ephemeral.allocated,
                gpus,
            })),
        }
    }
}

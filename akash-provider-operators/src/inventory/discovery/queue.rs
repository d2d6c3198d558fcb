//! Queue of the nodes for hardware discovery, and the status of the discovery.

use super::{Cards, NodeIdentity};
use crate::queue::{Queue, RetryPolicy};
use akash_provider_core::error::Error;
use akash_provider_kube_model::inventory::Vendor;
use serde::Serialize;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Status of hardware discovery.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct DiscoveryStatus {
    /// Number of nodes to discover, including running discoveries.
    pub waiting: usize,
    /// Number of waiting nodes with a failed discovery.
    pub failing: usize,
    /// Number of successful discoveries since the start.
    pub looks: u64,
    /// Number of failed discoveries since the start.
    pub failures: u64,
    /// Reason why old discovery pods could not be deleted.
    pub error: Option<String>,
}

/// Status of the discovery of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MachineStatus {
    /// Discovered cards, by vendor and PCI device ID.
    pub cards: BTreeMap<String, i64>,
    /// The discovery is pending or running.
    pub is_waiting: bool,
    /// Error of the last failed discovery.
    pub error: Option<String>,
    /// Number of consecutive failed discoveries.
    pub failures: u32,
    /// Seconds until the next attempt after a failed discovery.
    pub waits_seconds: Option<u64>,
}

#[derive(Debug)]
pub(in super::super) struct DiscoveryQueue {
    pub(super) queue: Queue,
    pub(super) machines: BTreeMap<String, NodeIdentity>,
    pub(super) status: DiscoveryStatus,
}

impl DiscoveryQueue {
    pub(in super::super) fn new(patience: RetryPolicy) -> Self {
        Self {
            queue: Queue::new(patience),
            machines: BTreeMap::new(),
            status: DiscoveryStatus::default(),
        }
    }

    /// Replaces the nodes to discover, and queues new and changed nodes.
    pub(super) fn set(&mut self, machines: BTreeMap<String, NodeIdentity>) {
        let changed = machines
            .iter()
            .filter(|(name, machine)| self.machines.get(*name) != Some(*machine));
        let changed: Vec<_> = changed.map(|(name, _)| name.clone()).collect();
        self.queue.prune(|name| machines.contains_key(name));
        self.queue.changed(changed);
        self.machines = machines;
    }

    pub(super) fn next(&mut self, now: Instant) -> Option<(String, NodeIdentity)> {
        loop {
            let name = self.queue.next(now)?;
            match self.machines.get(&name) {
                Some(machine) => return Some((name, machine.clone())),
                // The node no longer requires discovery.
                None => self.queue.rest(&name),
            }
        }
    }

    pub(super) fn done(&mut self, name: &str) {
        self.status.looks += 1;
        self.queue.rest(name);
        self.machines.remove(name);
    }

    pub(super) fn failed(&mut self, name: &str, error: &Error, now: Instant) {
        self.status.failures += 1;
        // Each failure is in the status of its node; the log has the first of a series.
        if self.queue.failure(name).is_none() {
            tracing::warn!(node = name, %error, "cannot discover the hardware of a node, retrying");
        }
        self.queue.failed(name, error, now);
    }

    pub(in super::super) fn status(&self) -> DiscoveryStatus {
        DiscoveryStatus {
            waiting: self.machines.len(),
            failing: self.queue.failures().count(),
            ..self.status.clone()
        }
    }

    /// Returns the discovery status of a node, or `None` if the node required no discovery.
    pub(in super::super) fn machine(
        &self,
        name: &str,
        found: Option<&Cards>,
        now: Instant,
    ) -> Option<MachineStatus> {
        let is_waiting = self.machines.contains_key(name);
        if !is_waiting && found.is_none() {
            return None;
        }
        let failed = self.queue.failure(name).filter(|_| is_waiting);
        let wait = failed.and_then(|failed| failed.due.checked_duration_since(now));
        let seen = Vendor::ALL.into_iter().flat_map(|vendor| {
            let of = found.into_iter().flat_map(move |cards| cards.by_vendor(vendor));
            of.map(move |(number, count)| (format!("{}/{number}", vendor.name()), count))
        });
        Some(MachineStatus {
            cards: seen.collect(),
            is_waiting,
            error: failed.map(|failed| failed.error.clone()),
            failures: failed.map_or(0, |failed| failed.failures),
            waits_seconds: wait.map(|wait| wait.as_secs()),
        })
    }
}

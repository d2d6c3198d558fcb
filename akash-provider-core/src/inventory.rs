//! Capacity: what is free, who holds it, and why something does not fit.
//!
//! [`Inventory`] is pure and synchronous: a ledger that adds and subtracts. [`InventorySource`] watches the
//! world and hands out fresh ones. An inventory counts everything that runs *except* our own leases' pods;
//! those are counted once, by their reservation.

use crate::manifest::SchedulerParamsById;
use crate::types::{LeaseId, ResourceUnit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

#[cfg(feature = "conformance")]
pub mod conformance;
mod explain;
pub(crate) mod gpu;
mod layout;
mod need;
pub mod node_inventory;
mod pack;
#[cfg(feature = "runtime")]
mod source;
pub mod spec;

pub use node_inventory::NodeInventory;
pub use spec::{ClusterSpec, GpuSpec, Hardware, NodeSpec, Quantity};

/// Name of a node.
pub type NodeName = Arc<str>;

/// Replicas of one unit on one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Resource id of the unit.
    pub unit: u32,
    /// Name of the node they are on.
    pub node: NodeName,
    /// Replicas of the unit on that node.
    pub replicas: u32,
}

/// What a successful fit took: enough to give exactly the same back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Allocation {
    /// The units asked for, same order and counts, GPU attributes made concrete.
    pub units: Vec<ResourceUnit>,
    /// Scheduling facts by resource id; `None` where there is nothing special.
    pub params: SchedulerParamsById,
    /// Where the replicas are. Replicas that are nowhere (adopted while there was no room) are missing here.
    pub places: Vec<Place>,
}

/// How [`Inventory::adjust`] is to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AdjustOptions {
    /// Only try: the inventory stays as it is.
    pub dry_run: bool,
}

/// It does not fit. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, thiserror::Error)]
#[error("insufficient capacity: {message}")]
pub struct InsufficientCapacity {
    /// Resource id of the first unit that found no place.
    pub unit: u32,
    /// What was missing, in one line.
    pub message: String,
}

/// Why, node by node, a group fits or not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// The whole group fits.
    pub fits: bool,
    /// One verdict for each unit and node.
    pub nodes: Vec<NodeVerdict>,
    /// What stands against it for the cluster as a whole.
    pub cluster: Vec<String>,
    /// What exists and is not offered (an unlabelled storage class, an unhealthy device), and why.
    pub ignored: Vec<String>,
    /// What a bid would offer, unit by unit: what would be reserved, its GPUs concrete. Empty unless it fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<ResourceUnit>,
}

/// One unit on one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeVerdict {
    /// The node that the verdict is about.
    pub node: NodeName,
    /// Resource id of the unit.
    pub unit: u32,
    /// Replicas of the unit that this node alone could take.
    pub replicas: u32,
    /// What is missing for the next replica; empty only when `replicas` covers the whole count.
    pub missing: Vec<String>,
}

/// A quantity of one resource on a node or of a storage class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Pair {
    /// What could be used at most.
    pub allocatable: u64,
    /// What is free now; never below zero.
    pub available: u64,
}

impl Pair {
    /// Both numbers of a quantity without a limit.
    pub const UNLIMITED: u64 = u64::MAX;
}

/// Equal GPUs of one node, whoever uses them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct GpuMetrics {
    /// Vendor in lower case: `nvidia` or `amd`.
    pub vendor: Arc<str>,
    /// Model, for example `a100`.
    pub model: Arc<str>,
    /// Memory, for example `80Gi`; empty where unknown.
    pub memory_size: Arc<str>,
    /// Interface, for example `pcie`; empty where unknown.
    pub interface: Arc<str>,
    /// Devices of this kind, in use or not.
    pub count: u32,
}

/// Capacity of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct NodeMetrics {
    /// Name of the node in the cluster.
    pub name: String,
    /// Processor in milli-CPU: 1000 is one core.
    pub cpu: Pair,
    /// Whole GPU devices, of all kinds together.
    pub gpu: Pair,
    /// Memory in bytes; volumes of class `ram` are taken from it too.
    pub memory: Pair,
    /// Node-local storage in bytes, for volumes that are not persistent.
    pub storage_ephemeral: Pair,
    /// Its devices by kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuMetrics>,
    /// Classes of persistent storage that it can mount.
    pub storage_classes: Vec<String>,
    /// What the machine is.
    #[serde(default, skip_serializing_if = "Hardware::is_unknown")]
    pub hardware: Hardware,
}

/// Capacity of the cluster, for status and metrics.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Metrics {
    /// One entry for each node, in the order in which they are filled.
    pub nodes: Vec<NodeMetrics>,
    /// Bytes by storage class.
    pub storage: BTreeMap<String, Pair>,
    /// Replicas that are reserved but have no room (capacity shrank under a reservation).
    pub overcommitted_replicas: u32,
    /// What exists and is not offered (an unlabelled storage class, a node that cannot be counted), and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// Free capacity as a ledger.
///
/// # Contract
/// Deterministic: the same calls in the same order give the same results. All or nothing: a call that
/// fails leaves no trace. `adjust` followed by `release` of its result is the identity, and so is `restore` followed by
/// `release`, of any allocation and in any order. Which of the nodes that would do are taken is the inventory's own
/// choice. Nothing waits: every call answers at once, whatever the amounts.
///
/// # Implementing
/// Run `inventory::conformance::suite` on it.
pub trait Inventory: fmt::Debug + Send + Sync {
    /// Finds places for every replica of every unit and takes them.
    ///
    /// # Behavior
    /// - all replicas of a unit get the same GPU model; a node that then fails does not narrow the choice
    /// - the units of the answer name that model (`vendor/nvidia/model/a100`, and more where it is known)
    /// - a node that is closed to new work takes nothing
    /// - no units take nothing, and fit
    /// - with `dry_run` the answer is the same and nothing is taken
    ///
    /// # Errors
    /// [`InsufficientCapacity`] when a replica finds no place.
    fn adjust(
        &mut self,
        units: &[ResourceUnit],
        options: AdjustOptions,
    ) -> Result<Allocation, InsufficientCapacity>;

    /// Takes a known allocation at its places, also where there is no room for it: what is missing shows
    /// as overcommitted, free capacity as zero, and `release` gives exactly the same back. Replicas at no place, or at
    /// a node that is not there, are overcommitted and take nothing from nodes; a node that is closed to new work has
    /// room for what is there.
    fn restore(&mut self, allocation: &Allocation);

    /// Gives an allocation back.
    fn release(&mut self, allocation: &Allocation);

    /// Says for every node why it would or would not take each unit, and for the whole what a dry run of
    /// [`Inventory::adjust`] would say.
    fn explain(&self, units: &[ResourceUnit]) -> Explanation;

    /// Capacity for status and metrics.
    fn metrics(&self) -> Metrics;

    /// A copy that changes independently.
    fn dup(&self) -> Box<dyn Inventory>;

    /// The ledger of nodes that this is; `None` for any other. No other can be written down, so a provider with one has no
    /// [recording](crate::record).
    fn as_nodes(&self) -> Option<&NodeInventory> {
        None
    }
}

impl<T: Inventory + ?Sized> Inventory for Box<T> {
    fn adjust(
        &mut self,
        units: &[ResourceUnit],
        options: AdjustOptions,
    ) -> Result<Allocation, InsufficientCapacity> {
        (**self).adjust(units, options)
    }

    fn restore(&mut self, allocation: &Allocation) {
        (**self).restore(allocation);
    }

    fn release(&mut self, allocation: &Allocation) {
        (**self).release(allocation);
    }

    fn explain(&self, units: &[ResourceUnit]) -> Explanation {
        (**self).explain(units)
    }

    fn metrics(&self) -> Metrics {
        (**self).metrics()
    }

    fn dup(&self) -> Box<dyn Inventory> {
        (**self).dup()
    }

    fn as_nodes(&self) -> Option<&NodeInventory> {
        (**self).as_nodes()
    }
}

/// Inventories as data. What has no form of its own is an error.
pub(crate) mod written {
    use super::{Inventory, NodeInventory};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
    use std::ops::Deref;

    pub(crate) fn serialize<P, S>(inventory: &P, serializer: S) -> Result<S::Ok, S::Error>
    where
        P: Deref<Target = dyn Inventory>,
        S: Serializer,
    {
        let nodes = inventory.as_nodes();
        let nodes =
            nodes.ok_or_else(|| ser::Error::custom("an inventory of its own kind cannot be written down"))?;
        nodes.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, P, D>(deserializer: D) -> Result<P, D::Error>
    where
        P: From<Box<dyn Inventory>>,
        D: Deserializer<'de>,
    {
        let nodes: Box<dyn Inventory> = Box::new(NodeInventory::deserialize(deserializer)?);
        Ok(nodes.into())
    }
}

/// Where the pods of a lease really are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// Order and provider of the lease.
    pub lease: LeaseId,
    /// Its replicas, by unit and node.
    pub places: Vec<Place>,
}

/// Use of the pool of leased IPs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct LeasedIpUsage {
    /// Addresses in the pool.
    pub total: u32,
    /// Addresses in use, by our leases or by others.
    pub in_use: u32,
    /// Leases whose addresses are all assigned, so that `in_use` counts them.
    pub confirmed: Vec<LeaseId>,
}

/// A fresh view of the world.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InventoryUpdate {
    /// Capacity without our own leases' pods.
    #[serde(with = "written")]
    pub inventory: Arc<dyn Inventory>,
    /// Where our leases' pods are.
    pub placements: Vec<Placement>,
    /// Use of leased IPs; `None` when there is no pool.
    pub leased_ips: Option<LeasedIpUsage>,
}

/// Watches capacity.
///
/// # Contract
/// `watch` yields a first update as soon as capacity is known, at once where it is known already, and another after
/// every change, to each of any number of watchers; of changes in quick succession the last is enough. An error item
/// means "not known at the moment": the last update stays in force. The stream ends only at shutdown.
///
/// What cannot be read is an error and never an update without nodes, which says that all of them are gone. A node that is
/// away is closed, not left out. Everything that runs counts, except the workloads of our own leases: those are
/// subtracted by their reservations. How to write one: `docs/writing-an-inventory.md`.
#[cfg(feature = "runtime")]
#[cfg_attr(feature = "mock", mockall::automock)]
#[auto_impl::auto_impl(Arc, Box)]
pub trait InventorySource: fmt::Debug + Send + Sync + 'static {
    /// Starts a watcher; any number of them may run side by side.
    fn watch(&self) -> futures::stream::BoxStream<'static, Result<InventoryUpdate, crate::error::Error>>;
}

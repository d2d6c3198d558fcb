//! Capacity: free amounts, reservations, and the reasons why a group does not fit.
//!
//! [`Inventory`] is a pure, synchronous ledger of free amounts. [`InventorySource`] watches the cluster and
//! sends new inventories. An inventory counts all running workloads *except* the pods of the provider's
//! leases. The reservations of the leases count these pods.

use crate::manifest::SchedulerParamsById;
use crate::types::{LeaseId, ResourceUnit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

#[cfg(feature = "conformance")]
pub mod conformance;
mod describe;
mod explain;
pub(crate) mod gpu;
mod ignored;
mod layout;
mod ledger;
mod need;
pub mod node_inventory;
mod pack;
mod room;
#[cfg(feature = "runtime")]
mod source;
pub mod spec;

pub use ignored::{IgnoredKind, IgnoredResource};
pub use node_inventory::NodeInventory;
pub use spec::{ClusterSpec, GpuSpec, Hardware, NodeSpec, Quantity};

/// Name of a node.
pub type NodeName = Arc<str>;

/// Replicas of one unit on one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReplicaGroup {
    /// Resource id of the unit.
    pub unit: u32,
    /// Name of the node.
    pub node: NodeName,
    /// Number of replicas of the unit on the node.
    pub replicas: u32,
}

/// Result of a successful placement. A later release frees exactly these amounts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Allocation {
    /// Units in the sequence of the request, with the requested counts. Each GPU attribute names a concrete
    /// model.
    pub units: Vec<ResourceUnit>,
    /// Scheduling parameters by resource id; `None` for a unit without such parameters.
    pub params: SchedulerParamsById,
    /// Nodes of the replicas. Replicas without a node are omitted.
    pub places: Vec<ReplicaGroup>,
}

/// Options of [`Inventory::adjust`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct AdjustOptions {
    /// Whether the call only computes the result and does not change the inventory.
    pub dry_run: bool,
}

/// The group does not fit. The inventory is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, thiserror::Error)]
#[error("insufficient capacity: {message}")]
pub struct InsufficientCapacity {
    /// Resource id of the first unit for which the capacity is not sufficient.
    pub unit: u32,
    /// Missing capacity, in one line.
    pub message: String,
}

/// Explanation why a group fits or does not fit on each node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// Whether the whole group fits.
    pub fits: bool,
    /// One entry for each unit and node.
    pub nodes: Vec<NodeVerdict>,
    /// Cluster-wide reasons why the group does not fit. The reasons of a single node are in `nodes`.
    pub cluster: Vec<String>,
    /// Resources that exist but are not offered, such as an unlabeled storage class or an unhealthy device.
    pub ignored: Vec<IgnoredResource>,
    /// Units that a bid would offer and reserve, with concrete GPUs. Empty if the group does not fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<ResourceUnit>,
}

/// Result for one unit on one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeVerdict {
    /// Name of the node.
    pub node: NodeName,
    /// Resource id of the unit.
    pub unit: u32,
    /// Number of replicas of the unit for which this node has sufficient resources.
    pub replicas: u32,
    /// Resources that the node lacks for one more replica. The list is empty if all replicas of the unit fit
    /// on the node.
    pub missing: Vec<String>,
}

/// Quantity of one resource of a node or a storage class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Pair {
    /// Total amount that workloads can use.
    pub allocatable: u64,
    /// Currently free amount.
    pub available: u64,
}

impl Pair {
    /// Value of `allocatable` and `available` for a quantity without a limit.
    pub const UNLIMITED: u64 = u64::MAX;
}

/// Identical GPUs of one node. Used GPUs are included.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct GpuMetrics {
    /// Vendor in lower case: `nvidia` or `amd`.
    pub vendor: Arc<str>,
    /// Model, for example `a100`.
    pub model: Arc<str>,
    /// Memory, for example `80Gi`; empty if unknown.
    pub memory_size: Arc<str>,
    /// Interface, for example `pcie`; empty if unknown.
    pub interface: Arc<str>,
    /// Number of devices, in use or not.
    pub count: u32,
    /// Number of free devices of this kind. An order that requests only a model can use the free devices of
    /// every kind with this model.
    #[serde(default)]
    pub available: u32,
}

/// Capacity of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct NodeMetrics {
    /// Name of the node in the cluster.
    pub name: String,
    /// CPU in millicores.
    pub cpu: Pair,
    /// Whole GPU devices of all kinds.
    pub gpu: Pair,
    /// Memory in bytes, including volumes of class `ram`.
    pub memory: Pair,
    /// Node-local storage in bytes, for ephemeral volumes.
    pub storage_ephemeral: Pair,
    /// GPU devices by kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuMetrics>,
    /// Classes of persistent storage that the node can mount.
    pub storage_classes: Vec<String>,
    /// Description of the machine.
    #[serde(default, skip_serializing_if = "Hardware::is_unknown")]
    pub hardware: Hardware,
}

/// Capacity of the cluster, for status and metrics.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Metrics {
    /// One entry for each node, in the order in which nodes are filled.
    pub nodes: Vec<NodeMetrics>,
    /// Persistent storage of the cluster in bytes, by storage class.
    pub storage: BTreeMap<String, Pair>,
    /// Number of reserved replicas for which the cluster has not enough capacity.
    pub overcommitted_replicas: u32,
    /// Resources that exist but are not offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<IgnoredResource>,
}

impl Metrics {
    /// Returns the total and the free number of GPUs, by vendor and model.
    #[must_use]
    pub fn gpus_by_model(&self) -> BTreeMap<(&str, &str), Pair> {
        let mut models = BTreeMap::new();
        for gpu in self.nodes.iter().flat_map(|node| &node.gpus) {
            let devices: &mut Pair = models.entry((&*gpu.vendor, &*gpu.model)).or_default();
            devices.allocatable += u64::from(gpu.count);
            devices.available += u64::from(gpu.available);
        }
        models
    }
}

/// Free capacity of a cluster.
///
/// # Contract
/// An inventory is deterministic: the same calls in the same order return the same results. A failed call
/// changes nothing. `release` undoes the `adjust` call that returned the allocation. `release` also undoes a
/// `restore` call, even if the capacity was not sufficient. Allocations can be released in any order. The
/// inventory selects the nodes. Every call returns within milliseconds, for any amounts.
///
/// # Implementing
/// Run `inventory::conformance::suite` with the implementation.
pub trait Inventory: fmt::Debug + Send + Sync {
    /// Places every replica of every unit and reserves the capacity.
    ///
    /// # Behavior
    /// - All replicas of a unit get the same GPU model. Nodes without this model take no replicas of the
    ///   unit.
    /// - The returned units name the model (`vendor/nvidia/model/a100`, with more details if known).
    /// - A closed node takes no replicas.
    /// - An empty list of units fits and reserves nothing.
    /// - `dry_run` returns the same result and reserves nothing.
    ///
    /// # Errors
    /// Returns [`InsufficientCapacity`] when a replica cannot be placed.
    fn adjust(
        &mut self,
        units: &[ResourceUnit],
        options: AdjustOptions,
    ) -> Result<Allocation, InsufficientCapacity>;

    /// Reserves an existing allocation on its nodes, even if the capacity is not sufficient. If capacity is
    /// missing, the missing amount is reported as overcommitted, and the free amount as zero. `release`
    /// restores exactly the same amounts. Replicas without a node, or on an unknown node, are overcommitted
    /// and use no capacity of nodes. A closed node accepts replicas of an existing allocation.
    fn restore(&mut self, allocation: &Allocation);

    /// Releases the capacity of an allocation.
    fn release(&mut self, allocation: &Allocation);

    /// Returns the reasons why each unit fits or does not fit on each node, and the result of a dry run of
    /// [`Inventory::adjust`] for the whole group.
    fn explain(&self, units: &[ResourceUnit]) -> Explanation;

    /// Returns the capacity for status and metrics.
    fn metrics(&self) -> Metrics;

    /// Returns an independent copy.
    fn dup(&self) -> Box<dyn Inventory>;

    /// Returns the [`NodeInventory`], or `None` for other implementations. Only a `NodeInventory` can be
    /// serialized, as a [recording](crate::record) requires.
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

/// Serialization of inventories. Serializing an implementation other than [`NodeInventory`] is an error.
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
        let nodes = nodes.ok_or_else(|| ser::Error::custom("only a node inventory can be serialized"))?;
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

/// Nodes on which the pods of a lease run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// Order and provider of the lease.
    pub lease: LeaseId,
    /// Replicas by unit and node.
    pub places: Vec<ReplicaGroup>,
}

/// Utilization of the pool of leased IPs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct LeasedIpUsage {
    /// Number of addresses in the pool.
    pub total: u32,
    /// Number of addresses that leases of the provider or other workloads use.
    pub in_use: u32,
    /// Leases for which all addresses are assigned. `in_use` includes the addresses of these leases.
    pub confirmed: Vec<LeaseId>,
}

/// New capacity of the cluster, with the locations of the provider's pods.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InventoryUpdate {
    /// Capacity of the cluster. Resources in use by the provider's leases count as free.
    #[serde(with = "written")]
    pub inventory: Arc<dyn Inventory>,
    /// Actual locations of the pods of the provider's leases.
    pub placements: Vec<Placement>,
    /// Utilization of leased IPs; `None` without a pool.
    pub leased_ips: Option<LeasedIpUsage>,
}

impl InventoryUpdate {
    /// Creates an update of a cluster without a pool of leased IPs.
    #[must_use]
    pub fn new(inventory: Arc<dyn Inventory>, placements: Vec<Placement>) -> Self {
        Self {
            inventory,
            placements,
            leased_ips: None,
        }
    }
}

/// Watches the capacity of a cluster.
///
/// # Contract
/// `watch` returns the first update as soon as the capacity is known, and an update after every change. Any number of
/// watchers can exist. One update can combine several changes. An error item means that the current capacity is
/// unknown. The consumer then continues to use the last update. The stream ends only at shutdown.
///
/// If some nodes are unreadable, the item is an error. An update without these nodes is not allowed, because
/// a missing node counts as deleted. An unavailable node is closed, not omitted. Workloads of the provider's
/// leases do not count as used, because the provider subtracts its reservations.
/// `docs/writing-an-inventory.md` describes how to implement this trait.
#[cfg(feature = "runtime")]
#[cfg_attr(feature = "mock", mockall::automock)]
#[auto_impl::auto_impl(Arc, Box)]
pub trait InventorySource: fmt::Debug + Send + Sync + 'static {
    /// Starts a watcher. Several watchers can run concurrently.
    fn watch(&self) -> futures::stream::BoxStream<'static, Result<InventoryUpdate, crate::error::Error>>;
}

//! A cluster as plain data, from which tests, the daemon and backends build an inventory.

use super::IgnoredResource;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Capacity of a cluster at one moment. Pods of the provider's leases do not count as used.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSpec {
    /// Nodes, in the order in which they are filled.
    pub nodes: Vec<NodeSpec>,
    /// Persistent storage in bytes by class; each class is one pool for the whole cluster.
    pub storage: BTreeMap<String, Quantity>,
    /// Resources that exist but are not offered.
    pub ignored: Vec<IgnoredResource>,
}

/// Total and used amount of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantity {
    /// Maximum usable amount; -1 means no limit.
    pub allocatable: i64,
    /// Amount used by workloads other than the provider's leases.
    pub allocated: i64,
}

/// Capacity of one node, as reported by the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Name of the node, unique in the cluster. If several nodes have the same name, only the first node
    /// counts.
    pub name: String,
    /// CPU in millicores.
    pub cpu: Quantity,
    /// Memory for workloads, in bytes.
    pub memory: Quantity,
    /// Node-local storage in bytes.
    pub ephemeral: Quantity,
    /// GPUs by kind. At most 8 kinds per node are counted.
    pub gpus: Vec<GpuSpec>,
    /// Number of usable devices. Set only if this number differs from the sum of `count` in `gpus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_allocatable: Option<u32>,
    /// Number of used devices of unknown kind, without the devices of the provider's leases. On a node with
    /// several kinds, this number reduces the free devices of every kind.
    pub gpu_allocated: u32,
    /// Classes of persistent storage that the node can mount.
    pub storage_classes: Vec<String>,
    /// Reason why the node accepts no new replicas, such as not ready or cordoned. Existing reservations on
    /// the node remain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
    /// Description of the machine.
    #[serde(skip_serializing_if = "Hardware::is_unknown")]
    pub hardware: Hardware,
}

/// Total resources of a machine, including the part that is reserved for the system. The values are only
/// displayed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hardware {
    /// CPU in millicores; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<i64>,
    /// Memory in bytes; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i64>,
    /// Node-local storage in bytes; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<i64>,
    /// Number of devices, healthy or not; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Vendor of the CPUs as the CPU reports it (`GenuineIntel`, `AuthenticAMD`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_vendor: Option<String>,
}

impl Hardware {
    /// Returns true if all properties are unknown.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// Equal GPUs of one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuSpec {
    /// `nvidia` or `amd`, in upper or lower case.
    pub vendor: String,
    /// Model, for example `a100`.
    pub model: String,
    /// Memory, for example `80Gi`.
    pub memory_size: String,
    /// Interface, for example `PCIe` or `SXM4`.
    pub interface: String,
    /// Number of devices of this kind, in use or not.
    pub count: u32,
    /// Number of devices that other workloads use. Devices of the provider's leases do not count.
    pub allocated: u32,
}

impl Quantity {
    /// Creates an unused quantity.
    #[must_use]
    pub const fn free(allocatable: i64) -> Self {
        Self {
            allocatable,
            allocated: 0,
        }
    }

    /// Creates a quantity. `allocated` is the amount used by workloads other than the provider's leases.
    #[must_use]
    pub const fn used(allocatable: i64, allocated: i64) -> Self {
        Self {
            allocatable,
            allocated,
        }
    }

    /// Returns whether the quantity has no limit.
    #[must_use]
    pub const fn is_unlimited(&self) -> bool {
        self.allocatable < 0
    }
}

impl NodeSpec {
    /// Creates an unused node from its CPU in millicores, and its memory and ephemeral storage in bytes.
    #[must_use]
    pub fn new(name: impl Into<String>, cpu: i64, memory: i64, ephemeral: i64) -> Self {
        Self {
            name: name.into(),
            cpu: Quantity::free(cpu),
            memory: Quantity::free(memory),
            ephemeral: Quantity::free(ephemeral),
            ..Self::default()
        }
    }

    /// Adds GPUs.
    #[must_use]
    pub fn with_gpus(mut self, gpus: GpuSpec) -> Self {
        self.gpus.push(gpus);
        self
    }

    /// Closes the node for new replicas, for a reason that is shown to operators.
    #[must_use]
    pub fn closed_because(mut self, reason: impl Into<String>) -> Self {
        self.closed = Some(reason.into());
        self
    }

    /// Adds a class of persistent storage that the node can mount.
    #[must_use]
    pub fn with_class(mut self, class: impl Into<String>) -> Self {
        self.storage_classes.push(class.into());
        self
    }
}

impl GpuSpec {
    /// Creates the specification of `count` unused GPUs of one kind.
    #[must_use]
    pub fn new(vendor: &str, model: &str, memory_size: &str, interface: &str, count: u32) -> Self {
        Self {
            vendor: vendor.to_owned(),
            model: model.to_owned(),
            memory_size: memory_size.to_owned(),
            interface: interface.to_owned(),
            count,
            allocated: 0,
        }
    }
}

impl ClusterSpec {
    /// Creates a cluster of nodes without persistent storage.
    #[must_use]
    pub fn from_nodes(nodes: impl IntoIterator<Item = NodeSpec>) -> Self {
        Self {
            nodes: nodes.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Adds a pool of persistent storage with `bytes` free bytes.
    #[must_use]
    pub fn with_storage(mut self, class: impl Into<String>, bytes: i64) -> Self {
        self.storage.insert(class.into(), Quantity::free(bytes));
        self
    }

    /// Creates the cluster of the Go provider's tests. Every node has 5 cores (0.1 used), 32 GiB of memory (1
    /// GiB used) and 512 GiB of ephemeral storage (10 GiB used). Of the storage class `beta2`, 10 GiB of 512
    /// GiB are free. Without names the cluster has one node `solo` with two `nvidia` `a100` (one used).
    #[must_use]
    pub fn null(names: &[&str]) -> Self {
        const GIB: i64 = 1 << 30;
        let node = |name: &str| NodeSpec {
            name: name.to_owned(),
            cpu: Quantity::used(5000, 100),
            memory: Quantity::used(32 * GIB, GIB),
            ephemeral: Quantity::used(512 * GIB, 10 * GIB),
            storage_classes: vec!["beta2".to_owned()],
            ..NodeSpec::default()
        };
        let mut nodes: Vec<_> = names.iter().map(|n| node(n)).collect();
        if nodes.is_empty() {
            let mut solo = node("solo").with_gpus(GpuSpec::new("nvidia", "a100", "80Gi", "PCIe", 2));
            solo.gpu_allocated = 1;
            nodes.push(solo);
        }
        let mut spec = Self::from_nodes(nodes);
        let beta2 = Quantity::used(512 * GIB, 502 * GIB);
        spec.storage.insert("beta2".to_owned(), beta2);
        spec
    }
}

//! A cluster as plain data: what tests, the daemon and the backends build an inventory from.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Capacity of a cluster at one moment, without our own leases' pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSpec {
    /// Nodes, in the order in which they are filled.
    pub nodes: Vec<NodeSpec>,
    /// Persistent storage in bytes by class; one pool for the whole cluster.
    pub storage: BTreeMap<String, Quantity>,
    /// What exists and is not offered, and why, one line each.
    pub ignored: Vec<String>,
}

/// A quantity that is partly in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantity {
    /// What could be used at most; -1 means that there is no limit.
    pub allocatable: i64,
    /// What is in use by others than our leases.
    pub allocated: i64,
}

/// Capacity of one node, as the backend counts it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Name, unique in the cluster; of two with the same name the first counts.
    pub name: String,
    /// Processor in milli-CPU: 1000 is one core.
    pub cpu: Quantity,
    /// Memory in bytes that workloads may use.
    pub memory: Quantity,
    /// Bytes of node-local storage.
    pub ephemeral: Quantity,
    /// GPUs by kind; of a node the first 8 kinds are counted.
    pub gpus: Vec<GpuSpec>,
    /// Devices that can be used at all, where that is not the sum of the counts (a device is unhealthy and
    /// nobody says which).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_allocatable: Option<u32>,
    /// Devices in use by others than our leases whose kind is not known. On a node with several kinds they
    /// count against every one of them, so that no kind is ever sold twice.
    pub gpu_allocated: u32,
    /// Classes of persistent storage the node can mount.
    pub storage_classes: Vec<String>,
    /// Why the node takes nothing new at the moment (it is not ready, it is cordoned). What is reserved on it
    /// stays where it is: a node that is away for moments loses no reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
    /// What the machine is.
    #[serde(skip_serializing_if = "Hardware::is_unknown")]
    pub hardware: Hardware,
}

/// What a machine has, together with what it keeps for itself: shown to whoever asks, and never counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hardware {
    /// Processor in milli-CPU; `None` where nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<i64>,
    /// Memory in bytes; `None` where nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i64>,
    /// Bytes of node-local storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<i64>,
    /// Devices, healthy or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Who made its processors, as they say it themselves (`GenuineIntel`, `AuthenticAMD`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_vendor: Option<String>,
}

impl Hardware {
    /// True when nothing is known of it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// Equal GPUs of one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuSpec {
    /// `nvidia` or `amd`, in any case.
    pub vendor: String,
    /// Model, for example `a100`.
    pub model: String,
    /// Memory, for example `80Gi`.
    pub memory_size: String,
    /// Interface, for example `PCIe` or `SXM4`.
    pub interface: String,
    /// Devices of this kind, in use or not.
    pub count: u32,
    /// Devices known to be in use by others than our leases.
    pub allocated: u32,
}

impl Quantity {
    /// All of it free.
    #[must_use]
    pub const fn free(allocatable: i64) -> Self {
        Self {
            allocatable,
            allocated: 0,
        }
    }

    /// A quantity of which others than our leases use a part.
    #[must_use]
    pub const fn used(allocatable: i64, allocated: i64) -> Self {
        Self {
            allocatable,
            allocated,
        }
    }

    /// True when there is no limit.
    #[must_use]
    pub const fn is_unlimited(&self) -> bool {
        self.allocatable < 0
    }
}

impl NodeSpec {
    /// A node that is all free: milli-CPU, bytes of memory, bytes of ephemeral storage.
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

    /// With some more GPUs.
    #[must_use]
    pub fn with_gpus(mut self, gpus: GpuSpec) -> Self {
        self.gpus.push(gpus);
        self
    }

    /// Taking nothing new, and why.
    #[must_use]
    pub fn closed_because(mut self, reason: impl Into<String>) -> Self {
        self.closed = Some(reason.into());
        self
    }

    /// Able to mount one more class of persistent storage.
    #[must_use]
    pub fn with_class(mut self, class: impl Into<String>) -> Self {
        self.storage_classes.push(class.into());
        self
    }
}

impl GpuSpec {
    /// GPUs of one kind, none of them known to be in use.
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
    /// A cluster of these nodes without persistent storage.
    #[must_use]
    pub fn of_nodes(nodes: impl IntoIterator<Item = NodeSpec>) -> Self {
        Self {
            nodes: nodes.into_iter().collect(),
            ..Self::default()
        }
    }

    /// With a free pool of persistent storage, in bytes.
    #[must_use]
    pub fn with_storage(mut self, class: impl Into<String>, bytes: i64) -> Self {
        self.storage.insert(class.into(), Quantity::free(bytes));
        self
    }

    /// The cluster that the network's tests use: every node has 5 cores (0.1 used), 32 GiB of memory (1 GiB
    /// used) and 512 GiB of ephemeral storage (10 GiB used); of the class `beta2` 10 GiB of 512 GiB are free.
    /// Without names there is one node `solo`, which also has two `nvidia` `a100` (one used).
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
        let mut spec = Self::of_nodes(nodes);
        let beta2 = Quantity::used(512 * GIB, 502 * GIB);
        spec.storage.insert("beta2".to_owned(), beta2);
        spec
    }
}

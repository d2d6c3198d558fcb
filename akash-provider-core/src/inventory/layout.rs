//! The constant part of a cluster. All copies of an inventory share this part.

use super::gpu::{GpuKind, GpuRequest};
use super::spec::{ClusterSpec, Hardware, NodeSpec, Quantity};
use super::{GpuMetrics, IgnoredKind, IgnoredResource, NodeName, Pair};
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// Free amount of a quantity without a limit. Sums of such amounts do not overflow.
pub(super) const UNLIMITED: i64 = 1 << 61;
/// Maximum number of GPU kinds per node. Each subset of the kinds is evaluated, so more kinds would take too
/// long.
const KINDS_PER_NODE: usize = 8;
/// Maximum number of storage classes in a cluster, because each class is represented by one bit of a `u64`.
const CLASSES: usize = 64;

/// Free quantities of a node; negative if more is reserved than exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Free {
    pub(super) cpu: i64,
    pub(super) memory: i64,
    pub(super) ephemeral: i64,
    pub(super) gpu: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Layout {
    /// Nodes, shared between copies of the layout, so that a copy is cheap.
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) slots: Vec<Slot>,
    pub(super) kinds: Vec<GpuKind>,
    pub(super) classes: Vec<StoragePool>,
    /// Ignored resources reported by the cluster.
    ignored: Arc<Vec<IgnoredResource>>,
    /// Resources that were omitted while the layout was built.
    notes: Vec<IgnoredResource>,
    by_name: Arc<HashMap<NodeName, usize, FxBuildHasher>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Node {
    pub(super) name: NodeName,
    /// Free amounts without the reservations of the provider.
    pub(super) base: Free,
    pub(super) cpu: Quantity,
    pub(super) memory: Quantity,
    pub(super) ephemeral: Quantity,
    pub(super) gpu_allocatable: i64,
    /// Number of devices of unknown kind that are in use or unusable.
    pub(super) gpu_unknown: i64,
    /// Storage classes that the node can mount; bit n represents entry n of [`Layout::classes`].
    pub(super) classes: u64,
    /// Devices of the node, as a range of [`Layout::slots`].
    pub(super) slots: Range<usize>,
    /// Reason why the node accepts no new replicas.
    pub(super) closed: Option<Arc<str>>,
    pub(super) hardware: Arc<Hardware>,
}

/// Equal devices of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Slot {
    /// Index into [`Layout::kinds`].
    pub(super) kind: usize,
    /// Number of devices, in use or not.
    pub(super) count: u32,
    /// Number of devices, minus the devices that other workloads are known to use.
    pub(super) free: i64,
}

/// A pool of persistent storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoragePool {
    pub(super) name: String,
    pub(super) quantity: Quantity,
    /// Free bytes if the provider had no reservations.
    pub(super) base: i64,
}

impl Layout {
    pub(super) fn class_names(&self, node: &Node) -> Vec<String> {
        let classes = self.classes.iter().enumerate();
        let mounted = classes.filter(|(bit, _)| node.classes & (1 << bit) != 0);
        mounted.map(|(_, class)| class.name.clone()).collect()
    }

    pub(super) fn gpus(&self, node: &Node) -> Vec<GpuMetrics> {
        let slots = self.slots[node.slots.clone()].iter();
        let infos = slots.map(|slot| {
            let kind = &self.kinds[slot.kind];
            GpuMetrics {
                vendor: kind.vendor.clone(),
                model: kind.model.clone(),
                memory_size: kind.memory.clone(),
                interface: kind.interface.clone(),
                count: slot.count,
                available: 0,
            }
        });
        infos.collect()
    }

    pub(super) fn new(spec: &ClusterSpec) -> Self {
        let mut layout = Self {
            nodes: Vec::with_capacity(spec.nodes.len()),
            slots: Vec::new(),
            kinds: Vec::new(),
            classes: Vec::new(),
            ignored: Arc::new(spec.ignored.clone()),
            notes: Vec::new(),
            by_name: Arc::default(),
        };
        for (name, quantity) in &spec.storage {
            // Reported and omitted, so that an uncounted class is never offered.
            if layout.classes.len() == CLASSES {
                layout.notes.push(IgnoredResource::new(
                    IgnoredKind::StorageClass,
                    format!("storage class `{name}` is not counted: the limit is {CLASSES} storage classes"),
                    format!("offer at most {CLASSES} storage classes to tenants"),
                ));
                continue;
            }
            layout.classes.push(StoragePool {
                name: name.clone(),
                quantity: *quantity,
                base: base(*quantity),
            });
        }
        let mut by_name = HashMap::with_capacity_and_hasher(spec.nodes.len(), FxBuildHasher);
        for node in &spec.nodes {
            let name: NodeName = node.name.as_str().into();
            // A node that is counted twice would be sold twice.
            if by_name.contains_key(&name) {
                layout.notes.push(IgnoredResource::new(
                    IgnoredKind::Node,
                    format!("node `{name}` is listed more than once; only the first entry is used"),
                    "give each node a unique name",
                ));
                continue;
            }
            by_name.insert(name.clone(), layout.nodes.len());
            let node = layout.add_node(name, node);
            layout.nodes.push(Arc::new(node));
        }
        layout.by_name = Arc::new(by_name);
        layout
    }

    /// Returns the layout with new values for `nodes`, `storage` and `ignored`. The result equals the result
    /// of [`Self::new`] for the whole cluster. Returns `None` if a full rebuild is necessary, for example for
    /// new nodes, storage classes or GPU models.
    pub(super) fn revised(
        &self,
        nodes: &[NodeSpec],
        storage: &BTreeMap<String, Quantity>,
        ignored: &Arc<Vec<IgnoredResource>>,
    ) -> Option<Self> {
        let same_classes = storage.keys().eq(self.classes.iter().map(|c| &c.name));
        // A note reports an omitted resource. Only a full rebuild can find out whether the resource is still
        // omitted.
        if !self.notes.is_empty() || !same_classes {
            return None;
        }
        let mut layout = self.clone();
        layout.ignored = Arc::clone(ignored);
        for (class, quantity) in layout.classes.iter_mut().zip(storage.values()) {
            class.quantity = *quantity;
            class.base = base(*quantity);
        }
        for spec in nodes {
            let at = layout.node(&spec.name)?;
            let old = layout.nodes[at].slots.clone();
            let mut node = layout.add_node(layout.nodes[at].name.clone(), spec);
            let kinds = |slots: &[Slot]| slots.iter().map(|s| s.kind).collect::<Vec<_>>();
            // Slots are identified by their position within the node, so the kinds must stay in place.
            let same = kinds(&layout.slots[old.clone()]) == kinds(&layout.slots[node.slots.clone()]);
            if !same || !layout.notes.is_empty() {
                return None;
            }
            // `add_node` appends the new slots. They replace the old slots in place, so that the ranges of
            // other nodes stay valid.
            let fresh = layout.slots.split_off(node.slots.start);
            layout.slots[old.clone()].clone_from_slice(&fresh);
            node.slots = old;
            layout.nodes[at] = Arc::new(node);
        }
        Some(layout)
    }

    /// Returns the resources that exist but are not offered.
    pub(super) fn ignored(&self) -> impl Iterator<Item = &IgnoredResource> {
        self.ignored.iter().chain(&self.notes)
    }

    pub(super) fn node(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(super) fn class(&self, name: &str) -> Option<usize> {
        // Sorted, because the classes come from a `BTreeMap`.
        self.classes.binary_search_by(|c| c.name.as_str().cmp(name)).ok()
    }

    /// Returns a bit mask of the slots of a node. A bit is set if `wants` accepts the devices of the slot.
    pub(super) fn mask(&self, node: usize, wants: &[GpuRequest]) -> u16 {
        let accepted = |slot: &Slot| wants.iter().any(|w| w.accepts(&self.kinds[slot.kind]));
        let slots = self.slots[self.nodes[node].slots.clone()].iter().enumerate();
        slots.fold(0, |mask, (bit, slot)| mask | u16::from(accepted(slot)) << bit)
    }

    fn add_node(&mut self, name: NodeName, spec: &NodeSpec) -> Node {
        let first = self.slots.len();
        let (mut devices, mut in_use) = (0, i64::from(spec.gpu_allocated));
        for gpu in &spec.gpus {
            devices += i64::from(gpu.count);
            in_use += i64::from(gpu.allocated);
            let found = GpuKind::parse(gpu).map(|kind| self.kind(kind));
            let full = self.slots.len() - first == KINDS_PER_NODE;
            let free = i64::from(gpu.count) - i64::from(gpu.allocated);
            let same = |s: &&mut Slot| found == Ok(s.kind);
            let count = gpu.count;
            match (found, self.slots[first..].iter_mut().find(same)) {
                (Ok(_), Some(slot)) => {
                    slot.free += free;
                    slot.count = slot.count.saturating_add(count);
                }
                (Ok(kind), None) if !full => self.slots.push(Slot { kind, count, free }),
                (Ok(_), None) => self.notes.push(IgnoredResource::new(
                    IgnoredKind::Gpu,
                    format!(
                        "node `{name}`: {} GPUs `{}` are not counted: the limit is {KINDS_PER_NODE} kinds per node",
                        gpu.count, gpu.model
                    ),
                    format!("offer at most {KINDS_PER_NODE} kinds of GPUs on the node"),
                )),
                (Err(why), _) => self.notes.push(IgnoredResource::new(
                    IgnoredKind::Gpu,
                    format!(
                        "node `{name}`: {} GPUs `{}` of vendor `{}`: {why}",
                        gpu.count, gpu.model, gpu.vendor
                    ),
                    "correct the vendor and the model of the GPUs in the list of nodes",
                )),
            }
        }
        let gpu_allocatable = spec.gpu_allocatable.map_or(devices, i64::from);
        let classes = spec.storage_classes.iter().filter_map(|c| self.class(c));
        Node {
            base: Free {
                cpu: base(spec.cpu),
                memory: base(spec.memory),
                ephemeral: base(spec.ephemeral),
                gpu: gpu_allocatable - in_use,
            },
            cpu: spec.cpu,
            memory: spec.memory,
            ephemeral: spec.ephemeral,
            gpu_allocatable,
            // A missing device may be of any kind, so it counts against all kinds.
            gpu_unknown: i64::from(spec.gpu_allocated) + (devices - gpu_allocatable).max(0),
            classes: classes.fold(0, |bits, class| bits | 1 << class),
            slots: first..self.slots.len(),
            closed: spec.closed.as_deref().map(Arc::from),
            hardware: Arc::new(spec.hardware.clone()),
            name,
        }
    }

    fn kind(&mut self, kind: GpuKind) -> usize {
        // A cluster has few kinds, so a linear search is faster than a map.
        let position = self.kinds.iter().position(|k| *k == kind);
        position.unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        })
    }
}

/// Returns the part of a quantity that the provider's reservations can use.
fn base(quantity: Quantity) -> i64 {
    if quantity.is_unlimited() {
        return UNLIMITED;
    }
    // Negative if more is in use than exists: this amount must be freed before anything is free.
    quantity
        .allocatable
        .min(UNLIMITED)
        .saturating_sub(quantity.allocated.clamp(0, UNLIMITED))
}

pub(super) fn pair(quantity: Quantity, free: i64) -> Pair {
    if quantity.is_unlimited() {
        return Pair {
            allocatable: Pair::UNLIMITED,
            available: Pair::UNLIMITED,
        };
    }
    Pair {
        allocatable: u64::try_from(quantity.allocatable).unwrap_or(0),
        available: u64::try_from(free).unwrap_or(0),
    }
}

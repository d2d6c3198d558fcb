//! Nodes: capacity, schedulability and mountable storage classes.

use super::gpu::{self, Devices};
use super::quantity::{ResourceQuantities, milli_of, whole, whole_of};
use super::reason::{ClosedReason, GpuProblem};
use super::requests::Requests;
use super::vendor::Vendor;
use akash_provider_core::inventory::{Hardware, NodeName, NodeSpec, Quantity};
use akash_provider_kube_kernel::labels::{self, CLASS_LABEL};
use k8s_openapi::api::core::v1::{Node, Taint};

/// Label that Node Feature Discovery sets to the CPU vendor.
const CPU_VENDOR_LABEL: &str = "feature.node.kubernetes.io/cpu-model.vendor_id";
/// Maximum number of notes per node.
const NOTES: usize = 16;
/// Maximum number of storage classes per node, as in
/// [`NodeInventory`](akash_provider_core::inventory::NodeInventory).
const CLASSES: usize = 64;

/// Input for the capacity count: fields of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    pub(crate) name: NodeName,
    /// True if the node has the label `akash.network=true`.
    pub(crate) offered: bool,
    /// Reason why the node accepts no new pods; `None` if the node accepts new pods.
    pub(crate) closed: Option<ClosedReason>,
    /// Allocatable CPU, in millicores.
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
    pub(crate) ephemeral: i64,
    /// Maximum number of pods that the node can run.
    pub(crate) pods: Option<i64>,
    pub(crate) devices: Vec<Devices>,
    /// Names of the storage classes that the node can mount.
    pub(crate) classes: Vec<String>,
    /// Hardware of the node. The box keeps `ObjectFacts` values small, because most of them describe pods.
    pub(crate) hardware: Box<Hardware>,
    /// GPUs that are not offered, with the reason.
    pub(crate) notes: Vec<GpuProblem>,
    /// Use of the node that an inventory operator reports, including the pods of this provider's leases. `None` for
    /// a node that the provider watches.
    pub(crate) served: Option<Box<Requests>>,
}

impl NodeFacts {
    /// Decodes a node; returns `None` for a node without a name.
    #[must_use]
    pub fn from_object(node: &Node) -> Option<Self> {
        let name: NodeName = node.metadata.name.as_deref()?.into();
        let none = labels::Labels::new();
        let labels = node.metadata.labels.as_ref().unwrap_or(&none);
        let nothing = ResourceQuantities::new();
        let status = node.status.as_ref();
        let allocatable = status.and_then(|s| s.allocatable.as_ref()).unwrap_or(&nothing);
        let capacity = status.and_then(|s| s.capacity.as_ref()).unwrap_or(&nothing);
        let mut notes = Vec::new();
        let amounts = |vendor: Vendor| {
            let amount = |list| whole_of(list, vendor.resource());
            (amount(capacity).max(amount(allocatable)), amount(allocatable))
        };
        let offered = labels.get(labels::MANAGED).is_some_and(|v| v == "true");
        let mut note = |problem: GpuProblem| {
            if notes.len() < NOTES {
                notes.push(problem);
            }
        };
        let devices = gpu::devices(labels, amounts, &mut note);
        Some(Self {
            offered,
            closed: closed(node),
            cpu: milli_of(allocatable, "cpu"),
            memory: whole_of(allocatable, "memory"),
            ephemeral: whole_of(allocatable, "ephemeral-storage"),
            pods: allocatable.get("pods").and_then(|q| whole(&q.0)),
            hardware: Box::new(hardware(capacity, labels, &devices)),
            devices,
            classes: classes(labels),
            notes,
            name,
            served: None,
        })
    }

    pub(crate) fn spec(&self, used: &Used) -> NodeSpec {
        let (gpus, gpu_allocatable, gpu_allocated) = gpu::counted(&self.devices, &used.others);
        NodeSpec {
            name: self.name.to_string(),
            cpu: Quantity::used(self.cpu, used.others.cpu),
            memory: Quantity::used(self.memory, used.others.memory),
            ephemeral: Quantity::used(self.ephemeral, used.others.ephemeral.saturating_add(used.volumes)),
            gpus,
            gpu_allocatable,
            gpu_allocated,
            storage_classes: self.classes.clone(),
            closed: self.closed_now(used.pods).map(|reason| reason.to_string()),
            hardware: (*self.hardware).clone(),
        }
    }

    /// Returns why the node accepts no new pods. `pods` is the number of pods on the node.
    pub(crate) fn closed_now(&self, pods: i64) -> Option<ClosedReason> {
        if !self.offered {
            return Some(ClosedReason::Unlabelled);
        }
        // The kubelet accepts no pod above this limit, regardless of free resources.
        let full = self.pods.filter(|most| pods >= *most);
        self.closed.clone().or_else(|| full.map(ClosedReason::PodLimit))
    }
}

/// Used resources of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Used {
    /// Requests of pods that belong to no lease of this provider.
    pub(crate) others: Requests,
    /// Total size of the volumes on the disk of the node, in bytes. Includes the volumes of other users.
    pub(crate) volumes: i64,
    /// Number of pods bound to the node.
    pub(crate) pods: i64,
}

fn hardware(capacity: &ResourceQuantities, labels: &labels::Labels, devices: &[Devices]) -> Hardware {
    let has = |name: &str| capacity.contains_key(name);
    let gpus = devices
        .iter()
        .fold(0, |sum: i64, d| sum.saturating_add(d.capacity));
    // Node Feature Discovery uses its own names for the two most common vendors.
    let vendor = labels.get(CPU_VENDOR_LABEL).map(|word| match word.as_str() {
        "Intel" => "GenuineIntel".to_owned(),
        "AMD" => "AuthenticAMD".to_owned(),
        other => other.to_owned(),
    });
    Hardware {
        cpu: has("cpu").then(|| milli_of(capacity, "cpu")),
        memory: has("memory").then(|| whole_of(capacity, "memory")),
        ephemeral: has("ephemeral-storage").then(|| whole_of(capacity, "ephemeral-storage")),
        gpus: u32::try_from(gpus).ok().filter(|n| *n > 0),
        cpu_vendor: vendor.filter(|v| !v.is_empty()),
    }
}

fn closed(node: &Node) -> Option<ClosedReason> {
    let conditions = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let ready = conditions.into_iter().find(|c| c.type_ == "Ready");
    match ready.map(|c| (c.status.as_str(), c.reason.as_deref().unwrap_or(""))) {
        Some(("True", _)) => {}
        Some(("Unknown", _)) => return Some(ClosedReason::Unreachable),
        Some((_, reason)) => return Some(ClosedReason::NotReady(reason.to_owned())),
        None => return Some(ClosedReason::NoReadyCondition),
    }
    let spec = node.spec.as_ref()?;
    if spec.unschedulable == Some(true) {
        return Some(ClosedReason::Cordoned);
    }
    // `PreferNoSchedule` is only a preference.
    let keeps_off = |t: &&Taint| t.effect == "NoSchedule" || t.effect == "NoExecute";
    let taint = spec.taints.iter().flatten().find(keeps_off)?;
    Some(ClosedReason::Taint {
        key: taint.key.clone(),
        effect: taint.effect.clone(),
    })
}

fn classes(labels: &labels::Labels) -> Vec<String> {
    let ours = labels.range(CLASS_LABEL.to_owned()..);
    let ours = ours.take_while(|(key, _)| key.starts_with(CLASS_LABEL));
    let able = ours.filter(|(_, value)| value.parse::<i64>().is_ok_and(|n| n > 0));
    let names = able.map(|(key, _)| key[CLASS_LABEL.len()..].to_owned());
    names.take(CLASSES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn facts(change: impl FnOnce(&mut Value)) -> NodeFacts {
        let mut node = json!({
            "metadata": {"name": "n1", "labels": {"akash.network": "true"}},
            "spec": {},
            "status": {
                "allocatable": {"cpu": "3920m", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110"},
                "capacity": {"cpu": "4", "memory": "9Gi", "ephemeral-storage": "110Gi", "pods": "110"},
                "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            },
        });
        change(&mut node);
        NodeFacts::from_object(&serde_json::from_value(node).unwrap()).unwrap()
    }

    #[test]
    fn ready_node_offers_its_allocatable_resources() {
        let spec = facts(|_| ()).spec(&Used::default());
        let hardware = spec.hardware.clone();
        let offered = NodeSpec {
            hardware: Hardware::default(),
            ..spec
        };
        assert_eq!(offered, NodeSpec::new("n1", 3_920, 8 << 30, 100 << 30));
        let machine = Hardware {
            cpu: Some(4_000),
            memory: Some(9 << 30),
            ephemeral: Some(110 << 30),
            ..Hardware::default()
        };
        assert_eq!(hardware, machine, "reserved resources are in the capacity only");
    }

    #[test]
    fn hardware_is_decoded_from_capacity_and_labels() {
        let of = |change: &dyn Fn(&mut Value)| *facts(change).hardware;
        let vendor = |word: &'static str| {
            of(&move |n| n["metadata"]["labels"][CPU_VENDOR_LABEL] = json!(word)).cpu_vendor
        };
        assert_eq!(vendor("AMD").as_deref(), Some("AuthenticAMD"));
        assert_eq!(vendor("Intel").as_deref(), Some("GenuineIntel"));
        assert_eq!(vendor("Hygon").as_deref(), Some("Hygon"));
        assert_eq!(vendor(""), None);
        let gpus = of(&|n| {
            n["status"]["capacity"]["nvidia.com/gpu"] = json!("4");
            n["status"]["allocatable"]["nvidia.com/gpu"] = json!("3");
        });
        assert_eq!(gpus.gpus, Some(4), "the capacity includes the unhealthy device");
        assert!(of(&|n| n["status"]["capacity"] = json!({})).is_unknown());
    }

    #[test]
    fn reasons_of_a_closed_node_are_reported() {
        let reason = |change: &dyn Fn(&mut Value)| {
            facts(change)
                .closed
                .map(|why| why.to_string())
                .unwrap_or_default()
        };
        let ready = |status: &'static str, why: Value| {
            reason(&move |n| {
                n["status"]["conditions"] = json!([{"type": "Ready", "status": status, "reason": why}])
            })
        };
        assert_eq!(
            ready("False", json!("KubeletNotReady")),
            "not ready (KubeletNotReady)"
        );
        assert_eq!(ready("False", json!(null)), "not ready");
        assert_eq!(ready("Unknown", json!("NodeStatusUnknown")), "unreachable");
        assert_eq!(
            reason(&|n| n["status"]["conditions"] = json!([])),
            "no Ready condition"
        );
        assert_eq!(reason(&|n| n["spec"]["unschedulable"] = json!(true)), "cordoned");
        let taint = |effect: &'static str| {
            reason(&move |n| n["spec"]["taints"] = json!([{"key": "gpu", "value": "yes", "effect": effect}]))
        };
        assert_eq!(taint("NoSchedule"), "taint gpu:NoSchedule");
        assert_eq!(taint("NoExecute"), "taint gpu:NoExecute");
        assert_eq!(taint("PreferNoSchedule"), "");
    }

    #[test]
    fn node_without_the_label_or_at_its_pod_limit_is_closed() {
        let bare = facts(|n| n["metadata"]["labels"] = json!({"akash.network": "false"}));
        assert_eq!(bare.closed_now(0), Some(ClosedReason::Unlabelled));
        let node = facts(|_| ());
        assert_eq!(node.closed_now(109), None);
        assert_eq!(node.closed_now(110), Some(ClosedReason::PodLimit(110)));
    }

    #[test]
    fn classes_with_a_label_above_zero_are_mountable() {
        let class = |name: &str| format!("{CLASS_LABEL}{name}");
        let node = facts(|n| {
            n["metadata"]["labels"] = json!({
                class("beta2"): "1", class("beta3"): "0", class("ram"): "x", class("default"): "2",
                "akash.network/other": "1",
            });
        });
        assert_eq!(node.classes, ["beta2", "default"]);
    }

    #[test]
    fn node_without_fields_is_decoded() {
        assert_eq!(NodeFacts::from_object(&Node::default()), None);
        let bare = facts(|n| *n = json!({"metadata": {"name": "bare"}}));
        assert_eq!((bare.cpu, bare.offered, bare.pods), (0, false, None));
    }
}

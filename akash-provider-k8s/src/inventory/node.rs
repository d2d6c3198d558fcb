//! A node: what it has, whether it takes anything new, and what it may mount.

use super::gpu::{self, Devices, Vendor};
use super::quantity::{Resources, milli_of, whole, whole_of};
use super::requests::Requests;
use crate::labels;
use akash_provider_core::inventory::{Hardware, NodeName, NodeSpec, Quantity};
use k8s_openapi::api::core::v1::{Node, Taint};

/// Start of the labels of storage classes that a node can mount; the value is a number above zero.
pub(crate) const CLASS_LABEL: &str = "akash.network/capabilities.storage.class.";
/// Who made the processors, where the node is labelled by the feature discovery of Kubernetes.
const CPU_VENDOR_LABEL: &str = "feature.node.kubernetes.io/cpu-model.vendor_id";
/// Notes kept of one node.
const NOTES: usize = 16;
/// Storage classes of one node, as many as the ledger tells apart.
const CLASSES: usize = 64;

/// What of a node is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    pub(crate) name: NodeName,
    /// It has the network's label.
    pub(crate) offered: bool,
    /// Why nothing new may be put on it.
    pub(crate) closed: Option<String>,
    /// Milli-CPU that pods may have.
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
    pub(crate) ephemeral: i64,
    /// Pods it takes at most.
    pub(crate) pods: Option<i64>,
    pub(crate) devices: Vec<Devices>,
    /// Storage classes it can mount.
    pub(crate) classes: Vec<String>,
    /// What the machine is; in a box, since most facts are of pods and have none.
    pub(crate) hardware: Box<Hardware>,
    /// What is not offered, and why.
    pub(crate) notes: Vec<String>,
}

impl NodeFacts {
    /// Reads a node; `None` when it has no name.
    #[must_use]
    pub fn of(node: &Node, by_vendor_labels: bool) -> Option<Self> {
        let name: NodeName = node.metadata.name.as_deref()?.into();
        let none = labels::Labels::new();
        let labels = node.metadata.labels.as_ref().unwrap_or(&none);
        let nothing = Resources::new();
        let status = node.status.as_ref();
        let allocatable = status.and_then(|s| s.allocatable.as_ref()).unwrap_or(&nothing);
        let capacity = status.and_then(|s| s.capacity.as_ref()).unwrap_or(&nothing);
        let mut notes = Vec::new();
        let amounts = |vendor: Vendor| {
            let amount = |list| whole_of(list, vendor.resource());
            (amount(capacity).max(amount(allocatable)), amount(allocatable))
        };
        let offered = labels.get(labels::MANAGED).is_some_and(|v| v == "true");
        let mut note = |text: String| {
            if notes.len() < NOTES {
                notes.push(text);
            }
        };
        let devices = gpu::devices(labels, amounts, by_vendor_labels, &mut note);
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
        })
    }

    /// The node as the ledger counts it.
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
            closed: self.closed_now(used.pods),
            hardware: (*self.hardware).clone(),
        }
    }

    /// Why it takes nothing new, all things considered.
    pub(crate) fn closed_now(&self, pods: i64) -> Option<String> {
        if !self.offered {
            return Some(format!("it lacks the label {}", labels::SELECTOR));
        }
        // The node takes no pod beyond these, whatever room is left.
        let full = self.pods.filter(|most| pods >= *most);
        let full = full.map(|most| format!("it holds as many pods as it may ({most})"));
        self.closed.clone().or(full)
    }
}

/// What is used on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Used {
    /// By pods that are not of our leases.
    pub(crate) others: Requests,
    /// Bytes of volumes that lie on the node's own disk, whoever's they are.
    pub(crate) volumes: i64,
    /// Pods that are bound to it, everybody's.
    pub(crate) pods: i64,
}

fn hardware(capacity: &Resources, labels: &labels::Labels, devices: &[Devices]) -> Hardware {
    let has = |name: &str| capacity.contains_key(name);
    let gpus = devices
        .iter()
        .fold(0, |sum: i64, d| sum.saturating_add(d.capacity));
    // The discovery has words of its own for the two makers that most machines are of.
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

fn closed(node: &Node) -> Option<String> {
    let conditions = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let ready = conditions.into_iter().find(|c| c.type_ == "Ready");
    match ready.map(|c| (c.status.as_str(), c.reason.as_deref().unwrap_or(""))) {
        Some(("True", _)) => {}
        Some(("Unknown", _)) => return Some("it cannot be reached".to_owned()),
        Some((_, "")) => return Some("it is not ready".to_owned()),
        Some((_, reason)) => return Some(format!("it is not ready ({reason})")),
        None => return Some("it has not said that it is ready".to_owned()),
    }
    let spec = node.spec.as_ref()?;
    if spec.unschedulable == Some(true) {
        return Some("it is cordoned".to_owned());
    }
    // `PreferNoSchedule` is a wish.
    let keeps_off = |t: &&Taint| t.effect == "NoSchedule" || t.effect == "NoExecute";
    let taint = spec.taints.iter().flatten().find(keeps_off)?;
    Some(format!("it has the taint {}:{}", taint.key, taint.effect))
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
        NodeFacts::of(&serde_json::from_value(node).unwrap(), false).unwrap()
    }

    #[test]
    fn a_ready_node_offers_what_is_allocatable() {
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
        assert_eq!(hardware, machine, "and what it keeps for itself is told apart");
    }

    #[test]
    fn a_machine_is_described_as_its_node_says() {
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
        assert_eq!(gpus.gpus, Some(4), "the unhealthy one is there too");
        assert!(of(&|n| n["status"]["capacity"] = json!({})).is_unknown());
    }

    #[test]
    fn what_keeps_a_node_from_taking_more_is_said() {
        let reason = |change: &dyn Fn(&mut Value)| facts(change).closed.unwrap_or_default();
        let ready = |status: &'static str, why: Value| {
            reason(&move |n| {
                n["status"]["conditions"] = json!([{"type": "Ready", "status": status, "reason": why}])
            })
        };
        assert_eq!(
            ready("False", json!("KubeletNotReady")),
            "it is not ready (KubeletNotReady)"
        );
        assert_eq!(ready("False", json!(null)), "it is not ready");
        assert_eq!(
            ready("Unknown", json!("NodeStatusUnknown")),
            "it cannot be reached"
        );
        assert_eq!(
            reason(&|n| n["status"]["conditions"] = json!([])),
            "it has not said that it is ready"
        );
        assert_eq!(
            reason(&|n| n["spec"]["unschedulable"] = json!(true)),
            "it is cordoned"
        );
        let taint = |effect: &'static str| {
            reason(&move |n| n["spec"]["taints"] = json!([{"key": "gpu", "value": "yes", "effect": effect}]))
        };
        assert_eq!(taint("NoSchedule"), "it has the taint gpu:NoSchedule");
        assert_eq!(taint("NoExecute"), "it has the taint gpu:NoExecute");
        assert_eq!(taint("PreferNoSchedule"), "");
    }

    #[test]
    fn a_node_without_the_label_or_with_all_its_pods_is_closed() {
        let bare = facts(|n| n["metadata"]["labels"] = json!({"akash.network": "false"}));
        assert_eq!(
            bare.closed_now(0).unwrap(),
            "it lacks the label akash.network=true"
        );
        let node = facts(|_| ());
        assert_eq!(node.closed_now(109), None);
        assert_eq!(
            node.closed_now(110).unwrap(),
            "it holds as many pods as it may (110)"
        );
    }

    #[test]
    fn classes_are_those_labelled_above_zero() {
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
    fn a_bare_node_is_read() {
        assert_eq!(NodeFacts::of(&Node::default(), false), None);
        let bare = facts(|n| *n = json!({"metadata": {"name": "bare"}}));
        assert_eq!((bare.cpu, bare.offered, bare.pods), (0, false, None));
    }
}

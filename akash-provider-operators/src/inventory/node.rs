//! Properties of a node that affect its labels.

use crate::version_of;
use akash_provider_kube_kernel::labels::CLASS_LABEL;
use akash_provider_kube_kernel::labels::{self, Labels};
use akash_provider_kube_model::inventory::{GPU_PREFIX, PCI_PREFIX, Vendor, pci_gpus, whole};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::Value;

/// Field manager with which the operator writes its labels.
pub(crate) const MANAGER: &str = "akash-operator-inventory";
/// Label that the device plugin of NVIDIA requires. Tools of NVIDIA may also set this label.
pub(crate) const GPU_PRESENT: &str = "nvidia.com/gpu.present";

/// Node, with the properties that affect its labels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NodeView {
    /// Name of the node.
    pub name: String,
    /// UID; a new node can have the name of an old node.
    pub uid: String,
    /// Resource version.
    pub version: u64,
    /// The condition `Ready` is true.
    pub is_ready: bool,
    /// The node is cordoned.
    pub is_cordoned: bool,
    /// Boot ID; empty if the kubelet does not report one.
    pub boot: String,
    /// Capacity of each vendor's devices, healthy or not; `None` if the node lacks the resource.
    pub devices: [Option<i64>; 2],
    /// Labels that this operator writes, and labels that describe devices.
    pub labels: Labels,
    /// True if this operator is the only field manager of [`GPU_PRESENT`].
    pub gpu_present_is_ours: bool,
}

/// Returns true for a label that only this operator or the Go operator writes.
pub(crate) fn is_ours(key: &str) -> bool {
    key == labels::MANAGED || key.starts_with(GPU_PREFIX) || key.starts_with(CLASS_LABEL)
}

fn matters(key: &str) -> bool {
    is_ours(key)
        || key.starts_with("nvidia.com/gpu.")
        || key.starts_with("amd.com/gpu.")
        || key.starts_with(PCI_PREFIX)
}

impl NodeView {
    /// Decodes a node. Invalid values count as missing.
    pub(crate) fn from_object(node: &DynamicObject) -> Self {
        let (spec, status) = (&node.data["spec"], &node.data["status"]);
        let devices = |vendor: Vendor| whole(status["capacity"][vendor.resource()].as_str()?);
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
        let mut view = Self {
            is_ready: ready.next().is_some_and(|ready| ready["status"] == "True"),
            is_cordoned: spec["unschedulable"] == Value::Bool(true),
            boot: status["nodeInfo"]["bootID"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            devices: Vendor::ALL.map(devices),
            ..Self::default()
        };
        view.set_meta(&node.metadata);
        view
    }

    /// Returns true if both values are equal, except for the resource versions.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        let version = other.version;
        *other
            == Self {
                version,
                ..self.clone()
            }
    }

    /// Takes the labels and the version from `meta`.
    pub(crate) fn set_meta(&mut self, meta: &ObjectMeta) {
        let labels = meta.labels.iter().flatten();
        self.labels = labels
            .filter(|(key, _)| matters(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        self.name = meta.name.clone().unwrap_or_default();
        self.uid = meta.uid.clone().unwrap_or_default();
        self.version = version_of(meta);
        let writers = meta.managed_fields.iter().flatten().filter(|entry| {
            let fields = entry.fields_v1.as_ref();
            let path = format!("/f:metadata/f:labels/f:{}", GPU_PRESENT.replace('/', "~1"));
            fields.is_some_and(|fields| fields.0.pointer(&path).is_some())
        });
        let mut names = writers.map(|entry| entry.manager.as_deref());
        self.gpu_present_is_ours = names.next() == Some(Some(MANAGER)) && names.next().is_none();
    }
}

/// Returns true if the labels of a node name a GPU of this vendor.
#[must_use]
pub fn has_gpu_label(labels: &Labels, vendor: Vendor) -> bool {
    let is_present = labels.get(GPU_PRESENT).is_some_and(|value| value == "true");
    let counters = vendor.label_prefix();
    (is_present && vendor == Vendor::Nvidia)
        || labels.keys().any(|key| key.starts_with(&counters))
        || pci_gpus(labels).any(|gpu| gpu.maker == vendor.pci_id())
}

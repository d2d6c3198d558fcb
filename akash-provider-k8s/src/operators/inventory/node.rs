//! What of a node decides about its labels.

use crate::inventory::Vendor;
use crate::inventory::gpu::PREFIX as GPU_PREFIX;
use crate::inventory::node::CLASS_LABEL;
use crate::inventory::quantity::whole;
use crate::labels::{self, Labels};
use crate::operators::version_of;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::Value;

/// Name under which labels are written.
pub const MANAGER: &str = "akash-operator-inventory";
/// What NVIDIA's device plugin looks for; its own tools may set it as well.
pub const GPU_PRESENT: &str = "nvidia.com/gpu.present";
/// Start of the labels in which the feature discovery of Kubernetes tells of the bus.
const ON_BUS: &str = "feature.node.kubernetes.io/pci-";

/// A node, as far as its labels hang on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Its identity: a new node may have the name of an old one.
    pub uid: String,
    /// Its version; later is larger.
    pub version: u64,
    /// Kubernetes says that it is ready.
    pub is_ready: bool,
    /// Somebody has cordoned it.
    pub is_cordoned: bool,
    /// Which start of the machine this is; empty where its kubelet does not say it.
    pub boot: String,
    /// Devices of each vendor, healthy or not; `None` where the node does not have the resource.
    pub devices: [Option<i64>; 2],
    /// All labels that matter here: those that are ours, and those that say what devices there are.
    pub labels: Labels,
    /// [`GPU_PRESENT`] was written by us and by nobody else.
    pub gpu_present_is_ours: bool,
}

/// True for a label that this operator writes, and nobody else but its predecessor.
#[must_use]
pub fn is_ours(key: &str) -> bool {
    key == labels::MANAGED || key.starts_with(GPU_PREFIX) || key.starts_with(CLASS_LABEL)
}

fn matters(key: &str) -> bool {
    is_ours(key)
        || key.starts_with("nvidia.com/gpu.")
        || key.starts_with("amd.com/gpu.")
        || key.starts_with(ON_BUS)
}

impl NodeView {
    /// Reads a node. What of it makes no sense is not there.
    #[must_use]
    pub fn of(node: &DynamicObject) -> Self {
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

    /// The same node at another version: nothing has changed that its labels hang on.
    #[must_use]
    pub fn is_as(&self, other: &Self) -> bool {
        let version = other.version;
        *other
            == Self {
                version,
                ..self.clone()
            }
    }

    /// Takes over what the API server says of its labels, after a write of ours.
    pub fn set_meta(&mut self, meta: &ObjectMeta) {
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

    /// Devices on the bus that the labels name: numbers of the maker and, where they say it, of the device. How many of
    /// each, they do not say.
    pub(super) fn on_bus(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let named = self.labels.range(ON_BUS.to_owned()..);
        let named = named.take_while(|(key, _)| key.starts_with(ON_BUS));
        named.filter_map(|(key, value)| {
            let words = key[ON_BUS.len()..].strip_suffix(".present")?;
            let mut words = words.split('_');
            let (class, maker) = (words.next()?, words.next()?);
            // Displays and accelerators; a GPU has sound on the bus too.
            let computes = class.starts_with("03") || class.starts_with("12");
            (value == "true" && computes).then_some((maker, words.next()))
        })
    }
}

//! Hardware discovery on nodes without GPU model labels: the discovery pod of a node, and its response. This module
//! is pure; `runner` runs the pods.
//!
//! The pod and its response match the Go operator. The response lists PCI cards and processors; Kubernetes reports
//! the number of allocatable devices.

use super::database::{number, vendor_of};
use super::node::NodeView;
use akash_provider_kube_model::inventory::Vendor;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(super) mod queue;
pub(crate) mod runner;

/// Maximum size of a response of a discovery pod, in bytes.
pub(crate) const RESPONSE_MAX: usize = 1 << 20;
/// Maximum number of cards of one node. A response with more cards is refused.
pub(crate) const CARDS_MAX: usize = 256;
/// Maximum number of processors of one node. A response with more processors is refused.
pub(crate) const PROCESSORS_MAX: usize = 64;
/// Maximum number of threads of one processor.
const THREADS_MAX: u32 = 4096;
/// Maximum length of a processor name or vendor name, in characters.
const WORDS_MAX: usize = 128;
/// Prefix of the names of the discovery pods; the name of the node follows.
pub(crate) const START: &str = "operator-inventory-hardware-discovery-";
/// Service account of the discovery pods, without permissions.
pub const ACCOUNT: &str = "operator-inventory-hardware-discovery";
/// Port at which a discovery pod responds.
pub const PORT: u16 = 8081;
/// Maximum length of a pod name.
const NAME_MAX: usize = 253;
/// Maximum lifetime of a discovery pod, in seconds.
const LIFE: u32 = 300;
/// Labels of the discovery pods.
pub const LABELS: [(&str, &str); 4] = [
    ("app.kubernetes.io/component", "operator"),
    ("app.kubernetes.io/instance", "inventory-hardware-discovery"),
    ("app.kubernetes.io/name", "inventory"),
    ("app.kubernetes.io/part-of", "provider"),
];
/// Values of `state.waiting.reason` that make a discovery pod count as failed.
const HOPELESS: [&str; 7] = [
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
];

/// Settings of hardware discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiscoveryOptions {
    /// Image of the discovery pods (`--discovery-image`).
    pub image: String,
    /// Program to run in the discovery pods (`--discovery-program`). The image contains this program.
    pub program: String,
    /// Namespace of the discovery pods (`--discovery-namespace`).
    pub namespace: String,
}

impl DiscoveryOptions {
    /// Returns settings for discovery pods with this image. The pods run `provider-services` in the namespace
    /// `akash-services`, the namespace of the operators in the charts of the Go provider.
    #[must_use]
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            image: image.into(),
            program: "provider-services".to_owned(),
            namespace: "akash-services".to_owned(),
        }
    }
}

/// Identity of a node at its discovery. A reboot or a change of the devices causes a new discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeIdentity {
    uid: String,
    boot: String,
    devices: [Option<i64>; 2],
}

impl NodeIdentity {
    /// Returns true if `node` has the same UID.
    pub(crate) fn is(&self, node: &NodeView) -> bool {
        self.uid == node.uid
    }

    /// Creates the identity of a node.
    pub(crate) fn from_node(node: &NodeView) -> Self {
        Self {
            uid: node.uid.clone(),
            boot: node.boot.clone(),
            devices: node.devices,
        }
    }
}

/// Discovered cards of the vendors that orders can request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cards {
    /// Number of cards by PCI device ID, for each vendor.
    numbers: [BTreeMap<String, i64>; 2],
    /// Number of cards without a valid device ID, for each vendor.
    unreadable: [i64; 2],
}

#[derive(Deserialize)]
struct CardsResponse {
    cards: Option<Vec<Card>>,
    /// Cards in a response about the whole machine. Some versions of the discovery program send such
    /// responses.
    gpu: Option<Box<Self>>,
}

#[derive(Deserialize)]
struct Card {
    address: Option<String>,
    pci: Option<PciDevice>,
}

#[derive(Deserialize)]
struct PciDevice {
    vendor: PciId,
    product: PciId,
}

#[derive(Deserialize)]
struct PciId {
    id: String,
}

/// Discovered processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processor {
    /// ID that the node assigns to the processor.
    pub id: String,
    /// Vendor, such as `AuthenticAMD`.
    pub vendor: String,
    /// Name of the model.
    pub model: String,
    /// Number of hardware threads.
    pub threads: u32,
}

/// Discovered processors, by node.
pub type Processors = BTreeMap<String, Vec<Processor>>;

impl Processor {
    /// Decodes the processors in the response of a discovery pod.
    ///
    /// # Errors
    /// Returns why the response is invalid.
    pub fn read(answer: &[u8]) -> Result<Vec<Self>, String> {
        #[derive(Deserialize)]
        struct ProcessorsResponse {
            processors: Option<Vec<RawProcessor>>,
            /// Processors, if the response describes the whole machine. Only some versions of the discovery
            /// program send such a response.
            cpu: Option<Box<Self>>,
        }
        #[derive(Deserialize)]
        struct RawProcessor {
            id: i64,
            #[serde(default)]
            vendor: String,
            #[serde(default)]
            model: String,
            total_hardware_threads: Option<u32>,
            /// Same as `total_hardware_threads`, in the format of older discovery programs.
            total_threads: Option<u32>,
        }
        if answer.len() > RESPONSE_MAX {
            return Err(format!("the response is longer than {RESPONSE_MAX} bytes"));
        }
        let answer: ProcessorsResponse =
            serde_json::from_slice(answer).map_err(|error| format!("invalid response: {error}"))?;
        let list = answer.processors.or_else(|| answer.cpu?.processors);
        let list = list.unwrap_or_default();
        if list.len() > PROCESSORS_MAX {
            return Err(format!("{} processors exceed the limit of a node", list.len()));
        }
        let words = |text: &str| {
            let words = text.trim().chars().filter(|letter| !letter.is_control());
            words.take(WORDS_MAX).collect()
        };
        let read = |text: RawProcessor| Self {
            id: text.id.to_string(),
            vendor: words(&text.vendor),
            model: words(&text.model),
            threads: text
                .total_hardware_threads
                .or(text.total_threads)
                .unwrap_or(0)
                .min(THREADS_MAX),
        };
        Ok(list.into_iter().map(read).collect())
    }
}

impl Cards {
    /// Decodes the cards in the response of a discovery pod.
    ///
    /// # Errors
    /// Returns why the response is invalid.
    pub(crate) fn read(answer: &[u8]) -> Result<Self, String> {
        if answer.len() > RESPONSE_MAX {
            return Err(format!("the response is longer than {RESPONSE_MAX} bytes"));
        }
        let answer: CardsResponse =
            serde_json::from_slice(answer).map_err(|error| format!("invalid response: {error}"))?;
        let list = match (answer.cards, answer.gpu) {
            (Some(list), _) => list,
            (None, Some(gpu)) => gpu.cards.unwrap_or_default(),
            (None, None) => Vec::new(),
        };
        if list.len() > CARDS_MAX {
            return Err(format!("{} cards exceed the limit of a node", list.len()));
        }
        let (mut cards, mut addresses) = (Self::default(), BTreeSet::new());
        for card in list {
            // A card that is listed several times counts once.
            if card
                .address
                .is_some_and(|address| !address.is_empty() && !addresses.insert(address))
            {
                continue;
            }
            let Some(pci) = card.pci else { continue };
            // Orders cannot request GPUs of other vendors.
            let Some(vendor) = number(&pci.vendor.id).as_deref().and_then(vendor_of) else {
                continue;
            };
            match number(&pci.product.id) {
                Some(device) => *cards.numbers[vendor as usize].entry(device).or_default() += 1,
                None => cards.unreadable[vendor as usize] += 1,
            }
        }
        Ok(cards)
    }

    /// Returns the numbers of cards of a vendor, by device ID.
    pub(crate) fn by_vendor(&self, vendor: Vendor) -> impl Iterator<Item = (&str, i64)> {
        let numbers = self.numbers[vendor as usize].iter();
        numbers.map(|(number, count)| (number.as_str(), *count))
    }

    /// Returns the number of cards of a vendor.
    pub(crate) fn count(&self, vendor: Vendor) -> i64 {
        let readable: i64 = self.by_vendor(vendor).map(|(_, count)| count).sum();
        readable + self.unreadable(vendor)
    }

    /// Returns the number of a vendor's cards without a valid device ID.
    pub(crate) const fn unreadable(&self, vendor: Vendor) -> i64 {
        self.unreadable[vendor as usize]
    }
}

/// Returns the name of the discovery pod of a node.
///
/// # Errors
/// Returns an error if the name of the node is too long.
pub(crate) fn name(node: &str) -> Result<String, String> {
    let name = format!("{START}{node}");
    if name.len() > NAME_MAX {
        return Err(format!("the pod name is longer than {NAME_MAX} characters"));
    }
    Ok(name)
}

/// Returns the label selector of the discovery pods.
pub(crate) fn selector() -> String {
    LABELS.map(|(key, value)| format!("{key}={value}")).join(",")
}

/// Renders the discovery pod of a node.
///
/// The pod conforms to the Pod Security Standard `restricted`: the PCI bus in `/sys` is readable without a
/// host path. The pod requests no resources, so it also runs on a full node.
pub(crate) fn pod(options: &DiscoveryOptions, name: &str, node: &str) -> Value {
    let labels: BTreeMap<_, _> = LABELS.into();
    let port = format!("--api-port={PORT}");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": options.namespace, "labels": labels},
        "spec": {
            "nodeName": node,
            "serviceAccountName": ACCOUNT,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LIFE,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65534, "runAsGroup": 65534,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "psutil",
                "image": options.image,
                "args": [options.program, "tools", "psutil", "serve", port],
                "ports": [{"name": "api", "containerPort": PORT}],
                // The Go program requires a database of names, and stores it in its home directory.
                "env": [{"name": "PCIDB_ENABLE_NETWORK_FETCH", "value": "1"}, {"name": "HOME", "value": "/tmp"}],
                "resources": {
                    "requests": {"cpu": "0", "memory": "0", "ephemeral-storage": "0"},
                    "limits": {"cpu": "500m", "memory": "256Mi", "ephemeral-storage": "64Mi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            }],
            "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "32Mi"}}],
        },
    })
}

/// Progress of a discovery pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DiscoveryProgress {
    /// Reason why the pod does not run yet.
    Waits(String),
    /// The pod is running.
    Runs,
    /// The pod will not run. Contains the reason.
    Fails(String),
}

/// Returns the progress of the discovery pod of a node.
pub(crate) fn progress(pod: &Value, node: &str) -> DiscoveryProgress {
    if pod["spec"]["nodeName"] != node {
        return DiscoveryProgress::Fails("the pod runs on another node".to_owned());
    }
    let status = &pod["status"];
    let container = &status["containerStatuses"][0]["state"];
    let text = |from: &Value| {
        let text = |key: &str| from[key].as_str().unwrap_or_default();
        // The text comes from other components, so its length is limited.
        let words = format!("{} {}", text("reason"), text("message"));
        words.trim().chars().take(300).collect::<String>()
    };
    match status["phase"].as_str().unwrap_or_default() {
        "Running" => DiscoveryProgress::Runs,
        "Failed" | "Succeeded" => {
            let words = [text(status), text(&container["terminated"])].join(" ");
            DiscoveryProgress::Fails(format!("the pod ended: {}", words.trim()))
        }
        _ => {
            let waiting = &container["waiting"];
            let words = format!("the pod does not run: {}", text(waiting));
            if HOPELESS.iter().any(|reason| waiting["reason"] == *reason) {
                DiscoveryProgress::Fails(words)
            } else {
                DiscoveryProgress::Waits(words)
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Machines of whose GPUs no label says the model: which pod looks at one, and what its answer means. Pure; [`seeker`] acts.
//!
//! The pod and its answers are those of today's operator. They say which cards are on the bus, and which processors there
//! are: how many devices there are to give out, Kubernetes says.

use super::database::{number, vendor_of};
use super::node::NodeView;
use crate::inventory::Vendor;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub mod seeker;

/// Longest answer, in bytes; a machine with sixteen cards answers a few hundred thousand.
pub const ANSWER_MAX: usize = 1 << 20;
/// Cards of one machine; more is a mistake of whoever counts them.
pub const CARDS_MAX: usize = 256;
/// Processors of one machine; more is a mistake of whoever counts them.
pub const PROCESSORS_MAX: usize = 64;
/// Threads of one processor that are believed.
const THREADS_MAX: u32 = 4096;
/// Longest name of a processor or its maker, in characters.
const WORDS_MAX: usize = 128;
/// How the names of the pods begin; the name of the node follows.
pub const START: &str = "operator-inventory-hardware-discovery-";
/// The account of the pods, which has no rights.
pub const ACCOUNT: &str = "operator-inventory-hardware-discovery";
/// The port that the pods answer at.
pub const PORT: u16 = 8081;
/// Longest name of a pod.
const NAME_MAX: usize = 253;
/// A pod that nobody deletes ends by itself, in seconds.
const LIFE: u32 = 300;
/// The labels of the pods.
pub const LABELS: [(&str, &str); 4] = [
    ("app.kubernetes.io/component", "operator"),
    ("app.kubernetes.io/instance", "inventory-hardware-discovery"),
    ("app.kubernetes.io/name", "inventory"),
    ("app.kubernetes.io/part-of", "provider"),
];
/// Why a container does not start, where waiting does not help.
const HOPELESS: [&str; 7] = [
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
];

/// How machines are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The image of the pods (`--discovery-image`).
    pub image: String,
    /// The program in it that answers (`--discovery-program`).
    pub program: String,
    /// The namespace of the pods (`--discovery-namespace`).
    pub namespace: String,
}

/// A machine as it was when it was looked at: after a restart, or with other devices, it is looked at again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    uid: String,
    boot: String,
    devices: [Option<i64>; 2],
}

impl Machine {
    /// True where a node is this machine, whatever it has now.
    #[must_use]
    pub fn is(&self, node: &NodeView) -> bool {
        self.uid == node.uid
    }

    /// The machine that a node is.
    #[must_use]
    pub fn of(node: &NodeView) -> Self {
        Self {
            uid: node.uid.clone(),
            boot: node.boot.clone(),
            devices: node.devices,
        }
    }
}

/// The cards that were seen on a machine, those of vendors that orders name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cards {
    /// How many there are of each number on the bus, by vendor.
    numbers: [BTreeMap<String, i64>; 2],
    /// How many have no number that makes sense.
    unreadable: [i64; 2],
}

#[derive(Deserialize)]
struct Answer {
    cards: Option<Vec<Card>>,
    /// Some versions answer with all of the machine, whatever is asked for.
    gpu: Option<Box<Self>>,
}

#[derive(Deserialize)]
struct Card {
    address: Option<String>,
    pci: Option<Numbers>,
}

#[derive(Deserialize)]
struct Numbers {
    vendor: Named,
    product: Named,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

/// A processor, as it says itself what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processor {
    /// Its number on the machine.
    pub id: String,
    /// Who made it, such as `AuthenticAMD`.
    pub vendor: String,
    /// The name of its model.
    pub model: String,
    /// What it runs at once.
    pub threads: u32,
}

/// Processors of machines, by the names of their nodes.
pub type Processors = BTreeMap<String, Vec<Processor>>;

impl Processor {
    /// Reads the answer of a pod about its processors.
    ///
    /// # Errors
    /// Why it is none.
    pub fn read(answer: &[u8]) -> Result<Vec<Self>, String> {
        #[derive(Deserialize)]
        struct Answer {
            processors: Option<Vec<Said>>,
            /// As with cards.
            cpu: Option<Box<Self>>,
        }
        #[derive(Deserialize)]
        struct Said {
            id: i64,
            #[serde(default)]
            vendor: String,
            #[serde(default)]
            model: String,
            total_hardware_threads: Option<u32>,
            /// What older versions call them.
            total_threads: Option<u32>,
        }
        if answer.len() > ANSWER_MAX {
            return Err(format!("the answer is longer than {ANSWER_MAX} bytes"));
        }
        let answer: Answer =
            serde_json::from_slice(answer).map_err(|error| format!("the answer cannot be read: {error}"))?;
        let list = answer.processors.or_else(|| answer.cpu?.processors);
        let list = list.unwrap_or_default();
        if list.len() > PROCESSORS_MAX {
            return Err(format!("{} processors are more than a machine has", list.len()));
        }
        let words = |text: &str| {
            let words = text.trim().chars().filter(|letter| !letter.is_control());
            words.take(WORDS_MAX).collect()
        };
        let read = |said: Said| Self {
            id: said.id.to_string(),
            vendor: words(&said.vendor),
            model: words(&said.model),
            threads: said
                .total_hardware_threads
                .or(said.total_threads)
                .unwrap_or(0)
                .min(THREADS_MAX),
        };
        Ok(list.into_iter().map(read).collect())
    }
}

impl Cards {
    /// Reads the answer of a pod.
    ///
    /// # Errors
    /// Why it is none.
    pub fn read(answer: &[u8]) -> Result<Self, String> {
        if answer.len() > ANSWER_MAX {
            return Err(format!("the answer is longer than {ANSWER_MAX} bytes"));
        }
        let answer: Answer =
            serde_json::from_slice(answer).map_err(|error| format!("the answer cannot be read: {error}"))?;
        let list = match (answer.cards, answer.gpu) {
            (Some(list), _) => list,
            (None, Some(gpu)) => gpu.cards.unwrap_or_default(),
            (None, None) => Vec::new(),
        };
        if list.len() > CARDS_MAX {
            return Err(format!("{} cards are more than a machine has", list.len()));
        }
        let (mut cards, mut addresses) = (Self::default(), BTreeSet::new());
        for card in list {
            // A card counts once, however often it is named.
            if card
                .address
                .is_some_and(|address| !address.is_empty() && !addresses.insert(address))
            {
                continue;
            }
            let Some(pci) = card.pci else { continue };
            // Other makers are none that orders could ask for.
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

    /// Cards of a vendor: their numbers on the bus, and how many there are of each.
    pub fn of(&self, vendor: Vendor) -> impl Iterator<Item = (&str, i64)> {
        let numbers = self.numbers[vendor as usize].iter();
        numbers.map(|(number, count)| (number.as_str(), *count))
    }

    /// How many cards of a vendor were seen.
    #[must_use]
    pub fn count(&self, vendor: Vendor) -> i64 {
        let readable: i64 = self.of(vendor).map(|(_, count)| count).sum();
        readable + self.unreadable(vendor)
    }

    /// How many of them have no number that makes sense.
    #[must_use]
    pub const fn unreadable(&self, vendor: Vendor) -> i64 {
        self.unreadable[vendor as usize]
    }
}

/// The name of the pod that looks at a node.
///
/// # Errors
/// The node's name is too long for it.
pub fn name(node: &str) -> Result<String, String> {
    let name = format!("{START}{node}");
    if name.len() > NAME_MAX {
        return Err(format!(
            "the name of its pod would have more than {NAME_MAX} characters"
        ));
    }
    Ok(name)
}

/// The labels of the pods, as a selector.
#[must_use]
pub fn selector() -> String {
    LABELS.map(|(key, value)| format!("{key}={value}")).join(",")
}

/// The pod that looks at a node.
///
/// It is within the standard `restricted`: the kernel tells what is on the bus to everybody, in every container, so that no
/// folder of the machine is mounted. It asks for nothing, so that a full node has room for it, and tolerates what keeps
/// others away.
#[must_use]
pub fn pod(options: &Options, name: &str, node: &str) -> Value {
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
                // Today's program answers nothing without a database of names, and keeps it at home.
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

/// How far a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It may come to run.
    Waits(String),
    /// It can be asked.
    Runs,
    /// It will not run: and why.
    Fails(String),
}

/// How far a pod is that was made for a node.
#[must_use]
pub fn progress(pod: &Value, node: &str) -> Progress {
    if pod["spec"]["nodeName"] != node {
        return Progress::Fails("it is on another node".to_owned());
    }
    let status = &pod["status"];
    let container = &status["containerStatuses"][0]["state"];
    let said = |from: &Value| {
        let text = |key: &str| from[key].as_str().unwrap_or_default();
        // Others write these words.
        let words = format!("{} {}", text("reason"), text("message"));
        words.trim().chars().take(300).collect::<String>()
    };
    match status["phase"].as_str().unwrap_or_default() {
        "Running" => Progress::Runs,
        "Failed" | "Succeeded" => {
            let words = [said(status), said(&container["terminated"])].join(" ");
            Progress::Fails(format!("its pod has ended: {}", words.trim()))
        }
        _ => {
            let waiting = &container["waiting"];
            let words = format!("its pod does not run: {}", said(waiting));
            if HOPELESS.iter().any(|reason| waiting["reason"] == *reason) {
                Progress::Fails(words)
            } else {
                Progress::Waits(words)
            }
        }
    }
}

#[cfg(test)]
mod tests;

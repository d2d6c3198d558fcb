//! Reasons why a resource is not offered, and the remedy of each reason.

use super::InventoryKind;
use super::gpu::source_labels::UnnamedGpu;
use super::vendor::{self, Vendor};
use akash_provider_core::inventory::{IgnoredKind, IgnoredResource};
use akash_provider_kube_kernel::labels::{self, CLASS_LABEL};
use std::fmt;

#[cfg(test)]
mod tests;

/// Reason why a node accepts no new pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClosedReason {
    /// The node lacks the label `akash.network=true`.
    Unlabelled,
    /// The condition `Ready` is `Unknown`.
    Unreachable,
    /// The condition `Ready` is false. Contains the reason of the condition, or an empty text.
    NotReady(String),
    /// The status of the node has no condition `Ready`.
    NoReadyCondition,
    /// The node is cordoned.
    Cordoned,
    /// The node has a taint that pods of leases do not tolerate.
    Taint { key: String, effect: String },
    /// The node runs the maximum number of pods. Contains this maximum.
    PodLimit(i64),
    /// The last message of the inventory operator does not contain the node.
    NotServed,
}

impl fmt::Display for ClosedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlabelled => write!(f, "missing label {}", labels::SELECTOR),
            Self::Unreachable => f.write_str("unreachable"),
            Self::NotReady(reason) if reason.is_empty() => f.write_str("not ready"),
            Self::NotReady(reason) => write!(f, "not ready ({reason})"),
            Self::NoReadyCondition => f.write_str("no Ready condition"),
            Self::Cordoned => f.write_str("cordoned"),
            Self::Taint { key, effect } => write!(f, "taint {key}:{effect}"),
            Self::PodLimit(limit) => write!(f, "pod limit reached ({limit})"),
            Self::NotServed => f.write_str("not reported by the inventory operator"),
        }
    }
}

impl ClosedReason {
    /// Returns the entry for `node` in the list of resources that are not offered.
    pub(crate) fn resource(&self, node: &str) -> IgnoredResource {
        let help = match self {
            Self::Unlabelled => {
                format!(
                    "run `kubectl label node {node} {}` to offer it to tenants",
                    labels::SELECTOR
                )
            }
            Self::Cordoned => format!("run `kubectl uncordon {node}`"),
            Self::Taint { key, effect } => format!("run `kubectl taint node {node} {key}:{effect}-`"),
            Self::PodLimit(_) => {
                format!("raise maxPods of the kubelet on node {node}, or move pods to another node")
            }
            Self::NotServed => {
                format!("run `kubectl describe node {node}`, and check the rules of the inventory operator")
            }
            Self::Unreachable | Self::NotReady(_) | Self::NoReadyCondition => {
                format!("run `kubectl describe node {node}` and restart its kubelet")
            }
        };
        match self {
            Self::Unlabelled => {
                IgnoredResource::new(IgnoredKind::Node, format!("node `{node}`: {self}"), help)
            }
            _ => {
                let reason = format!("node `{node}` accepts no new pods: {self}");
                IgnoredResource::new(IgnoredKind::ClosedNode, reason, help)
            }
        }
    }
}

/// Reason why GPUs of a node are not offered, or are offered without their attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GpuProblem {
    /// Some devices cannot be allocated.
    Unhealthy {
        vendor: Vendor,
        unhealthy: i64,
        capacity: i64,
    },
    /// The labels name the models of fewer devices than the node has.
    Unlabelled {
        vendor: Vendor,
        unlabelled: i64,
        capacity: i64,
    },
    /// The value of a label is not a number of devices.
    InvalidCount { label: String, value: String },
    /// The node has more than [`vendor::KINDS`] kinds of devices of a vendor.
    TooManyKinds(Vendor),
    /// The labels count the devices of a model by size and by interface, but not by both.
    UncombinedAttributes { vendor: Vendor, model: String },
    /// No label names the model.
    UnknownModel {
        vendor: Vendor,
        capacity: i64,
        cause: UnnamedGpu,
    },
    /// Only the label `source` of the GPU vendor contains the model.
    VendorLabelOnly {
        vendor: Vendor,
        capacity: i64,
        model: String,
        source: &'static str,
    },
}

impl fmt::Display for GpuProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unhealthy {
                vendor,
                unhealthy,
                capacity,
            } => {
                write!(
                    f,
                    "{unhealthy} of {capacity} {} GPUs are unhealthy",
                    vendor.name()
                )
            }
            Self::Unlabelled {
                vendor,
                unlabelled,
                capacity,
            } => {
                write!(
                    f,
                    "{unlabelled} of {capacity} {} GPUs have no model label",
                    vendor.name()
                )
            }
            Self::InvalidCount { label, value } => {
                write!(f, "label {label}: invalid number of devices `{value}`")
            }
            Self::TooManyKinds(vendor) => {
                let (kinds, name) = (vendor::KINDS, vendor.name());
                write!(
                    f,
                    "more than {kinds} kinds of {name} GPUs: the others are not counted"
                )
            }
            Self::UncombinedAttributes { vendor, model } => write!(
                f,
                "{} GPUs `{model}`: no label combines memory size and interface, so the node offers neither of them",
                vendor.name()
            ),
            Self::UnknownModel {
                vendor,
                capacity,
                cause,
            } => {
                let (name, label) = (vendor.name(), vendor::model_label(*vendor, "*"));
                write!(
                    f,
                    "{capacity} {name} GPUs of unknown model: no label {label}; {cause}"
                )
            }
            Self::VendorLabelOnly {
                vendor,
                capacity,
                model,
                source,
            } => {
                let (name, label) = (vendor.name(), vendor::model_label(*vendor, model));
                write!(
                    f,
                    "{capacity} {name} GPUs `{model}` are known only by label {source}; pods are bound by label {label}, \
                     which the node lacks"
                )
            }
        }
    }
}

impl GpuProblem {
    /// Returns the entry for the GPUs of `node` in the list of resources that are not offered.
    pub(crate) fn resource(&self, node: &str) -> IgnoredResource {
        let with_label = |label: String| {
            format!(
                "run the inventory operator (--with-operators inventory), or run `kubectl label node {node} {label}=COUNT`"
            )
        };
        let help = match self {
            Self::Unhealthy { .. } => format!("check the device plugin and the drivers on node {node}"),
            Self::Unlabelled { vendor, .. } => with_label(vendor::model_label(*vendor, "MODEL")),
            Self::UnknownModel { vendor, cause, .. } => match cause {
                UnnamedGpu::Shared(_) => format!("{} on node {node}", cause.help()),
                // The operator maps the ID to a model.
                UnnamedGpu::DeviceId(_) => with_label(vendor::model_label(*vendor, "MODEL")),
                UnnamedGpu::NoDeviceId(_) | UnnamedGpu::NoLabel(_) => {
                    let model = with_label(vendor::model_label(*vendor, "MODEL"));
                    format!("{} and {model}", cause.help())
                }
            },
            Self::VendorLabelOnly { vendor, model, .. } => with_label(vendor::model_label(*vendor, model)),
            Self::UncombinedAttributes { vendor, model } => {
                with_label(vendor::model_label(*vendor, model) + ".ram.SIZE.interface.INTERFACE")
            }
            Self::InvalidCount { label, .. } => {
                format!("run `kubectl label --overwrite node {node} {label}=COUNT`")
            }
            Self::TooManyKinds(vendor) => format!(
                "keep the labels {} of at most {} kinds on node {node}",
                vendor::model_label(*vendor, "*"),
                vendor::KINDS
            ),
        };
        IgnoredResource::new(IgnoredKind::Gpu, format!("node `{node}`: {self}"), help)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClassProblem {
    /// The class lacks the label `akash.network=true`.
    Unlabelled,
    /// No node has the label of the class.
    Unmounted,
    /// The size of the class is unknown.
    UnknownSize {
        provisioner: Box<str>,
        problem: SizeProblem,
    },
}

/// Reason why the size of a storage class is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SizeProblem {
    /// No source reports the size of the class.
    Unreported,
    /// The namespace in the parameters of the class has no `CephCluster`.
    MissingCephCluster { namespace: Box<str> },
    /// The status of the `CephCluster` has no size.
    UnsizedCephCluster { namespace: Box<str>, name: Box<str> },
}

impl fmt::Display for SizeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreported => f.write_str("unknown size"),
            Self::MissingCephCluster { namespace } => write!(f, "no CephCluster in namespace `{namespace}`"),
            Self::UnsizedCephCluster { name, .. } => write!(f, "CephCluster `{name}` reports no size"),
        }
    }
}

impl SizeProblem {
    fn help(&self) -> String {
        match self {
            Self::Unreported => "use a driver that reports CSIStorageCapacity objects".to_owned(),
            Self::MissingCephCluster { .. } => {
                "set the parameter clusterID of the class to the namespace of its CephCluster".to_owned()
            }
            Self::UnsizedCephCluster { namespace, name } => {
                format!("run `kubectl --namespace {namespace} describe cephcluster {name}` to find the cause")
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IgnoredClass {
    class: Box<str>,
    problem: ClassProblem,
}

impl IgnoredClass {
    pub(crate) fn new(class: &str, problem: ClassProblem) -> Self {
        Self {
            class: class.into(),
            problem,
        }
    }

    /// Returns the entry for this storage class in the list of resources that are not offered.
    pub(crate) fn resource(&self) -> IgnoredResource {
        let help = match &self.problem {
            ClassProblem::Unlabelled => format!(
                "run `kubectl label storageclass {} {}` to offer it to tenants",
                self.class,
                labels::SELECTOR
            ),
            ClassProblem::Unmounted => format!(
                "run `kubectl label node NODE {CLASS_LABEL}{}=1` for each node that mounts the class",
                self.class
            ),
            ClassProblem::UnknownSize { problem, .. } => {
                format!("set --storage-class {}=SIZE, or {}", self.class, problem.help())
            }
        };
        IgnoredResource::new(IgnoredKind::StorageClass, self.to_string(), help)
    }
}

impl fmt::Display for IgnoredClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = &self.class;
        match &self.problem {
            ClassProblem::Unlabelled => {
                write!(f, "storage class `{class}`: missing label {}", labels::SELECTOR)
            }
            ClassProblem::Unmounted => {
                write!(
                    f,
                    "storage class `{class}`: no node has the label {CLASS_LABEL}{class}"
                )
            }
            ClassProblem::UnknownSize { provisioner, problem } => {
                write!(f, "storage class `{class}` of {provisioner}: {problem}")
            }
        }
    }
}

/// Returns the [`IgnoredResource`] for a kind of object that the API server does not list.
pub(crate) fn unreadable_kind(kind: InventoryKind, error: &str) -> IgnoredResource {
    IgnoredResource::new(
        IgnoredKind::ObjectKind,
        format!("{} cannot be read: {error}", kind.plural()),
        "run `kubectl apply --filename deploy/rbac`",
    )
}

/// Returns the [`IgnoredResource`] for a Manifest record that cannot be decoded. `name` is the record name.
pub(crate) fn invalid_record(name: &str, reason: &str) -> IgnoredResource {
    let help = format!(
        "run `kubectl get manifests.akash.network --all-namespaces --field-selector metadata.name={name} --output yaml` and \
         correct the record, or delete it if its lease is closed"
    );
    IgnoredResource::new(IgnoredKind::Record, reason, help)
}

/// Returns the last entry of a truncated list. `number` is the number of omitted entries.
pub(crate) fn omitted(number: usize) -> IgnoredResource {
    IgnoredResource::new(
        IgnoredKind::Other,
        format!("and {number} more"),
        "apply the other remedies, then run the command again",
    )
}

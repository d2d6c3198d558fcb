//! Persistent storage: the offered classes, the size of each class, and how much of it other users use.
//!
//! Volumes of this provider's leases do not count as use, because they are already counted as reservations.
//! The size of a class comes from the first available source:
//!
//! 1. the configuration;
//! 2. Ceph run by Rook: the size of the cluster (95 %, the limit at which Ceph stops writing), divided by the copies of
//!    the pool. The use is the larger of two values: the size of the volumes of other users, or the stored data minus
//!    the provider's own volumes. Classes of one Ceph cluster share its size, so the volumes of each class also count
//!    as use in the other classes;
//! 3. `CSIStorageCapacity` objects: the free capacity, plus the volumes of the class;
//! 4. local-path of Rancher: the disks of the nodes that mount the class, minus the used space;
//! 5. static volumes (`kubernetes.io/no-provisioner`): the total size of these volumes.
//!
//! A class of unknown size is not offered, unless unlimited classes are enabled.

use super::quantity::{whole, whole_of};
use super::reason::{ClassProblem, IgnoredClass, SizeProblem};
use akash_provider_core::inventory::{NodeName, Quantity};
use akash_provider_kube_kernel::labels;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSIStorageCapacity, StorageClass};
use std::collections::{BTreeMap, HashMap};

mod ceph;

pub use ceph::{CephClusterFacts, CephPoolFacts};

/// Provisioner of local-path volumes of Rancher.
const LOCAL_PATH: &str = "rancher.io/local-path";
/// Provisioner of static volumes.
const BY_HAND: &str = "kubernetes.io/no-provisioner";
/// Suffix of Ceph provisioners; Rook adds its namespace as a prefix.
const CEPH: &str = ".csi.ceph.com";

/// Fields of a storage class, for the capacity count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassFacts {
    /// True if the class has the label `akash.network=true`.
    pub(crate) offered: bool,
    pub(crate) provisioner: Box<str>,
    /// Parameters `clusterID` and `pool` of a Ceph class.
    pub(crate) ceph: Option<(Box<str>, Box<str>)>,
}

/// Fields of a persistent volume, for the capacity count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeFacts {
    pub(crate) class: Box<str>,
    pub(crate) bytes: i64,
    /// Namespace of the claim that is bound to the volume; `None` without a claim.
    pub(crate) claim: Option<Box<str>>,
    /// Node of a local-path volume. Such a volume uses the same disk as the ephemeral storage of the node.
    pub(crate) node: Option<NodeName>,
}

/// Fields of a storage capacity object, for the capacity count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityFacts {
    pub(crate) class: Box<str>,
    pub(crate) bytes: i64,
}

impl ClassFacts {
    /// Decodes a storage class.
    #[must_use]
    pub fn from_object(class: &StorageClass) -> Self {
        let labels = class.metadata.labels.as_ref();
        let label = labels.and_then(|l| l.get(labels::MANAGED));
        let parameter = |name: &str| class.parameters.as_ref().and_then(|p| p.get(name));
        let ceph = is_ceph(&class.provisioner).then(|| {
            let text = |name| parameter(name).map_or("", String::as_str).into();
            (text("clusterID"), text("pool"))
        });
        Self {
            offered: label.is_some_and(|v| v == "true"),
            provisioner: class.provisioner.as_str().into(),
            ceph,
        }
    }

    pub(crate) fn is_local(&self) -> bool {
        &*self.provisioner == LOCAL_PATH
    }
}

fn is_ceph(provisioner: &str) -> bool {
    provisioner.ends_with(CEPH)
}

impl VolumeFacts {
    /// Decodes a volume; returns `None` for a volume without a class.
    #[must_use]
    pub fn from_object(volume: &PersistentVolume) -> Option<Self> {
        let spec = volume.spec.as_ref()?;
        let class = spec.storage_class_name.as_deref().filter(|c| !c.is_empty())?;
        let claim = spec.claim_ref.as_ref().and_then(|c| c.namespace.as_deref());
        let annotations = volume.metadata.annotations.as_ref();
        let by = annotations.and_then(|a| a.get("pv.kubernetes.io/provisioned-by"));
        let on_node = by.is_some_and(|by| by == LOCAL_PATH);
        let affinity = spec.node_affinity.as_ref().filter(|_| on_node);
        let affinity = affinity.and_then(|a| a.required.as_ref());
        let terms = affinity.iter().flat_map(|a| &a.node_selector_terms);
        let mut hosts = terms
            .flat_map(|t| t.match_expressions.iter().flatten())
            .filter(|e| e.key == "kubernetes.io/hostname" && e.operator == "In");
        let host = hosts.next().and_then(|e| e.values.as_ref()?.first());
        Some(Self {
            class: class.into(),
            bytes: spec.capacity.as_ref().map_or(0, |c| whole_of(c, "storage")),
            claim: claim.map(Into::into),
            node: host.map(|h| h.as_str().into()),
        })
    }
}

impl CapacityFacts {
    /// Decodes a storage capacity; returns `None` if it has no size.
    #[must_use]
    pub fn from_object(capacity: &CSIStorageCapacity) -> Option<Self> {
        Some(Self {
            class: capacity.storage_class_name.as_str().into(),
            bytes: whole(&capacity.capacity.as_ref()?.0)?,
        })
    }
}

/// Settings of persistent storage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StorageOptions {
    /// Sizes of storage classes, in bytes. An entry replaces a missing or wrong size of its class.
    pub capacity: BTreeMap<String, i64>,
    /// Whether classes of unknown size are offered without a limit.
    pub unknown_is_unlimited: bool,
}

/// Inputs for the computation of storage capacity.
pub(crate) struct StorageInputs<'a> {
    pub(crate) classes: &'a BTreeMap<Box<str>, ClassFacts>,
    pub(crate) volumes: &'a mut dyn Iterator<Item = &'a VolumeFacts>,
    pub(crate) capacities: &'a mut dyn Iterator<Item = &'a CapacityFacts>,
    pub(crate) clusters: &'a [CephClusterFacts],
    pub(crate) pools: &'a [CephPoolFacts],
    /// Returns true if the namespace belongs to a lease of this provider.
    pub(crate) ours: &'a dyn Fn(&str) -> bool,
    /// Returns two sums over the nodes that can mount a storage class: the disk sizes, and the disk requests
    /// of pods.
    pub(crate) disks: &'a dyn Fn(&str) -> (i128, i128),
    pub(crate) options: &'a StorageOptions,
}

/// Bytes of the volumes of a class.
#[derive(Debug, Clone, Copy, Default)]
struct Volumes {
    ours: i128,
    others: i128,
    /// Bytes of volumes without a claim, included in `others`.
    unbound: i128,
}

impl Volumes {
    const fn all(self) -> i128 {
        self.ours + self.others
    }
}

/// Returns each offered class with its total bytes, and with the bytes that volumes of other users occupy.
/// Also returns the classes that are not offered.
pub(crate) fn pools(view: StorageInputs<'_>) -> (BTreeMap<String, Quantity>, Vec<IgnoredClass>) {
    let mut volumes: HashMap<&str, Volumes> = HashMap::new();
    for volume in view.volumes {
        let of_class = volumes.entry(&volume.class).or_default();
        // In 128 bits, because thousands of volumes may each have the maximum size.
        let bytes = i128::from(volume.bytes);
        match &volume.claim {
            Some(namespace) if (view.ours)(namespace) => of_class.ours += bytes,
            Some(_) => of_class.others += bytes,
            None => {
                of_class.others += bytes;
                of_class.unbound += bytes;
            }
        }
    }
    let mut free: HashMap<&str, i128> = HashMap::new();
    for capacity in view.capacities {
        *free.entry(&capacity.class).or_default() += i128::from(capacity.bytes);
    }
    let of = |class: &str| volumes.get(class).copied().unwrap_or_default();
    let (mut pools, mut notes) = (BTreeMap::new(), Vec::new());
    for (name, class) in view.classes {
        if !class.offered {
            notes.push(IgnoredClass::new(name, ClassProblem::Unlabelled));
            continue;
        }
        let mine = of(name);
        let others_of = |alike: &dyn Fn(&ClassFacts) -> bool| {
            let alike = view.classes.iter().filter(|(_, c)| alike(c));
            alike.map(|(n, _)| of(n).all()).sum::<i128>() - mine.ours
        };
        let shared = |cluster: &CephClusterFacts| {
            others_of(&|c| c.ceph.as_ref().is_some_and(|(id, _)| cluster.is(id)))
        };
        let ceph = || ceph::amount(class, view.clusters, view.pools, mine.ours, &shared);
        let amount = match (view.options.capacity.get(&**name), free.get(&**name)) {
            (Some(bytes), _) => Ok((i128::from(*bytes), mine.others)),
            (None, Some(free)) if class.ceph.is_none() => Ok((free + mine.all(), mine.others)),
            _ if class.ceph.is_some() => ceph(),
            _ if class.is_local() => {
                let (size, by_pods) = (view.disks)(name);
                Ok((size, by_pods + others_of(&ClassFacts::is_local)))
            }
            // Unbound volumes are free.
            _ if &*class.provisioner == BY_HAND => Ok((mine.all(), mine.others - mine.unbound)),
            _ => Err(SizeProblem::Unreported),
        };
        let quantity = match amount {
            Ok((allocatable, allocated)) => Quantity::used(clamp(allocatable), clamp(allocated)),
            // Minus one is unlimited.
            Err(_) if view.options.unknown_is_unlimited => Quantity::free(-1),
            Err(problem) => {
                let provisioner = class.provisioner.clone();
                let problem = ClassProblem::UnknownSize { provisioner, problem };
                notes.push(IgnoredClass::new(name, problem));
                continue;
            }
        };
        pools.insert(name.to_string(), quantity);
    }
    (pools, notes)
}

fn clamp(bytes: i128) -> i64 {
    i64::try_from(bytes.max(0)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;

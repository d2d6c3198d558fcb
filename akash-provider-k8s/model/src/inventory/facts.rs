//! Input for the capacity count: fields of the watched objects.

use super::lease::LeaseFacts;
use super::node::NodeFacts;
use super::pod::PodFacts;
use super::storage::{CapacityFacts, CephClusterFacts, CephPoolFacts, ClassFacts, VolumeFacts};
use crate::leased_ips::Balancer;
use crate::leased_ips::pool::Pool;
use std::collections::HashSet;
use std::sync::Arc;

/// Kind of a watched object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum InventoryKind {
    /// Nodes of the cluster, including those that are not offered.
    Node,
    /// Pods of all namespaces.
    Pod,
    /// Manifests in the manifest namespace.
    Lease,
    /// Storage classes, offered or not.
    Class,
    /// Persistent volumes of all users.
    Volume,
    /// Storage capacities, as reported by the drivers.
    Capacity,
    /// `CephCluster` of Rook, if the cluster has one.
    CephCluster,
    /// `CephBlockPool` of Rook, with its number of copies.
    CephPool,
    /// Services of the type LoadBalancer, which use addresses of MetalLB.
    Balancer,
    /// `IPAddressPool` of MetalLB, if the cluster has one.
    AddressPool,
}

impl InventoryKind {
    /// All kinds. The essential kinds ([`InventoryKind::is_essential`]) come first.
    pub const ALL: [Self; 10] = [
        Self::Node,
        Self::Pod,
        Self::Lease,
        Self::Class,
        Self::Volume,
        Self::Capacity,
        Self::CephCluster,
        Self::CephPool,
        Self::Balancer,
        Self::AddressPool,
    ];

    /// Returns the plural name. The name is displayed, and is part of the API paths of Rook's kinds.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Node => "nodes",
            Self::Pod => "pods",
            Self::Lease => "manifests",
            Self::Class => "storageclasses",
            Self::Volume => "persistentvolumes",
            Self::Capacity => "csistoragecapacities",
            Self::CephCluster => "cephclusters",
            Self::CephPool => "cephblockpools",
            Self::Balancer => "services",
            Self::AddressPool => "ipaddresspools",
        }
    }

    /// Returns true if the capacity is unknown without this kind.
    #[must_use]
    pub const fn is_essential(self) -> bool {
        matches!(self, Self::Node | Self::Pod | Self::Lease)
    }
}

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name, unique within the namespace.
    pub name: Arc<str>,
}

impl NamespacedName {
    /// Creates the key of an object; `namespace` is empty for a cluster-scoped object.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// Input for the capacity count: fields of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectFacts {
    /// A node, offered or not.
    Node(NodeFacts),
    /// Pod that uses resources of a node.
    Pod(PodFacts),
    /// Lease of this provider.
    Lease(LeaseFacts),
    /// Invalid Manifest, with the reason.
    BadLease(String),
    /// A storage class, offered or not.
    Class(ClassFacts),
    /// Persistent volume that has a storage class.
    Volume(VolumeFacts),
    /// Free capacity of a storage class.
    Capacity(CapacityFacts),
    /// Ceph cluster of Rook.
    CephCluster(CephClusterFacts),
    /// A pool of a Ceph cluster.
    CephPool(CephPoolFacts),
    /// A load balancer and its addresses.
    Balancer(Balancer),
    /// A pool of addresses.
    AddressPool(Pool),
}

/// Change from a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactChange {
    /// The object exists with these fields.
    Set(NamespacedName, ObjectFacts),
    /// The object does not exist, or is not part of the capacity count. The UID, if known, can belong to an
    /// older object with the same name.
    Gone(InventoryKind, NamespacedName, Option<Box<str>>),
    /// Keys of all counted objects of a kind. Other objects are not counted.
    Only(InventoryKind, HashSet<NamespacedName>),
}

//! What is kept of an object: the few fields that are counted, never the object.

use super::lease::LeaseFacts;
use super::node::NodeFacts;
use super::pod::PodFacts;
use super::storage::{CapacityFacts, CephClusterFacts, CephPoolFacts, ClassFacts, VolumeFacts};
use std::collections::HashSet;
use std::sync::Arc;

/// A kind of object that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nodes of the cluster, offered or not.
    Node,
    /// Pods of all namespaces.
    Pod,
    /// Manifest objects of the settings' namespace.
    Lease,
    /// Storage classes, offered or not.
    Class,
    /// Persistent volumes, whoever's they are.
    Volume,
    /// Storage capacities, as the drivers tell them.
    Capacity,
    /// `CephCluster` of Rook, where there is one.
    CephCluster,
    /// `CephBlockPool` of Rook: how many copies it keeps.
    CephPool,
}

impl Kind {
    /// All of them, the essential ones first.
    pub const ALL: [Self; 8] = [
        Self::Node,
        Self::Pod,
        Self::Lease,
        Self::Class,
        Self::Volume,
        Self::Capacity,
        Self::CephCluster,
        Self::CephPool,
    ];

    /// For people, and in the paths of Rook's kinds.
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
        }
    }

    /// True where nothing can be said without it.
    #[must_use]
    pub const fn is_essential(self) -> bool {
        matches!(self, Self::Node | Self::Pod | Self::Lease)
    }
}

/// An object of a kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Empty for what is in no namespace.
    pub namespace: Arc<str>,
    /// Its name, unique within the namespace.
    pub name: Arc<str>,
}

impl Key {
    /// The key of an object; `namespace` is empty for what is in none.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// What is kept of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A node, offered or not.
    Node(NodeFacts),
    /// A pod that takes something of a node.
    Pod(PodFacts),
    /// A lease of ours.
    Lease(LeaseFacts),
    /// A Manifest object that cannot be read, and why.
    BadLease(String),
    /// A storage class, offered or not.
    Class(ClassFacts),
    /// A persistent volume that is of a class.
    Volume(VolumeFacts),
    /// Free capacity of a storage class.
    Capacity(CapacityFacts),
    /// A Ceph cluster that Rook runs.
    CephCluster(CephClusterFacts),
    /// A pool of a Ceph cluster.
    CephPool(CephPoolFacts),
}

/// What a watch tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The object is there.
    Set(Key, Fact),
    /// The object is not there or counts nothing. The uid, where it is known: it may be that of an older
    /// object of the name.
    Gone(Kind, Key, Option<Box<str>>),
    /// There are no others of the kind.
    Only(Kind, HashSet<Key>),
}

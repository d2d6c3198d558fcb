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
    /// Nodes.
    Node,
    /// Pods of all namespaces.
    Pod,
    /// Manifest objects.
    Lease,
    /// Storage classes.
    Class,
    /// Persistent volumes.
    Volume,
    /// Storage capacities.
    Capacity,
    /// `CephCluster` of Rook.
    CephCluster,
    /// `CephBlockPool` of Rook.
    CephPool,
}

impl Kind {
    /// All of them.
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

    /// For people.
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
    /// Its name.
    pub name: Arc<str>,
}

impl Key {
    /// A key.
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
    /// A node.
    Node(NodeFacts),
    /// A pod that takes something of a node.
    Pod(PodFacts),
    /// A lease of ours.
    Lease(LeaseFacts),
    /// A Manifest object that cannot be read, and why.
    BadLease(String),
    /// A storage class.
    Class(ClassFacts),
    /// A persistent volume.
    Volume(VolumeFacts),
    /// Free capacity of a storage class.
    Capacity(CapacityFacts),
    /// A Ceph cluster.
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

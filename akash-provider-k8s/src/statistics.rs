//! Statistics of the backend, as plain data.
//!
//! | type | content |
//! |---|---|
//! | [`ApiCalls`] | requests to the API server, counted by a layer of the client |
//! | [`ClusterStatistics`] | deploys, teardowns and repairs of a [`KubeCluster`](crate::cluster::KubeCluster) |
//! | [`IgnoredResources`] | resources that a [`KubeInventory`](crate::inventory::KubeInventory) does not offer |

mod cluster;

pub use akash_provider_kube_kernel::statistics::{
    ApiCall, ApiCalls, ApiResult, ApiStatistics, CountedCalls, Verb,
};
pub(crate) use cluster::ClusterCounters;
pub use cluster::{ClusterStatistics, DriftOutcome, Operation};

/// Number of resources that the provider does not offer, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IgnoredResources {
    /// Nodes without the label `akash.network=true`.
    pub unlabelled_nodes: usize,
    /// Nodes that accept no new pods, for example cordoned nodes.
    pub closed_nodes: usize,
    /// Storage classes without the label `akash.network=true`, with an unknown size, or without a node that
    /// mounts them.
    pub storage_classes: usize,
    /// Manifest records that cannot be read.
    pub unreadable_manifests: usize,
    /// Kinds that the API server does not list.
    pub unreadable_kinds: usize,
}

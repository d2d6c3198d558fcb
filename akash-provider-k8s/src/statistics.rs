//! Statistics of the backend, as plain data.
//!
//! | type | content |
//! |---|---|
//! | [`ApiCalls`] | requests to the API server, counted by a layer of the client |
//! | [`ClusterStatistics`] | deploys, teardowns and repairs of a [`KubeCluster`](crate::cluster::KubeCluster) |
//! | [`IgnoredResources`] | resources that a [`KubeInventory`](crate::inventory::KubeInventory) does not offer |

mod api;
mod cluster;
mod request;

pub use api::{ApiCalls, ApiStatistics, CountedCalls};
pub(crate) use cluster::ClusterCounters;
pub use cluster::{ClusterStatistics, DriftOutcome, Operation};
pub use request::{ApiCall, ApiResult, Verb};

/// For each reason, the number of resources that the provider does not offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IgnoredResources {
    /// Nodes without the label `akash.network=true`.
    pub unlabelled_nodes: usize,
    /// Nodes that accept no new pods, for example because they are cordoned or not ready.
    pub closed_nodes: usize,
    /// Storage classes that lack the label `akash.network=true`, have an unknown size, or are mounted by no
    /// node.
    pub storage_classes: usize,
    /// Manifest records that cannot be read.
    pub unreadable_manifests: usize,
    /// Kinds that the API server does not list.
    pub unreadable_kinds: usize,
}

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
pub use akash_provider_kube_model::inventory::IgnoredResources;
pub(crate) use cluster::ClusterCounters;
pub use cluster::{ClusterStatistics, DriftOutcome, Operation};

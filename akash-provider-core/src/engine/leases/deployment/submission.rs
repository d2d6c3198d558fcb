//! Submitted and accepted manifests.

use crate::cluster;
use crate::engine::input::RequestId;
use crate::manifest::{Hashes, Manifest};
use crate::types::LeaseId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A submitted manifest in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Submission {
    /// Request of the tenant. `None` if the engine submits an accepted manifest again for a new lease.
    pub request: Option<RequestId>,
    /// Manifest with all groups of the deployment.
    pub manifest: Arc<Manifest>,
    /// Hashes of this manifest. The chain must contain one of these hashes.
    pub hashes: Hashes,
}

/// Validated manifest, with a workload specification for each lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AcceptedManifest {
    /// Hash that the chain stores for the manifest.
    pub hash: [u8; 32],
    /// Workload specification of each lease.
    pub deployments: Vec<Arc<cluster::WorkloadSpec>>,
    /// Hostnames that each lease released with this manifest.
    pub purge: Vec<(LeaseId, Vec<String>)>,
}

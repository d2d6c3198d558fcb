//! A manifest on its way to the workloads: sent, and accepted.

use crate::cluster;
use crate::engine::input::RequestId;
use crate::manifest::{Hashes, Manifest};
use crate::types::LeaseId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A manifest that waits to be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Submission {
    /// Who to answer; `None` for one accepted before, sent again for a new lease.
    pub request: Option<RequestId>,
    /// The manifest, with all groups of the deployment.
    pub manifest: Arc<Manifest>,
    /// What its hash on the chain may be.
    pub hashes: Hashes,
}

/// A manifest that passed, lease by lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Accepted {
    /// The manifest's hash on the chain.
    pub hash: [u8; 32],
    /// What each lease is to run.
    pub deployments: Vec<Arc<cluster::WorkloadSpec>>,
    /// Hostnames each lease gave up with it.
    pub purge: Vec<(LeaseId, Vec<String>)>,
}

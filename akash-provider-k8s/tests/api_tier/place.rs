//! Where the tests run: the cluster that `AKASH_TEST_KUBECONFIG` names, or one of the testbed.

use std::path::PathBuf;
use std::sync::Arc;
use testbed::{Cluster, Hold, Tier};

/// The variable that names a cluster by its kubeconfig.
pub(crate) const NAMED: &str = "AKASH_TEST_KUBECONFIG";

/// Runs the work of a test on a runtime of its own.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

/// A cluster.
pub(crate) struct Place {
    pub(crate) kubeconfig: PathBuf,
    /// `None` for a cluster that is not the testbed's.
    pub(crate) testbed: Option<Arc<Cluster>>,
}

impl Place {
    /// `None` where there is none with all that a tier has, which is said.
    pub(crate) fn find(tier: Tier) -> Option<Self> {
        if let Some(named) = std::env::var_os(NAMED) {
            return Some(Self {
                kubeconfig: named.into(),
                testbed: None,
            });
        }
        let testbed = Cluster::from_env(tier).unwrap()?;
        Some(Self {
            kubeconfig: testbed.kubeconfig(),
            testbed: Some(Arc::new(testbed)),
        })
    }

    /// As long as the answer lives nobody breaks parts of the cluster.
    pub(crate) fn shared(&self) -> Option<Hold> {
        let testbed = self.testbed.as_ref()?;
        Some(testbed.shared().unwrap())
    }
}

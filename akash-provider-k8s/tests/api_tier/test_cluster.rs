//! The cluster of the tests: the cluster of `AKASH_TEST_KUBECONFIG`, or a cluster of the testbed.

use std::path::PathBuf;
use std::sync::Arc;
use testbed::{ClusterLock, Testbed, Tier};

pub(crate) const NAMED: &str = "AKASH_TEST_KUBECONFIG";

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

/// Location of a cluster.
pub(crate) struct TestCluster {
    pub(crate) kubeconfig: PathBuf,
    /// The cluster of the testbed, or `None` for a cluster of `AKASH_TEST_KUBECONFIG`.
    pub(crate) testbed: Option<Arc<Testbed>>,
}

impl TestCluster {
    /// Finds a running cluster with all components of the tier. Without such a cluster, prints a message and
    /// returns `None`.
    pub(crate) fn find(tier: Tier) -> Option<Self> {
        if let Some(named) = std::env::var_os(NAMED) {
            return Some(Self {
                kubeconfig: named.into(),
                testbed: None,
            });
        }
        let testbed = Testbed::from_env(tier).unwrap()?;
        Some(Self {
            kubeconfig: testbed.kubeconfig(),
            testbed: Some(Arc::new(testbed)),
        })
    }

    /// Takes the shared lock of the cluster. While the lock is held, no other test breaks the cluster.
    pub(crate) fn shared(&self) -> Option<ClusterLock> {
        let testbed = self.testbed.as_ref()?;
        Some(testbed.shared().unwrap())
    }
}

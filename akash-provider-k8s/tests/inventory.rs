//! The count of capacity on a real API server with its controllers; nodes and pods are objects without a
//! kubelet. `AKASH_TEST_KUBECONFIG` names the cluster, or `AKASH_TESTBED_DIR` the state folder of one; without
//! them every test says that it is skipped.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

#[path = "api_tier/inventory.rs"]
mod inventory;

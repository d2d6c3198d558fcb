//! The count of capacity on a real API server with its controllers; nodes and pods are objects without a
//! kubelet. `AKASH_TEST_KUBECONFIG` names the cluster, or `AKASH_TESTBED_DIR` the state folder of one; without
//! them every test says that it is skipped.

#![expect(clippy::unwrap_used, reason = "a test says what broke and stops")]

#[path = "api_tier/inventory.rs"]
mod inventory;
#[path = "api_tier/place.rs"]
mod place;

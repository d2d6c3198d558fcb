//! The backend on a real node: pods run, write logs, listen on ports and terminate.
//!
//! The tests use the cluster of `AKASH_TEST_KUBECONFIG` or the cluster with the state folder
//! `AKASH_TESTBED_DIR`. Without a cluster each test prints that it was skipped.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed test panics with the reason"
)]

#[path = "node_tier/access.rs"]
mod access;
#[path = "node_tier/isolation.rs"]
mod isolation;
#[path = "node_tier/policies.rs"]
mod policies;
#[path = "node_tier/proxied.rs"]
mod proxied;
#[path = "node_tier/rollouts.rs"]
mod rollouts;
#[path = "node_tier/suite.rs"]
mod suite;
#[path = "node_tier/tenant.rs"]
mod tenant;
#[path = "api_tier/test_cluster.rs"]
mod test_cluster;
#[path = "api_tier/world.rs"]
#[expect(dead_code, reason = "most of the module is used by the API tier only")]
mod world;

//! The backend on a real node: pods run, write, listen and end.
//!
//! `AKASH_TEST_KUBECONFIG` names the cluster, or `AKASH_TESTBED_DIR` the state folder of one; without them every
//! test says that it is skipped.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

#[path = "node_tier/access.rs"]
mod access;
#[path = "node_tier/isolation.rs"]
mod isolation;
#[path = "api_tier/place.rs"]
mod place;
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
#[path = "api_tier/world.rs"]
#[expect(dead_code, reason = "most of it serves the other tier")]
mod world;

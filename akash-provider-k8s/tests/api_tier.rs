//! The backend on a real API server with its controllers, without nodes.
//!
//! Each test has its own provider, its own namespace for records, and its own ServiceAccount with the rights
//! of `deploy/rbac`, so tests run in parallel. A test that breaks parts of the cluster has exclusive access
//! to the cluster. The tests use the cluster of `AKASH_TEST_KUBECONFIG`, the cluster with the state folder
//! `AKASH_TESTBED_DIR`, or the cluster that `cargo xtask cluster up` started in this checkout. Without a
//! cluster each test prints that it was skipped.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed test panics with the reason"
)]

#[path = "api_tier/accepted.rs"]
mod accepted;
#[path = "api_tier/admission.rs"]
mod admission;
#[path = "api_tier/adoption.rs"]
mod adoption;
#[path = "api_tier/apply.rs"]
mod apply;
#[path = "api_tier/at_rest.rs"]
mod at_rest;
#[path = "api_tier/confined.rs"]
mod confined;
#[path = "api_tier/election.rs"]
mod election;
#[path = "api_tier/facets.rs"]
mod facets;
#[path = "api_tier/faults.rs"]
mod faults;
#[path = "api_tier/foreign.rs"]
mod foreign;
#[path = "api_tier/grants.rs"]
mod grants;
#[path = "api_tier/heal.rs"]
mod heal;
#[path = "api_tier/hostname_operator.rs"]
mod hostname_operator;
#[path = "api_tier/infrastructure.rs"]
mod infrastructure;
#[path = "api_tier/inventory.rs"]
mod inventory;
#[path = "api_tier/inventory_operator.rs"]
mod inventory_operator;
#[path = "api_tier/ip_operator.rs"]
mod ip_operator;
#[path = "api_tier/isolation.rs"]
mod isolation;
#[path = "api_tier/listing.rs"]
mod listing;
#[path = "api_tier/missing.rs"]
mod missing;
#[path = "api_tier/records.rs"]
mod records;
#[path = "api_tier/routes.rs"]
mod routes;
#[path = "api_tier/state.rs"]
mod state;
#[path = "api_tier/suite.rs"]
mod suite;
#[path = "api_tier/teardown.rs"]
mod teardown;
#[path = "api_tier/test_cluster.rs"]
mod test_cluster;
#[path = "api_tier/world.rs"]
mod world;

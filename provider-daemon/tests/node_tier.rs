//! The whole program on a real node: leases become pods, components of the cluster fail, the program is
//! killed.
//!
//! `AKASH_TESTBED_DIR` is the state folder of a cluster of the node tier, created by `cargo xtask cluster up
//! --tier node`. Without it each test prints that it was skipped. Each test has exclusive access to the
//! cluster, because the embedded market refuses a cluster with leases of another chain, and some tests break
//! components.
//!
//! The test command runs a short form. Campaigns set the duration of outages (`K8S_OUTAGE_S`), the number of
//! kills (`K8S_KILLS`) and their seed (`K8S_SEED`).

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed test panics with the reason"
)]

#[path = "../gateway/src/tests/any_certificate.rs"]
mod any_certificate;
#[path = "../gateway/src/tests/clients.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of the gateway, which use more of it"
)]
mod clients;
#[path = "node_tier/daemon.rs"]
mod daemon;
#[path = "node_tier/discovery.rs"]
mod discovery;
#[path = "common/environment.rs"]
mod environment;
#[path = "node_tier/fixture.rs"]
mod fixture;
#[path = "node_tier/kills.rs"]
mod kills;
#[path = "node_tier/life.rs"]
mod life;
#[path = "node_tier/live.rs"]
mod live;
#[path = "node_tier/network.rs"]
mod network;
#[path = "node_tier/outages.rs"]
mod outages;
#[path = "common/pty.rs"]
mod pty;
#[path = "node_tier/records.rs"]
mod records;
#[path = "node_tier/refusals.rs"]
mod refusals;
#[path = "node_tier/streams.rs"]
mod streams;
#[path = "node_tier/tenant.rs"]
mod tenant;
#[path = "node_tier/terminal.rs"]
mod terminal;

//! The whole program on a real node: leases become pods, parts of the cluster die, the program is killed.
//!
//! `AKASH_TESTBED_DIR` names the state folder of a cluster of the node tier (`cargo xtask cluster up --tier node`
//! makes one); without it every test says that it is skipped. Each test has the cluster to itself: the embedded
//! market refuses one on which leases of another chain live, and some tests break parts.
//!
//! The test command runs a small form. A campaign says by `K8S_OUTAGE_S`, `K8S_KILLS` and `K8S_SEED` how long
//! outages are, how often the program is killed, and when.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

#[path = "../gateway/src/tests/any_certificate.rs"]
mod any_certificate;
#[path = "../gateway/src/tests/clients.rs"]
#[expect(
    dead_code,
    reason = "the client of the gateway's own tests; these need a part of it"
)]
mod clients;
#[path = "node_tier/corner.rs"]
mod corner;
#[path = "node_tier/daemon.rs"]
mod daemon;
#[path = "common/environment.rs"]
mod environment;
#[path = "node_tier/kills.rs"]
mod kills;
#[path = "node_tier/life.rs"]
mod life;
#[path = "node_tier/live.rs"]
mod live;
#[path = "node_tier/looked_at.rs"]
mod looked_at;
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

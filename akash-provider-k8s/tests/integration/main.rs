//! Tests without a cluster: rendered objects, and the behaviour with a misbehaving API server.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed test panics with the reason"
)]

mod api_server;
mod crds;
mod objects;
mod peer;
mod rights;
mod watches;

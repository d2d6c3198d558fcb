//! Tests without a cluster: comparison with the Go provider, rights, and the behaviour with a misbehaving API server.

#![expect(clippy::unwrap_used, reason = "a failed test panics with the reason")]

mod api_server;
mod peer;
mod rights;
mod watches;

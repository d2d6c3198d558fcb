//! What the crate promises without a cluster: what it renders, and how it speaks to a server that misbehaves.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what broke and stops"
)]

mod api_server;
mod crds;
mod objects;
mod peer;
mod rights;
mod watches;

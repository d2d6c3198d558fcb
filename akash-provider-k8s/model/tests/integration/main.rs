//! Rendered objects, and the conversion of deployments to custom resources.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed test panics with the reason"
)]

mod crds;
mod objects;

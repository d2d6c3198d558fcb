//! From deployments to Kubernetes objects and records: rules, flows, refusals, and what is read back.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what broke and stops"
)]

mod any;
mod evaluate;
mod flows;
mod record;
mod refusals;
mod rules;
mod sdl;

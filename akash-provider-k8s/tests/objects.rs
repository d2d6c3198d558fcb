//! From deployments to Kubernetes objects and records: rules, flows, refusals, and what is read back.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what broke and stops"
)]

#[path = "objects/any.rs"]
mod any;
#[path = "objects/evaluate.rs"]
mod evaluate;
#[path = "objects/flows.rs"]
mod flows;
#[path = "objects/record.rs"]
mod record;
#[path = "objects/refusals.rs"]
mod refusals;
#[path = "objects/rules.rs"]
mod rules;
#[path = "objects/sdl.rs"]
mod sdl;

//! `run`, `tx` and `query` with a node that is really there: a development network on loopback.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what broke and stops"
)]

#[path = "run/chart.rs"]
mod chart;
#[path = "run/life.rs"]
mod life;
#[path = "run/stage.rs"]
mod stage;
#[path = "run/tenant.rs"]
mod tenant;
#[path = "run/trouble.rs"]
mod trouble;
#[path = "run/tx.rs"]
mod tx;

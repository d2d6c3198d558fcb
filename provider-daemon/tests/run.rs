//! `run`, `tx` and `query` with a node that is really there: a development network on loopback.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what broke and stops"
)]

#[path = "../gateway/src/tests/anybody.rs"]
mod anybody;
#[path = "run/breaker.rs"]
mod breaker;
#[path = "run/certificates.rs"]
mod certificates;
#[path = "run/chart.rs"]
mod chart;
#[path = "run/deploying.rs"]
mod deploying;
#[path = "run/descriptors.rs"]
mod descriptors;
#[path = "run/door.rs"]
mod door;
#[path = "common/environment.rs"]
mod environment;
#[path = "run/explain.rs"]
mod explain;
#[path = "run/first_steps.rs"]
mod first_steps;
#[path = "run/life.rs"]
mod life;
#[path = "run/outside.rs"]
mod outside;
#[path = "run/served.rs"]
mod served;
#[path = "run/stage.rs"]
mod stage;
#[path = "run/start.rs"]
mod start;
#[path = "run/tenant.rs"]
mod tenant;
#[path = "run/terminal.rs"]
mod terminal;
#[path = "run/trouble.rs"]
mod trouble;
#[path = "run/tx.rs"]
mod tx;
#[path = "run/websocket.rs"]
mod websocket;

//! The tenant's commands against providers that are really there: ours, and the answers of another one.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what broke and stops"
)]

#[path = "../gateway/src/tests/anybody.rs"]
mod anybody;
#[path = "../gateway/src/tests/clients.rs"]
#[expect(
    dead_code,
    reason = "the client of the gateway's own tests; these need a part of it"
)]
mod clients;
#[path = "tenant/commands.rs"]
mod commands;
#[path = "tenant/credentials.rs"]
mod credentials;
#[path = "tenant/dev.rs"]
mod dev;
#[path = "common/environment.rs"]
mod environment;
#[path = "tenant/follow.rs"]
mod follow;
#[path = "tenant/manifest.rs"]
mod manifest;
#[path = "tenant/other.rs"]
mod other;
#[path = "tenant/processes.rs"]
mod processes;
#[path = "common/pty.rs"]
mod pty;
#[path = "tenant/replay.rs"]
mod replay;
#[path = "tenant/shell.rs"]
mod shell;
#[path = "tenant/stage.rs"]
mod stage;
#[path = "tenant/waiting.rs"]
mod waiting;

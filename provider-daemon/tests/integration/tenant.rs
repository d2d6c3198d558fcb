//! Tenant commands with real providers and with recorded responses of the Go provider.

mod commands;
mod credentials;
mod dev;
mod follow;
mod manifest;
mod other;
mod processes;
mod replay;
mod shell;
mod stage;
mod waiting;

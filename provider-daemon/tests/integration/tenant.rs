//! The tenant's commands against providers that are really there: ours, and the answers of another one.

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

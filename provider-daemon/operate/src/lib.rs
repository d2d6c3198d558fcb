//! Commands for the operator of a provider: settings, checks, keys, queries, transactions, and the control of a
//! running provider.
//!
//! ```text
//!  config, doctor, migrate, explain, price, tools ── files, chain, cluster and machine of a provider
//!  keys, query, events, tx, bus, sdl              ── chain and bus
//!  operator ── requests to a running provider, over the socket in its home directory
//!  operators ── runs an operator of the cluster, or sends a command to a running one
//! ```

pub mod args;
pub mod bus;
pub mod chain_json;
pub mod config;
pub mod doctor;
pub mod events;
pub mod explain;
mod hardware;
pub mod keys;
pub mod migrate;
pub mod operator;
pub mod operators;
pub mod price;
pub mod query;
pub mod sdl;
pub mod state;
pub mod tools;
pub mod tx;

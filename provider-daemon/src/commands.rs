//! Commands of the program, one module each.

mod bids;
pub mod bus;
pub mod completions;
pub mod config;
pub mod dev;
pub mod devnet;
pub mod doctor;
pub mod explain;
mod faults;
pub mod keys;
pub mod migrate;
pub mod price;
pub mod query;
pub mod run;
pub(crate) mod run_config;
pub mod sdl;
pub mod state;
pub mod tools;
pub mod tx;

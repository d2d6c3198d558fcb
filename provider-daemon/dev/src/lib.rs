//! Commands for development: an embedded market with simulated tenants, and a development network.
//!
//! ```text
//!  dev ───── world ── a chain with blocks, tenants with orders, a cluster, and the real provider
//!    │         ├ link      connects the provider to the market, in memory or over the protocols of a node
//!    │         └ state     stores the market between runs
//!    ├───── tenant ── deploys, updates and closes SDLs
//!    ├───── load   ── generates orders
//!    └───── gateway ── serves tenants
//!  devnet ── serves a market over the protocols of a node, or acts as a tenant on such a network
//! ```

pub mod args;
mod capacity_queue;
pub mod dev;
pub mod devnet;
mod gateway;
mod link;
mod load;
mod node;
mod processes;
mod remedy;
mod state;
mod tenant;
mod totals;
mod world;

pub use gateway::DevGateway;
pub use link::Link;
pub use state::MarketFile;
pub use tenant::{DeploymentResult, SimulatedTenant};
pub use world::World;

use capacity_queue::CapacityQueue;
use totals::TenantTotals;

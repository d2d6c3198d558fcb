//! Embedded market for development: a chain with blocks, tenants with orders, an in-memory cluster, and the real
//! provider.

pub mod capacity_queue;
pub mod gateway;
pub mod link;
pub mod load;
mod node;
pub mod processes;
pub mod remedy;
pub mod state;
pub mod tenant;
pub mod totals;
pub mod world;

pub use capacity_queue::CapacityQueue;
pub use gateway::DevGateway;
pub use link::Link;
pub use state::MarketFile;
pub use tenant::{DeploymentResult, SimulatedTenant};
pub use totals::TenantTotals;
pub use world::World;

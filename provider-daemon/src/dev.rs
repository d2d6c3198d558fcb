//! Embedded market for development: a chain with blocks, tenants with orders, an in-memory cluster, and the real
//! provider.

pub mod backend;
pub mod capacity_queue;
pub mod gateway;
pub mod kubernetes;
pub mod link;
pub mod load;
pub mod names;
mod node;
pub mod output;
pub mod processes;
pub mod remedy;
pub mod state;
pub mod tenant;
pub mod totals;
pub mod world;

pub use backend::Backend;
pub use capacity_queue::CapacityQueue;
pub use gateway::DevGateway;
pub use kubernetes::Kubernetes;
pub use link::Link;
pub use output::Printer;
pub use processes::Processes;
pub use state::StateFile;
pub use tenant::{Outcome, Tenant};
pub use totals::Totals;
pub use world::World;
pub(crate) use world::{most_volumes, widest_reclamation};

//! An embedded market to develop against: a chain with blocks, tenants who order, a cluster in memory, and the
//! real provider between them.

pub mod backend;
pub mod gateway;
pub mod kubernetes;
pub mod link;
pub mod load;
pub mod mend;
pub mod names;
mod node;
pub mod output;
pub mod processes;
pub mod state;
pub mod tenant;
pub mod totals;
pub mod turns;
pub mod world;

pub use backend::Backend;
pub use gateway::DevGateway;
pub use kubernetes::Kubernetes;
pub use link::Link;
pub use output::Printer;
pub use processes::Processes;
pub use state::StateFile;
pub use tenant::{Outcome, Tenant};
pub use totals::Totals;
pub use turns::Turns;
pub use world::World;
pub(crate) use world::{most_volumes, widest_reclamation};

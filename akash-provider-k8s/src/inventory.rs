//! Capacity of a Kubernetes cluster, counted from its nodes and pods.
//!
//! ```text
//! objects ─ facts ─► tally ─ snapshot ─► NodeInventory, placements
//! ```
//!
//! Nothing but the API server is asked. Of every object only the few fields that count are kept. Pods of our
//! leases are not counted as use, because their reservations are; they say on which node a replica is. Every
//! other pod takes what the scheduler counts for it.

mod facts;
pub(crate) mod gpu;
mod lease;
pub(crate) mod node;
mod pod;
pub(crate) mod quantity;
mod requests;
mod source;
mod storage;
mod tally;
mod watch;

pub use facts::{Change, Fact, Key, Kind};
pub use gpu::Vendor;
pub use lease::LeaseFacts;
pub use node::NodeFacts;
pub use pod::PodFacts;
pub use requests::{Requests, pod_requests};
pub(crate) use source::WholeInventory;
pub use source::{KubeInventory, Options};
pub use storage::{CapacityFacts, CephClusterFacts, CephPoolFacts, ClassFacts, StorageOptions, VolumeFacts};
pub use tally::{Snapshot, Tally};
#[cfg(test)]
pub(crate) use watch::{NodeParts, PodParts};

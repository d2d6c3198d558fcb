//! Capacity of a Kubernetes cluster.
//!
//! ```text
//! objects ─ facts ─► tally ─ snapshot ─► NodeInventory, placements
//! ```
//!
//! The API server is the only source. Only the fields that the count uses are stored. Pods of the provider's
//! own leases do not count as use, because their resources are already counted as reservations. These pods
//! only show on which nodes the replicas run. Every other pod counts with the requests that the scheduler
//! counts.

mod facts;
pub(crate) mod gpu;
mod lease;
pub(crate) mod node;
mod options;
mod pod;
pub(crate) mod quantity;
mod reason;
mod requests;
mod shared;
mod source;
mod storage;
mod tally;
pub(crate) mod vendor;
mod watch;

pub use facts::{FactChange, InventoryKind, NamespacedName, ObjectFacts};
pub use lease::LeaseFacts;
pub use node::NodeFacts;
pub use options::CapacityOptions;
pub use pod::PodFacts;
pub use requests::{Requests, pod_requests};
pub use shared::InventoryWatch;
pub use source::KubeInventory;
pub(crate) use source::WholeInventory;
pub use storage::{CapacityFacts, CephClusterFacts, CephPoolFacts, ClassFacts, StorageOptions, VolumeFacts};
pub use tally::{CapacityCount, Tally};
pub use vendor::Vendor;

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

mod addresses;
mod facts;
mod gpu;
mod lease;
mod node;
mod options;
mod pod;
mod quantity;
mod reason;
mod requests;
mod served;
mod shared;
mod source;
mod storage;
mod tally;
mod vendor;
mod watch;

pub use facts::{FactChange, InventoryKind, NamespacedName, ObjectFacts};
pub use gpu::source_labels::{AMD_DEVICE_ID, PCI_PREFIX, PciGpu, UnnamedGpu, pci_gpus};
pub use gpu::vendor_labels::gpu_of_vendor;
pub use lease::LeaseFacts;
pub use node::NodeFacts;
pub use options::CapacityOptions;
pub use pod::PodFacts;
pub use quantity::{milli, whole};
pub use requests::{Requests, pod_requests};
pub use served::OperatorFeed;
pub use shared::InventoryWatch;
pub use source::{CountHandle, KubeInventory, WholeInventory};
pub use storage::{CapacityFacts, CephClusterFacts, CephPoolFacts, ClassFacts, StorageOptions, VolumeFacts};
pub use tally::{CapacityCount, IgnoredResources, Tally};
pub use vendor::{PREFIX as GPU_PREFIX, Vendor};

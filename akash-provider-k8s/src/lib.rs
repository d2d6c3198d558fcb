//! Kubernetes as the compute backend of an Akash provider.
//!
//! ```text
//! Deployment ─ objects ─► Kubernetes objects ─ apply ─► API server ─ watches ─► state ─► health, status
//! ```

pub mod access;
pub mod adopt;
pub mod apply;
pub mod audit;
pub mod cluster;
mod drift;
pub mod election;
mod hostnames;
pub mod infrastructure;
mod leased_ips;
pub mod rights;
pub mod state;
pub mod statistics;

pub use akash_provider_kube_kernel::{error, labels, task, write_client};
pub use akash_provider_kube_model::{inventory, settings};

/// Guide to embedding a provider. The tests of this crate compile the examples.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
pub struct EmbeddingGuide;

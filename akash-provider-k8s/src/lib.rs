//! Kubernetes as the compute backend of an Akash provider.
//!
//! ```text
//! Deployment ─ objects ─► Kubernetes objects ─ apply ─► API server ─ watches ─► state ─► health, status
//! ```

pub mod apply;
pub mod crd;
pub mod error;
pub mod labels;
pub mod objects;
pub mod settings;
pub mod state;

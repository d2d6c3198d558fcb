//! The hostname operator: from declared hostnames to routes.
//!
//! ```text
//! ProviderHosts ┐                     ┌─ wanted, written, accepted ─► status
//! Manifests     ├─ watches ─► index ──┤
//! routes        ┘     ▲               └─ work ─► queue ─► writer ─► API server
//!                     └────────────── what was written ◄────┘
//! ```
//!
//! [`facts`] reads records, [`index`] says what is to be done, and neither has a clock or a network.

pub mod facts;
pub mod index;
pub mod live;
pub mod route;

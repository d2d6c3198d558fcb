//! Custom resources of the Akash network (`akash.network/v2beta2`), in the format that this provider and the Go
//! provider read and write.

pub mod convert;
mod definitions;
mod manifest;
pub mod notes;
mod provider_host;
mod provider_leased_ip;

pub use definitions::definitions;
pub use manifest::*;
pub use provider_host::*;
pub use provider_leased_ip::*;

/// API group of the custom resources.
pub const GROUP: &str = "akash.network";
/// Version of the custom resources that the API server serves and stores.
pub const VERSION: &str = "v2beta2";

//! Custom resources of the network (`akash.network/v2beta2`), as both providers read and write them.

pub mod convert;
mod definitions;
mod manifest;
mod provider_host;
mod provider_leased_ip;

pub use definitions::definitions;
pub use manifest::*;
pub use provider_host::*;
pub use provider_leased_ip::*;

/// API group of the custom resources.
pub const GROUP: &str = "akash.network";
/// Served and stored version.
pub const VERSION: &str = "v2beta2";

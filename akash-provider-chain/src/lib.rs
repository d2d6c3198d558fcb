//! The Akash chain as a provider sees it: events, queries, transactions, keys, certificates.

pub mod convert;
mod endpoint;
pub mod endpoints;
mod events;
mod fault;
#[cfg(test)]
mod fixtures;
mod grpc;
mod limits;
pub mod method;
pub mod proto;
mod query;
mod reader;
mod rpc;
#[cfg(test)]
mod testing;
mod tls;

pub use endpoint::{BadEndpoint, Versions};
pub use events::{FollowerStatus, HeightStore, MalformedEvent, MemoryHeights, Settings, Source};
pub use fault::{Blame, Fault, NodeError};
pub use limits::Limits;
pub use query::Listing;
pub use reader::{Reader, ReaderStatus};

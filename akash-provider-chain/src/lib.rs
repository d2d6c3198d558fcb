//! The Akash chain as a provider sees it: events, queries, transactions, keys, certificates.

pub mod convert;
mod endpoint;
mod fault;
mod grpc;
mod limits;
pub mod method;
pub mod proto;
mod rpc;
mod tls;

pub use endpoint::{BadEndpoint, Versions};
pub use fault::{Blame, Fault, NodeError};
pub use limits::Limits;

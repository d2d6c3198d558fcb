//! Akash chain client for providers: events, queries, transactions, keys and certificates.
//!
//! | module | content |
//! |---|---|
//! | [`proto`], [`method`] | messages of the network, and the query path of each request |
//! | [`convert`] | conversions between these messages and the types of the core |
//! | [`endpoints`] | pool of nodes: health checks, fail-over, confirmation by a second node |
//! | [`Reader`] | queries and events: `ChainQuery` and `ChainEvents` of the core |
//! | [`keyring`], [`private_key`] | keys in the keyring format of the Go tools, and signatures |
//! | [`signer`], [`gas`] | encoding, signing and cost of transactions |
//! | [`tx`] | transactions that are included once, with a known outcome: `ChainTx` of the core |
//! | [`AkashClient`] | complete client: `ChainClient` of the core |
//! | [`cert`] | generation, parsing, publication and rotation of certificates |
//!
//! ```no_run
//! use akash_provider_chain::endpoints::Endpoints;
//! use akash_provider_chain::{EndpointLimits, Reader};
//! use akash_provider_core::chain::{ChainEvents, ChainQuery};
//! use futures::StreamExt;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let addresses = ["https://node.example:443", "http://localhost:26657", "grpc://localhost:9090"];
//! let chain = Reader::new(Endpoints::new(&addresses, "akashnet-2", EndpointLimits::default())?);
//! let us = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse()?;
//! println!("{:?}", chain.provider(&us).await?);
//! let mut events = chain.subscribe(&us);
//! while let Some(event) = events.next().await {
//!     println!("{:?}", event?);
//! }
//! # Ok(()) }
//! ```

pub mod cert;
mod checkpoint;
mod client;
mod connection;
pub mod convert;
mod endpoint;
pub mod endpoints;
mod events;
mod fault;
pub mod gas;
mod grpc;
pub mod keyring;
mod limits;
mod lock;
pub mod method;
pub mod private_file;
pub mod private_key;
pub mod proto;
mod query;
mod raw;
mod reader;
pub mod regular_file;
mod repeated;
mod rpc;
mod sequence;
pub mod signer;
#[cfg(test)]
mod testing;
mod tls;
pub mod tx;

pub use checkpoint::Checkpoint;
pub use client::{AkashClient, ClientSettings, ClientStatistics, ClientStatus};
pub use endpoint::{BadEndpoint, Versions, fetch_chain_id, redact_address};
pub use events::{BlockSource, FollowerSettings, FollowerStatus, HeightStore, MalformedEvent};
pub use fault::{Blame, Fault, NodeError};
pub use limits::EndpointLimits;
pub use query::ChainListing;
pub use raw::Raw;
pub use reader::{Reader, ReaderStatus};
pub use tls::Roots;

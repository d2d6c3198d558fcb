//! The Akash chain as a provider sees it: events, queries, transactions, keys, certificates.
//!
//! | room | what it does |
//! |---|---|
//! | [`proto`], [`method`] | the network's messages, and which query each request asks |
//! | [`convert`] | between them and the provider's own types; the one room that knows both |
//! | [`endpoints`] | several nodes as one: health, fail-over, a second opinion |
//! | [`Reader`] | queries and events over them: `ChainQuery` and `ChainEvents` of the core |
//! | [`keyring`], [`private_key`] | keys as the Go tool keeps them, and what they sign |
//! | [`signer`], [`gas`] | a transaction from its parts: bytes and cost |
//! | [`tx`] | each message sent once, with a known end: `ChainTx` of the core |
//! | [`AkashClient`] | reading and sending as one: the whole `ChainClient` of the core |
//! | [`cert`] | certificates: made, read, published, rotated |
//!
//! ```no_run
//! use akash_provider_chain::endpoints::Endpoints;
//! use akash_provider_chain::{Limits, Reader};
//! use akash_provider_core::chain::{ChainEvents, ChainQuery};
//! use futures::StreamExt;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let addresses = ["https://node.example:443", "http://localhost:26657", "grpc://localhost:9090"];
//! let chain = Reader::new(Endpoints::new(&addresses, "akashnet-2", Limits::default())?);
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
mod private_file;
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
pub use client::{AkashClient, ClientSettings, ClientStatus};
pub use endpoint::{BadEndpoint, Versions, chain_id_at, shown_address};
pub use events::{FollowerStatus, HeightStore, MalformedEvent, Settings, Source};
pub use fault::{Blame, Fault, NodeError};
pub use limits::Limits;
pub use query::Listing;
pub use raw::Raw;
pub use reader::{Reader, ReaderStatus};
pub use tls::Roots;

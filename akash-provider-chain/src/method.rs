//! Queries of the Akash network: request type, response type and path.

use prost::Message;

/// Request message of a query method, with its response type and its path. The path is the same for gRPC and
/// `abci_query`.
pub trait Method: Message {
    /// Response message.
    type Response: Message + Default + Send + 'static;
    /// Path, in the form `/package.Service/Method`.
    const PATH: &'static str;
}

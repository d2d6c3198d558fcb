//! Queries of the Akash network: request type, response type and path.

use prost::Message;

/// Request message of a query method. Each request type defines its response type and the path of the method.
///
/// The path is the same for gRPC and for `abci_query`.
pub trait Method: Message {
    /// Response message.
    type Response: Message + Default + Send + 'static;
    /// Path, in the form `/package.Service/Method`.
    const PATH: &'static str;
}

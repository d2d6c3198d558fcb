//! Queries as the network names them: a request, the response it gets, and the path it is sent to.

use prost::Message;

/// A request message of a query service.
///
/// The path is the same for gRPC and for `abci_query`.
pub trait Method: Message {
    /// What the node answers.
    type Response: Message + Default + Send + 'static;
    /// `/package.Service/Method`, with the slash in front.
    const PATH: &'static str;
}

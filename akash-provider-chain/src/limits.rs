//! Limits for responses of nodes.

use std::time::Duration;

/// Limits for queries: sizes, times and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a response or a websocket message, in bytes. A page of 1000 orders has about 1 MiB. A full
    /// block with its results stays below 16 MiB.
    pub response_bytes: usize,
    /// Maximum time for a response.
    pub response_time: Duration,
    /// Maximum time for connecting, and for a health check of an endpoint.
    pub connect_time: Duration,
    /// Maximum number of concurrent requests to one endpoint. Further requests wait.
    pub requests: usize,
    /// Number of records per page.
    pub page: u32,
    /// Maximum number of records in a complete list. A longer list is an error, and is not truncated.
    pub listing: usize,
    /// Maximum age of the health of an endpoint before the next health check.
    pub health_age: Duration,
    /// Maximum number of attempts for one request.
    pub attempts: u32,
    /// Maximum age of a value that only one node returned, such as parameters and block times. The value is then read
    /// again, so a false value is replaced soon after the node stops returning it.
    pub single_age: Duration,
    /// Time after which a contradicted height is dropped: nodes have contradicted the processed height, and none has
    /// reached it. Long enough for a node to restart and confirm the height.
    pub contradiction: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            response_bytes: 32 << 20,
            response_time: Duration::from_secs(15),
            connect_time: Duration::from_secs(5),
            requests: 32,
            page: 1000,
            listing: 200_000,
            health_age: Duration::from_secs(20),
            attempts: 6,
            single_age: Duration::from_secs(10),
            contradiction: Duration::from_secs(5),
        }
    }
}

//! Limits for responses of nodes.

use std::time::Duration;

/// Limits for requests to nodes: sizes, times and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointLimits {
    /// Maximum size of a response or a websocket message, in bytes. A full block with its results has less
    /// than 16 MiB.
    pub response_bytes: usize,
    /// Maximum time for a response.
    pub response_time: Duration,
    /// Maximum time for connecting, and for a health check of an endpoint.
    pub connect_time: Duration,
    /// Maximum number of concurrent requests to one endpoint. Further requests wait for a free slot.
    pub requests: usize,
    /// Number of records that are requested per page.
    pub page: u32,
    /// Maximum number of records in a complete list. A longer list causes an error.
    pub listing: usize,
    /// Maximum age of a health check. If the last check of an endpoint is older, the next request starts a
    /// new check.
    pub health_age: Duration,
    /// Maximum number of attempts for one request, including the first attempt.
    pub attempts: u32,
    /// Maximum age of a value that only one node returned, such as market parameters. An older value is
    /// queried again.
    pub single_age: Duration,
    /// Time for which nodes must contradict the processed block before the block is dropped.
    pub contradiction: Duration,
}

impl Default for EndpointLimits {
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

//! Limits on everything that comes from a node.

use std::time::Duration;

/// How much and how long is allowed when nodes are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one answer or one websocket message. A page of a thousand orders has about one MiB; a full
    /// block with its results stays below sixteen.
    pub answer_bytes: usize,
    /// Time for one answer.
    pub answer_time: Duration,
    /// Time to connect; a look at an endpoint's health takes no longer either.
    pub connect_time: Duration,
    /// Questions under way at one endpoint; more wait.
    pub questions: usize,
    /// Records of a page.
    pub page: u32,
    /// Records of a whole listing; more is an error, not a truncated list.
    pub listing: usize,
    /// How long a reading of an endpoint's health is good.
    pub health_age: Duration,
    /// Times one question is asked before it is given up.
    pub attempts: u32,
    /// Time for which a value is used that one node alone gave, such as parameters and block times. Then the value is
    /// read again, so a false one is replaced soon after the node stops giving it.
    pub single_age: Duration,
    /// A processed height is dropped when nodes have contradicted it for this time and none has reached it: long enough
    /// for a node that restarts to come back and confirm it.
    pub contradiction: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answer_bytes: 32 << 20,
            answer_time: Duration::from_secs(15),
            connect_time: Duration::from_secs(5),
            questions: 32,
            page: 1000,
            listing: 200_000,
            health_age: Duration::from_secs(20),
            attempts: 6,
            single_age: Duration::from_secs(10),
            contradiction: Duration::from_secs(5),
        }
    }
}

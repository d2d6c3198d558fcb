//! Settings and status of the event follower.

use super::block::BlockTx;
use super::decode::MalformedEvent;
use akash_provider_core::types::{BlockTime, Height};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Settings of the event follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowerSettings {
    /// Interval of pings, shorter than the idle timeouts of proxies.
    pub ping_interval: Duration,
    /// Maximum time without a message from the node. After this time, the client closes the connection. The
    /// default is three ping intervals.
    pub read_deadline: Duration,
    /// Interval of polling while no websocket is open: a third of a block interval.
    pub poll_interval: Duration,
    /// Duration of polling before the next attempt to open a websocket.
    pub poll_for: Duration,
    /// Maximum wait for a new block. After this time, the follower queries a node for the newest block.
    pub silence: Duration,
    /// Maximum time without a response from any node. After this time, the follower reports an outage.
    pub outage: Duration,
    /// Maximum number of missing blocks that are fetched one by one. If more blocks are missing, a `Resync`
    /// follows.
    pub gap_max: u64,
    /// Minimum time between two `Resync` events, except after an outage. This pause limits the load that a
    /// faulty node can cause.
    pub resync_pause: Duration,
    /// Number of blocks that are fetched concurrently.
    pub parallel: usize,
    /// Back-off before the second retry of a connection or request, doubled after each further retry. The
    /// first retry has no back-off.
    pub wait_min: Duration,
    /// Maximum back-off before a retry. The default is a sixth of a block interval.
    pub wait_max: Duration,
}

impl Default for FollowerSettings {
    fn default() -> Self {
        Self {
            ping_interval: Duration::from_secs(2),
            read_deadline: Duration::from_secs(6),
            poll_interval: Duration::from_secs(2),
            poll_for: Duration::from_secs(60),
            silence: Duration::from_secs(30),
            outage: Duration::from_secs(60),
            gap_max: 2000,
            resync_pause: Duration::from_secs(10),
            parallel: 16,
            wait_min: Duration::from_millis(200),
            wait_max: Duration::from_secs(1),
        }
    }
}

/// Current source of blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BlockSource {
    /// No source, because no connection is open.
    #[default]
    None,
    /// Websocket of this endpoint.
    Websocket(Arc<str>),
    /// Polling, because no websocket is available.
    Polling,
}

/// Status of the event follower.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FollowerStatus {
    /// Height of the newest block that was reported to the receiver; 0 before the first block.
    pub height: Height,
    /// Time of the newest block that was reported to the receiver.
    pub time: BlockTime,
    /// Current source of blocks.
    pub source: BlockSource,
    /// Start of the current period without new blocks, or `None` while blocks arrive.
    pub silent_since: Option<SystemTime>,
    /// Number of blocks that were reported to the receiver.
    pub blocks: u64,
    /// Number of blocks that were fetched by polling, because no websocket was available.
    pub polled: u64,
    /// Number of blocks that were fetched because the open websocket did not deliver them.
    pub missed: u64,
    /// Number of fetched blocks that were created before the websocket was connected.
    pub replayed: u64,
    /// Number of blocks that were not reported one by one, because a `Resync` replaced them.
    pub skipped: u64,
    /// Number of `Resync` events that were sent to the receiver.
    pub resyncs: u64,
    /// Reason of the last `Resync`.
    pub last_resync: Option<String>,
    /// Number of websocket connections that were opened.
    pub connections: u64,
    /// Number of malformed chain events. Events that concern only other providers are not counted.
    pub malformed: u64,
    /// Newest malformed chain event that was counted in `malformed`.
    pub last_malformed: Option<MalformedEvent>,
    /// Last error of a request or a connection of the follower.
    pub last_error: Option<String>,
}

impl FollowerStatus {
    /// Returns the number of blocks that the client fetched. Blocks from the websocket are not counted.
    #[must_use]
    pub const fn fetched(&self) -> u64 {
        self.polled + self.missed + self.replayed
    }
}

/// Observer of blocks. Implementations must return quickly and must not block.
pub(crate) trait BlockObserver: fmt::Debug + Send + Sync + 'static {
    /// Receives a block. `is_newest` is true if no node has reported a later block. `txs` is `None` if the
    /// transactions are unknown.
    fn observe(&self, height: Height, time: BlockTime, is_newest: bool, txs: Option<Vec<BlockTx>>);
}

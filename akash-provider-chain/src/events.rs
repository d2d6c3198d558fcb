//! Following the chain: [`ChainEvents`] over a set of endpoints.
//!
//! ```text
//!            ┌────────────────────────────── gap too large, pruned, or an outage ──┐
//!            ▼                                                                     │
//!   snapshot at height a ──► Resync ──► a+1, a+2, … in order, each from            │
//!            ▲                            the websocket, or, where it has a hole,  │
//!            │                            from block_results or tx_search ─────────┘
//!            └ asked again, with growing waits, while no node answers
//! ```
//!
//! No block is told twice or left out between two `Resync`. Where the node serves no pinned height the
//! snapshot may hold later things already; the events after its height are told all the same and lead to the
//! same state.
//!
//! An event that cannot be read may have been a fact: it is reported with its place, the rest of the block is told,
//! and a `Resync` makes good what was lost.

mod block;
mod decode;
mod follow;
mod heights;
mod poll;
#[cfg(test)]
mod tests;
mod websocket;

use crate::lock::lock;
use crate::reader::Reader;
use akash_provider_core::chain::ChainEvents;
use akash_provider_core::error::Error;
use akash_provider_core::types::{Address, BlockTime, ChainEvent, Height};
pub(crate) use block::SeenTx;
pub use decode::MalformedEvent;
use futures::stream::{BoxStream, StreamExt};
pub use heights::HeightStore;
pub(crate) use heights::MemoryHeights;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// Events that wait for a reader. More wait at the node, and what the node drops is asked for again.
const QUEUE: usize = 1024;

/// How the chain is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Time between pings; shorter than the idle limits of proxies.
    pub ping_interval: Duration,
    /// A connection that says nothing for so long, not even an answer to one of three pings, is dead.
    pub read_deadline: Duration,
    /// Time between questions where there is no websocket: a third of a block.
    pub poll_interval: Duration,
    /// How long polling goes on before a websocket is tried again.
    pub poll_for: Duration,
    /// Without a new block for so long every node is asked whether it has one.
    pub silence: Duration,
    /// Without a word from any node for so long the follower says so.
    pub outage: Duration,
    /// Most blocks that are fetched one by one; a larger gap is answered by a `Resync`. About three hours.
    pub gap_max: u64,
    /// Minimum time between two `Resync`, except after an outage. A node that pushes false heights or malformed events
    /// must not cause a full reading with each block.
    pub resync_pause: Duration,
    /// Blocks fetched at the same time.
    pub parallel: usize,
    /// After a failure the first try comes at once; this is the wait before the second, and it doubles.
    pub wait_min: Duration,
    /// Longest wait: a sixth of a block, so that the link's return is found within the block.
    pub wait_max: Duration,
}

impl Default for Settings {
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

/// How blocks are had at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    /// Not at all: nothing has been opened yet, or what was open has ended.
    #[default]
    None,
    /// Pushed by this endpoint.
    Websocket(Arc<str>),
    /// By asking every `poll_interval`, for want of a websocket.
    Polling,
}

/// How the chain is followed, as values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FollowerStatus {
    /// Newest height told; 0 before anything was.
    pub height: Height,
    /// Its time; the age of the chain is the difference to now.
    pub time: BlockTime,
    /// How blocks are had.
    pub source: Source,
    /// Since when blocks are missing: the connection ended and no block has come since, no node can be asked, or
    /// all that can be asked have had no new block for longer than the limit of silence. `None` while they come.
    pub silent_since: Option<SystemTime>,
    /// Blocks told since the client was made.
    pub blocks: u64,
    /// Blocks that were not pushed and had to be asked for.
    pub fetched: u64,
    /// Times the whole present was told.
    pub resyncs: u64,
    /// Why the last time.
    pub last_resync: Option<String>,
    /// Connections that were opened.
    pub connections: u64,
    /// Events that could not be read.
    pub malformed: u64,
    /// The last of them.
    pub last_malformed: Option<MalformedEvent>,
    /// The last thing that went wrong.
    pub last_error: Option<String>,
}

/// Sees the blocks as they are told. It must be quick and must not wait.
pub(crate) trait Witness: fmt::Debug + Send + Sync + 'static {
    /// A block is told. `is_newest` when no node is known to have a later one; `txs` are all its transactions, where
    /// they are known.
    fn saw(&self, height: Height, time: BlockTime, is_newest: bool, txs: Option<Vec<SeenTx>>);
}

impl ChainEvents for Reader {
    fn subscribe(&self, provider: &Address) -> BoxStream<'static, Result<ChainEvent, Error>> {
        let (out, events) = mpsc::channel(QUEUE);
        let follower = follow::Follower::new(self.clone(), provider.clone(), out);
        let task = tokio::spawn(follower.run());
        // The task ends when the stream is dropped: nothing can be told any more.
        let stream = futures::stream::unfold((events, task), |(mut events, task)| async move {
            events.recv().await.map(|event| (event, (events, task)))
        });
        stream.boxed()
    }
}

impl Reader {
    pub(crate) fn note<R>(&self, change: impl FnOnce(&mut FollowerStatus) -> R) -> R {
        change(&mut lock(&self.following))
    }
}

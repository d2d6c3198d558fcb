//! Event follower: implements [`ChainEvents`] with a pool of endpoints.
//!
//! ```text
//!            ┌────────────────────────────── gap too large, pruned, or an outage ──┐
//!            ▼                                                                     │
//!   snapshot at height a ──► Resync ──► a+1, a+2, … in order, each from            │
//!            ▲                            the websocket or, after a gap,           │
//!            │                            from block_results or tx_search ─────────┘
//!            └ retried with a back-off while no node responds
//! ```
//!
//! Between two `Resync` events, every block is reported exactly once. A node that cannot serve a state by
//! height may return a snapshot that contains later changes. The events after the height of the snapshot are
//! then reported too. A receiver that processes these events again reaches the same state.
//!
//! Each block contains the hash of the previous block. If this hash does not match the last reported block, a
//! node served a false chain, and a `Resync` follows.
//!
//! A malformed event may be relevant for the provider. For this reason, its position is reported, and a
//! `Resync` restores the missing state after the other events of the block were processed.

mod block;
mod decode;
mod feed;
mod follow;
pub(crate) mod heights;
mod poll;
pub(crate) mod status;
#[cfg(test)]
mod tests;
mod websocket;

use crate::lock::lock;
use crate::reader::Reader;
use akash_provider_core::chain::ChainEvents;
use akash_provider_core::error::Error;
use akash_provider_core::types::{Address, ChainEvent};
pub(crate) use block::BlockTx;
pub use decode::MalformedEvent;
use futures::stream::{BoxStream, StreamExt};
pub use heights::HeightStore;
pub(crate) use heights::MemoryHeights;
pub(crate) use status::BlockObserver;
pub use status::{BlockSource, FollowerSettings, FollowerStatus};
use tokio::sync::mpsc;

/// Capacity of the channel to the receiver, in events. A slow receiver delays the follower.
const QUEUE: usize = 1024;

impl ChainEvents for Reader {
    fn subscribe(&self, provider: &Address) -> BoxStream<'static, Result<ChainEvent, Error>> {
        let (out, events) = mpsc::channel(QUEUE);
        let follower = follow::Follower::new(self.clone(), provider.clone(), out);
        let task = tokio::spawn(follower.run());
        // The task ends with the stream, because its events have no receiver any more.
        let stream = futures::stream::unfold((events, task), |(mut events, task)| async move {
            events.recv().await.map(|event| (event, (events, task)))
        });
        stream.boxed()
    }
}

impl Reader {
    pub(crate) fn update_status<R>(&self, change: impl FnOnce(&mut FollowerStatus) -> R) -> R {
        change(&mut lock(&self.following))
    }
}

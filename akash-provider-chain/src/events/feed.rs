//! Sources of blocks: a websocket, or polling.

use super::block::Block;
use super::poll::Poll;
use super::status::{BlockSource, FollowerStatus};
use super::websocket::BlockSubscription;
use akash_provider_core::types::Height;
use tokio::time::Instant;

pub(super) enum FeedItem {
    Block(Box<Block>),
    Tip(Height),
}

pub(super) enum Feed {
    Socket(Box<BlockSubscription>),
    Poll(Poll, Instant),
}

impl Feed {
    pub(super) fn source(&self) -> BlockSource {
        match self {
            Self::Socket(socket) => BlockSource::Websocket(socket.endpoint()),
            Self::Poll(..) => BlockSource::Polling,
        }
    }
}

/// Reason why a block is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fetch {
    /// No websocket is available.
    Polled,
    /// The node of the websocket did not push the block.
    Missed,
    /// The block was created before the websocket was connected.
    Replayed,
}

impl Fetch {
    pub(super) const fn count(self, status: &mut FollowerStatus) {
        let count = match self {
            Self::Polled => &mut status.polled,
            Self::Missed => &mut status.missed,
            Self::Replayed => &mut status.replayed,
        };
        *count += 1;
    }
}

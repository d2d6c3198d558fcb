//! Sources of blocks: a websocket, or polling.

use super::Source;
use super::block::Block;
use super::poll::Poll;
use super::websocket::Socket;
use akash_provider_core::types::Height;
use tokio::time::Instant;

/// Message of a block source.
pub(super) enum FeedItem {
    Block(Box<Block>),
    Tip(Height),
}

/// Source of blocks.
pub(super) enum Feed {
    Socket(Box<Socket>),
    Poll(Poll, Instant),
}

impl Feed {
    pub(super) fn source(&self) -> Source {
        match self {
            Self::Socket(socket) => Source::Websocket(socket.endpoint()),
            Self::Poll(..) => Source::Polling,
        }
    }
}

//! Event stream of the chain: first a snapshot, then the events of each block.

use crate::{ChainShared, OwnChain, lock};
use akash_provider_core::Error;
use akash_provider_core::chain::ChainEvents;
use akash_provider_core::types::{Address, ChainEvent};
use futures::stream::{self, BoxStream, StreamExt};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use tokio::sync::broadcast::{self, error::RecvError};

/// Maximum number of unread blocks of a subscriber. Above this number, the subscriber gets a snapshot.
pub(crate) const WAITING_MAX: usize = 256;

/// Events of one block, in order.
pub(crate) type Facts = Arc<[ChainEvent]>;

struct BlockListener {
    // Weak, so that a leaked stream does not keep the file open.
    chain: Weak<ChainShared>,
    provider: Address,
    blocks: broadcast::Receiver<Facts>,
    ready: VecDeque<ChainEvent>,
}

impl ChainShared {
    /// Returns a snapshot and a receiver of all later blocks.
    fn listen(&self, provider: &Address) -> (ChainEvent, broadcast::Receiver<Facts>) {
        let state = lock(&self.state);
        let present = ChainEvent::Resync(Arc::new(state.market.snapshot(provider)));
        (present, state.events.subscribe())
    }
}

impl BlockListener {
    async fn next(mut self) -> Option<(Result<ChainEvent, Error>, Self)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((Ok(event), self));
            }
            match self.blocks.recv().await {
                Ok(facts) => {
                    let ours = facts.iter().filter(|fact| fact.concerns(&self.provider));
                    self.ready.extend(ours.cloned());
                }
                Err(RecvError::Lagged(_)) => {
                    let (present, blocks) = self.chain.upgrade()?.listen(&self.provider);
                    self.blocks = blocks;
                    self.ready.push_back(present);
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

impl ChainEvents for OwnChain {
    fn subscribe(&self, provider: &Address) -> BoxStream<'static, Result<ChainEvent, Error>> {
        let (present, blocks) = self.0.listen(provider);
        let listener = BlockListener {
            chain: Arc::downgrade(&self.0),
            provider: provider.clone(),
            blocks,
            ready: VecDeque::from([present]),
        };
        stream::unfold(listener, BlockListener::next).boxed()
    }
}

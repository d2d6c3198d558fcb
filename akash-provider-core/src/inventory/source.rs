//! Inventory sources without a cluster behind them.

use super::{Inventory, InventorySource, InventoryUpdate};
use crate::error::{Error, Failure};
use futures::stream::{self, BoxStream, StreamExt};
use std::sync::Arc;
use tokio::sync::watch;

/// Capacity that never changes.
#[derive(Debug, Clone)]
pub struct StaticInventorySource {
    update: InventoryUpdate,
}

impl StaticInventorySource {
    /// Always this capacity; no leased IPs.
    #[must_use]
    pub fn new(inventory: impl Inventory + 'static) -> Self {
        Self {
            update: InventoryUpdate {
                inventory: Arc::new(inventory),
                placements: Vec::new(),
                leased_ips: None,
            },
        }
    }
}

impl InventorySource for StaticInventorySource {
    fn watch(&self) -> BoxStream<'static, Result<InventoryUpdate, Error>> {
        let first = stream::iter([Ok(self.update.clone())]);
        // It never ends, because the end of the stream means shutdown.
        first.chain(stream::pending()).boxed()
    }
}

/// Capacity that somebody else sets: simulations, tests, a daemon with nodes of its own.
#[derive(Debug)]
pub struct MemoryInventorySource {
    state: watch::Sender<State>,
}

/// The latest of everything; a slow watcher sees the last update and the last failure, never an older one.
#[derive(Debug, Clone, Default)]
struct State {
    update: (u64, Option<InventoryUpdate>),
    failure: (u64, Option<Failure>),
    closed: bool,
}

impl MemoryInventorySource {
    /// Capacity is not known yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: watch::Sender::new(State::default()),
        }
    }

    /// This is the capacity now.
    pub fn push(&self, update: InventoryUpdate) {
        self.state.send_modify(|state| {
            state.update = (state.update.0 + 1, Some(update));
        });
    }

    /// Capacity is not known at the moment; watchers are told, a later one is not.
    pub fn fail(&self, failure: Failure) {
        self.state.send_modify(|state| {
            state.failure = (state.failure.0 + 1, Some(failure));
        });
    }

    /// Ends every stream, as at shutdown.
    pub fn close(&self) {
        self.state.send_modify(|state| state.closed = true);
    }
}

impl Default for MemoryInventorySource {
    fn default() -> Self {
        Self::new()
    }
}

impl InventorySource for MemoryInventorySource {
    fn watch(&self) -> BoxStream<'static, Result<InventoryUpdate, Error>> {
        let receiver = self.state.subscribe();
        // A new watcher gets the last update (0 is before the first) and no failure from before its time.
        let failures_seen = self.state.borrow().failure.0;
        stream::unfold((receiver, 0, failures_seen), next).boxed()
    }
}

type Watcher = (watch::Receiver<State>, u64, u64);

async fn next(
    (mut receiver, updates, failures): Watcher,
) -> Option<(Result<InventoryUpdate, Error>, Watcher)> {
    let news = |s: &State| s.closed || s.update.0 > updates || s.failure.0 > failures;
    // A source that is gone means shutdown too.
    let state = receiver.wait_for(news).await.ok()?.clone();
    // Before all else: at shutdown nobody wants an update any more.
    if state.closed {
        return None;
    }
    match (state.update, state.failure) {
        ((number, Some(update)), _) if number > updates => Some((Ok(update), (receiver, number, failures))),
        // No newer update, so a newer failure is what woke us.
        (_, (number, Some(failure))) => {
            let mut error = Error::new(failure.kind, "inventory.watch", failure.message);
            if failure.transient {
                error = error.transient();
            } else {
                error = error.permanent();
            }
            Some((Err(error), (receiver, updates, number)))
        }
        _ => None,
    }
}

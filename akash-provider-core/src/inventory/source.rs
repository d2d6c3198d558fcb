//! Inventory sources without a cluster.

use super::{Inventory, InventorySource, InventoryUpdate};
use crate::error::{Error, Failure};
use futures::stream::{self, BoxStream, StreamExt};
use std::sync::Arc;
use tokio::sync::watch;

/// Inventory source with a constant capacity.
#[derive(Debug, Clone)]
pub struct StaticInventorySource {
    update: InventoryUpdate,
}

impl StaticInventorySource {
    /// Creates a source with this capacity and without leased IPs.
    #[must_use]
    pub fn new(inventory: impl Inventory + 'static) -> Self {
        Self {
            update: InventoryUpdate::new(Arc::new(inventory), Vec::new()),
        }
    }
}

impl InventorySource for StaticInventorySource {
    fn watch(&self) -> BoxStream<'static, Result<InventoryUpdate, Error>> {
        let first = stream::iter([Ok(self.update.clone())]);
        // The stream never ends, because its end means shutdown.
        first.chain(stream::pending()).boxed()
    }
}

/// Inventory source for simulations and tests. The caller sets the capacity.
#[derive(Debug)]
pub struct MemoryInventorySource {
    state: watch::Sender<InventorySourceState>,
}

/// Latest update and latest failure. A slow watcher misses earlier updates and failures.
#[derive(Debug, Clone, Default)]
struct InventorySourceState {
    update: (u64, Option<InventoryUpdate>),
    failure: (u64, Option<Failure>),
    closed: bool,
}

impl MemoryInventorySource {
    /// Creates a source with unknown capacity.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: watch::Sender::new(InventorySourceState::default()),
        }
    }

    /// Sets the capacity and sends it to all watchers.
    pub fn push(&self, update: InventoryUpdate) {
        self.state.send_modify(|state| {
            state.update = (state.update.0 + 1, Some(update));
        });
    }

    /// Reports a failure to the current watchers. Watchers that start later do not receive the failure.
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
        // A new watcher receives the last update (0 is before the first) and no earlier failure.
        let failures_seen = self.state.borrow().failure.0;
        stream::unfold((receiver, 0, failures_seen), next).boxed()
    }
}

type Watcher = (watch::Receiver<InventorySourceState>, u64, u64);

async fn next(
    (mut receiver, updates, failures): Watcher,
) -> Option<(Result<InventoryUpdate, Error>, Watcher)> {
    let is_new = |s: &InventorySourceState| s.closed || s.update.0 > updates || s.failure.0 > failures;
    // A dropped source also means shutdown.
    let state = receiver.wait_for(is_new).await.ok()?.clone();
    // Checked first, because after shutdown no watcher needs an update.
    if state.closed {
        return None;
    }
    match (state.update, state.failure) {
        ((number, Some(update)), _) if number > updates => Some((Ok(update), (receiver, number, failures))),
        // Without a newer update, the change is a newer failure.
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

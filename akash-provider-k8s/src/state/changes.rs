//! Stream of health changes for one listener.

use super::CacheShared;
use super::index::Signal;
use super::watches::{Watches, know_health, known_until};
use akash_provider_core::cluster::ClusterChange;
use akash_provider_core::error::Error;
use futures::stream::{self, BoxStream, StreamExt};
use std::future::pending;
use std::sync::{Arc, Weak};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Maximum number of pending signals of a listener. Above this number, the listener receives a snapshot.
pub(super) const WAITING_MAX: usize = 1024;

/// Last message that was sent to the listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastMessage {
    Nothing,
    Lost,
    Known,
}

struct ChangeListener {
    shared: Weak<CacheShared>,
    signals: broadcast::Receiver<Signal>,
    watches: watch::Receiver<Watches>,
    last_message: LastMessage,
    /// Value of `LeaseIndex::losses` when the listener received its last snapshot.
    losses: u64,
}

/// Returns a stream of health changes. The stream starts with a snapshot, and sends another snapshot after
/// missed changes. The stream ends when the [`ObjectCache`](super::ObjectCache) is dropped.
pub(super) fn changes(shared: &Arc<CacheShared>) -> BoxStream<'static, Result<ClusterChange, Error>> {
    let listener = ChangeListener {
        shared: Arc::downgrade(shared),
        signals: shared.signals.subscribe(),
        watches: shared.watches.subscribe(),
        last_message: LastMessage::Nothing,
        losses: shared.index().losses,
    };
    let next = |mut listener: ChangeListener| async {
        let change = listener.next().await?;
        Some((Ok(change), listener))
    };
    stream::unfold(listener, next).boxed()
}

impl ChangeListener {
    async fn next(&mut self) -> Option<ClusterChange> {
        loop {
            let shared = self.shared.upgrade()?;
            // Before the state is read, so that a concurrent change wakes the wait below.
            self.watches.mark_unchanged();
            let grace = shared.watch_config.grace;
            let (is_known, until) = shared
                .watches
                .read(|all| (know_health(all, grace), known_until(all, grace)));
            match (self.last_message, is_known) {
                (LastMessage::Nothing | LastMessage::Lost, true) => return Some(self.snapshot(&shared)),
                (LastMessage::Nothing | LastMessage::Known, false) => {
                    self.last_message = LastMessage::Lost;
                    return Some(ClusterChange::Lost);
                }
                _ => {}
            }
            let losses = shared.index().losses;
            if is_known && losses != self.losses {
                self.losses = losses;
                return Some(ClusterChange::RecordsLost);
            }
            // A waiting listener must not keep the state alive.
            drop(shared);
            let until = until.filter(|_| is_known);
            let change = tokio::select! {
                () = passed(until) => None,
                changed = self.watches.changed() => {
                    changed.ok()?;
                    None
                }
                signal = self.signals.recv() => self.answer(signal)?,
            };
            if change.is_some() {
                return change;
            }
        }
    }

    /// Converts a signal to a message: `Some(None)` if the listener needs no message, `None` at the end of
    /// the stream.
    #[expect(clippy::option_option, reason = "the end differs from no message")]
    fn answer(&mut self, signal: Result<Signal, RecvError>) -> Option<Option<ClusterChange>> {
        let shared = self.shared.upgrade()?;
        if self.last_message != LastMessage::Known {
            return Some(None);
        }
        match signal {
            Ok(Signal::Lease(home)) => Some(shared.health_in(&home)),
            Ok(Signal::All) | Err(RecvError::Lagged(_)) => Some(Some(self.snapshot(&shared))),
            Err(RecvError::Closed) => None,
        }
    }

    fn snapshot(&mut self, shared: &CacheShared) -> ClusterChange {
        // Pending signals are included in the snapshot.
        self.signals = self.signals.resubscribe();
        self.last_message = LastMessage::Known;
        ClusterChange::Snapshot {
            health: shared.all_health(),
        }
    }
}

async fn passed(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

//! Queue from the recorder to the writer, and the state that both share.

use super::fact::Fact;
use super::store::HistoryStore;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub(super) enum HistoryMessage {
    /// Boxed, because a channel allocates all its slots at once.
    Fact(Box<Fact>),
    /// Request to write all earlier facts and then respond.
    Flush(SyncSender<()>),
    /// Request to write all earlier facts and then stop the writer.
    End,
}

#[derive(Debug, Clone)]
pub(super) struct FactSender {
    pub(super) queue: SyncSender<HistoryMessage>,
    pub(super) shared: Arc<HistoryState>,
}

impl FactSender {
    /// Sends a fact to the writer. If the queue is full, the fact is dropped and counted.
    pub(super) fn send(&self, fact: Fact) {
        if self.queue.try_send(HistoryMessage::Fact(Box::new(fact))).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct HistoryState {
    pub(super) dropped: AtomicU64,
    /// True after the warning about a slow writer.
    pub(super) is_slow: AtomicBool,
    pub(super) store: Mutex<Option<HistoryStore>>,
    /// Last failure of the history file; `None` while facts are recorded.
    pub(super) problem: Mutex<Option<String>>,
    pub(super) interruptions: AtomicU64,
}

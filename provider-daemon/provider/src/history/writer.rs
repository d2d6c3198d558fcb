//! Writer of the order history: a thread that applies facts to records and writes them in batches.

use super::Bounds;
use super::fact::{Fact, FactKind, FactSubject};
use super::queue::{FactSender, HistoryMessage, HistoryState};
use super::record::OrderRecord;
use super::recorder::HistoryRecorder;
use super::store::HistoryStore;
use crate::state::{self, StateError, WritePause};
use akash_provider_core::error::chain_text;
use akash_provider_core::pricing::PricingStrategy;
use akash_provider_core::types::OrderId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Capacity of the history queue, in facts.
const QUEUE: usize = 8192;
/// Maximum number of facts in a transaction.
const BATCH_MAX: u64 = 2048;
/// Time for which facts are collected before a transaction. A crash loses the collected facts.
const COLLECT: Duration = Duration::from_millis(500);
/// Maximum time that a reader waits until queued facts are written.
const FLUSH: Duration = Duration::from_secs(2);
/// Maximum time to write the queued facts when the provider stops.
const LAST: Duration = Duration::from_secs(5);
/// Maximum number of stored orders that one event of a deployment updates.
const ORDERS_OF_DEPLOYMENT_MAX: usize = 256;

/// Functions that open the history file and check the free space of the disk.
pub(super) struct FileAccess {
    /// Opens the file.
    pub(super) open: Box<dyn FnMut() -> Result<HistoryStore, StateError> + Send>,
    /// Returns true if the disk has space for a write.
    pub(super) has_space: Box<dyn Fn() -> bool + Send>,
}

/// Status of the history.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryHealth {
    /// Number of facts that were dropped since the start.
    pub dropped: u64,
    /// Last failure of the history file; `None` while facts are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Number of interruptions of the recording since the start.
    pub interruptions: u64,
}

/// Handle of the order history of a running provider. Clones share the history.
#[derive(Debug, Clone)]
pub struct History {
    sender: FactSender,
    writer: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl History {
    /// Returns the store, after the queued facts are written or two seconds have passed. `None` while the
    /// file cannot be opened.
    #[must_use]
    pub fn store(&self) -> Option<HistoryStore> {
        let (done, written) = sync_channel(1);
        if self.sender.queue.try_send(HistoryMessage::Flush(done)).is_ok() {
            // After the limit the last facts are missing, which is better than no response.
            let _ = written.recv_timeout(FLUSH);
        }
        locked(&self.sender.shared.store).clone()
    }

    /// Returns the status.
    #[must_use]
    pub fn health(&self) -> HistoryHealth {
        HistoryHealth {
            dropped: self.sender.shared.dropped.load(Ordering::Relaxed),
            problem: locked(&self.sender.shared.problem).clone(),
            interruptions: self.sender.shared.interruptions.load(Ordering::Relaxed),
        }
    }

    /// Writes the last facts and ends the writer.
    pub async fn finish(self) {
        let Some(writer) = locked(&self.writer).take() else {
            return;
        };
        let queue = self.sender.queue;
        let ended = tokio::task::spawn_blocking(move || {
            drop(queue.send(HistoryMessage::End));
            writer.join()
        });
        if !matches!(tokio::time::timeout(LAST, ended).await, Ok(Ok(Ok(())))) {
            tracing::warn!(
                "order history not written completely before the exit, the last records may be missing; check the disk"
            );
        }
    }
}

pub(super) fn start(
    file: FileAccess,
    bounds: Bounds,
    pricing: Arc<dyn PricingStrategy>,
    retry: Duration,
) -> std::io::Result<(HistoryRecorder, History)> {
    let (queue, messages) = sync_channel(QUEUE);
    let shared = Arc::<HistoryState>::default();
    let mut writer = HistoryWriter {
        shared: Arc::clone(&shared),
        file,
        bounds,
        pricing,
        retry,
        pause: None,
        changed: BTreeMap::new(),
        facts: 0,
    };
    let thread = thread::Builder::new().name("order history".to_owned());
    let writer = thread.spawn(move || writer.run(&messages))?;
    let sender = FactSender { queue, shared };
    let history = History {
        sender: sender.clone(),
        writer: Arc::new(Mutex::new(Some(writer))),
    };
    Ok((HistoryRecorder::new(sender), history))
}

struct HistoryWriter {
    shared: Arc<HistoryState>,
    file: FileAccess,
    bounds: Bounds,
    pricing: Arc<dyn PricingStrategy>,
    /// Duration of the pause after any failure except a full disk.
    retry: Duration,
    /// Pause after a failure.
    pause: Option<WritePause>,
    /// Records of the current batch.
    changed: BTreeMap<OrderId, OrderRecord>,
    /// Number of facts in the current batch.
    facts: u64,
}

impl HistoryWriter {
    fn run(&mut self, messages: &Receiver<HistoryMessage>) {
        self.reopen();
        while let Ok(first) = messages.recv() {
            let (flush, is_end) = self.collect(first, messages);
            self.write();
            // A reader that no longer waits is no problem.
            for done in flush {
                let _ = done.try_send(());
            }
            self.report_slow();
            if is_end {
                // Closes the file.
                *locked(&self.shared.store) = None;
                return;
            }
        }
    }

    /// Applies the facts of one batch. Returns the waiting readers, and whether the writer must end.
    fn collect(
        &mut self,
        first: HistoryMessage,
        messages: &Receiver<HistoryMessage>,
    ) -> (Vec<SyncSender<()>>, bool) {
        let until = Instant::now() + COLLECT;
        let (mut next, mut flush) = (Some(first), Vec::new());
        while let Some(message) = next {
            match message {
                HistoryMessage::Fact(fact) => self.apply(*fact),
                HistoryMessage::Flush(done) => flush.push(done),
                HistoryMessage::End => return (flush, true),
            }
            if self.facts >= BATCH_MAX {
                break;
            }
            let wait = if flush.is_empty() {
                until.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            };
            next = messages.recv_timeout(wait).ok();
        }
        (flush, false)
    }

    fn store(&self) -> Option<HistoryStore> {
        locked(&self.shared.store).clone()
    }

    fn apply(&mut self, fact: Fact) {
        if self.is_paused() || (self.store().is_none() && !self.reopen()) {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.facts += 1;
        if let Err(error) = self.apply_to_store(fact) {
            self.fail_and_reopen(&error);
        }
    }

    fn apply_to_store(&mut self, fact: Fact) -> Result<(), redb::Error> {
        let Some(store) = self.store() else {
            return Ok(());
        };
        let pricing = Arc::clone(&self.pricing);
        let deployment = match &fact.subject {
            FactSubject::Order(order) => {
                let order = order.clone();
                if let Some(record) = self.record(&store, order, &fact)? {
                    fact.apply(record, &*pricing);
                }
                return Ok(());
            }
            FactSubject::Deployment(deployment) => deployment.clone(),
        };
        let prefix = format!("{deployment}/");
        let mut orders = store.orders_with_prefix(&prefix, ORDERS_OF_DEPLOYMENT_MAX)?;
        // Orders of this batch are not in the file yet.
        let of_batch = self
            .changed
            .keys()
            .filter(|order| *order.deployment() == deployment);
        orders.extend(of_batch.cloned());
        orders.sort();
        orders.dedup();
        let (at, kind) = (fact.at, fact.kind);
        let FactKind::Event(event) = kind else {
            return Ok(());
        };
        for order in orders {
            let subject = FactSubject::Order(order.clone());
            let kind = FactKind::Event(Arc::clone(&event));
            let fact = Fact { subject, at, kind };
            if let Some(record) = self.record(&store, order, &fact)?
                && record.has_lease()
            {
                fact.apply(record, &*pricing);
            }
        }
        Ok(())
    }

    /// Returns the record of an order from the batch or the file. Creates a missing record only if
    /// `fact.creates_record()` is true.
    fn record(
        &mut self,
        store: &HistoryStore,
        order: OrderId,
        fact: &Fact,
    ) -> Result<Option<&mut OrderRecord>, redb::Error> {
        match self.changed.entry(order) {
            Entry::Occupied(entry) => Ok(Some(entry.into_mut())),
            Entry::Vacant(entry) => match store.get(entry.key())? {
                Some(record) => Ok(Some(entry.insert(record))),
                None if fact.creates_record() => {
                    let record = OrderRecord::new(entry.key().clone(), fact.at);
                    Ok(Some(entry.insert(record)))
                }
                None => Ok(None),
            },
        }
    }

    /// Writes the batch. After a failure, the facts of the batch count as dropped.
    fn write(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        let is_written = !changed.is_empty();
        let written = match self.store().filter(|_| is_written) {
            Some(store) => store.write(changed.values(), self.bounds),
            None => Ok(()),
        };
        if let Err(error) = written {
            return self.fail_and_reopen(&error);
        }
        // Only a write proves that the disk works again.
        if is_written && locked(&self.shared.problem).take().is_some() {
            let dropped = self.shared.dropped.load(Ordering::Relaxed);
            tracing::info!(dropped, "order history can be written again");
        }
        self.facts = 0;
    }

    /// Returns whether writes are paused. Clears an expired pause.
    fn is_paused(&mut self) -> bool {
        let is_over = |pause: &mut WritePause| pause.is_over(self.retry, &self.file.has_space);
        self.pause.take_if(is_over);
        self.pause.is_some()
    }

    fn reopen(&mut self) -> bool {
        match (self.file.open)() {
            Ok(store) => {
                *locked(&self.shared.store) = Some(store);
                true
            }
            Err(error) => {
                let remedy = error.help().map(|help| format!("; {help}"));
                let why = chain_text(&error) + &remedy.unwrap_or_default();
                self.fail(&why, error.is_full());
                false
            }
        }
    }

    /// Stops recording after an error. Reopens the file, so that readers can still use the history.
    fn fail_and_reopen(&mut self, error: &redb::Error) {
        self.fail(&error.to_string(), state::is_full(error));
        if let Ok(store) = (self.file.open)() {
            *locked(&self.shared.store) = Some(store);
        }
    }

    /// Stops recording until the next attempt, and counts the batch as dropped. Logs only the first failure.
    fn fail(&mut self, why: &str, is_full: bool) {
        *locked(&self.shared.store) = None;
        self.changed.clear();
        self.pause = Some(WritePause::new(why.to_owned(), is_full));
        let facts = std::mem::take(&mut self.facts);
        self.shared.dropped.fetch_add(facts, Ordering::Relaxed);
        let mut problem = locked(&self.shared.problem);
        if problem.is_none() {
            self.shared.interruptions.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                error = why,
                retry = ?self.retry,
                "order history not recorded, no lease is affected; check the free space and the permissions of the home directory"
            );
        }
        *problem = Some(why.to_owned());
    }

    fn report_slow(&self) {
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        let is_failed = locked(&self.shared.problem).is_some();
        if dropped > 0 && !is_failed && !self.shared.is_slow.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                dropped,
                "order history incomplete, the disk is too slow; use a faster disk for the home directory"
            );
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

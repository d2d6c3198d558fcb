//! Storage of lease events across restarts.

use super::{EventHistory, RecordedEvent};
use akash_provider_core::cluster::LeaseEvent;
use akash_provider_core::error::{Error, ErrorKind};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const OPERATION: &str = "store lease events";
/// Interval between two writes of events to the store.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of namespaces in one call of the store, to limit the memory for copied events.
const BATCH: usize = 32;

/// Stored lease event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Namespace of the lease.
    pub namespace: String,
    /// UID of the event, as in [`RecordedEvent::uid`].
    pub uid: String,
    /// Resource version of the event, as in [`RecordedEvent::version`].
    pub version: String,
    /// The event.
    pub event: LeaseEvent,
}

/// Storage that retains lease events across restarts. The storage has a limited size. Calls may block.
pub trait EventStore: fmt::Debug + Send + Sync + 'static {
    /// Returns all stored events.
    ///
    /// # Errors
    /// The storage cannot be read.
    fn load(&self) -> Result<Vec<StoredEvent>, Error>;

    /// Replaces the stored events of each of these namespaces. An empty list removes the namespace.
    ///
    /// # Errors
    /// The storage cannot be written.
    fn replace(&self, events: Vec<(String, Vec<RecordedEvent>)>) -> Result<(), Error>;
}

impl EventHistory {
    /// Restores the events in `store`, then writes each change to `store`. Never returns.
    pub async fn persist(self: Arc<Self>, store: Arc<dyn EventStore>) {
        let mut writer = LeaseEventWriter::default();
        let mut newest = self.newest();
        let reading = Arc::clone(&store);
        match blocking(move || reading.load()).await {
            Ok(stored) => {
                writer.stored = stored.iter().map(|event| event.namespace.clone()).collect();
                self.restore(stored);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot load the stored Kubernetes events of leases, continuing without these events; check the home directory")
            }
        }
        // Events may have been recorded before the first wait.
        newest.mark_changed();
        let mut is_failing = false;
        loop {
            // The history owns the sender, so that this channel never closes.
            if newest.changed().await.is_err() {
                return;
            }
            tokio::time::sleep(INTERVAL).await;
            match writer.write(&self, &store).await {
                Ok(()) => is_failing = false,
                Err(error) if !is_failing => {
                    is_failing = true;
                    tracing::warn!(%error, "cannot store the Kubernetes events of leases, retrying; a restart loses the newest events; check the home directory");
                }
                Err(_) => {}
            }
        }
    }
}

/// State of the writer that stores lease events.
#[derive(Debug, Default)]
struct LeaseEventWriter {
    /// Number of the last event that was written to the store.
    last: u64,
    /// Namespaces with stored lease events.
    stored: BTreeSet<String>,
}

impl LeaseEventWriter {
    /// Writes the events of changed namespaces, and removes namespaces without events.
    async fn write(&mut self, history: &EventHistory, store: &Arc<dyn EventStore>) -> Result<(), Error> {
        let newest = *history.newest().borrow();
        let (all, mut changed) = history.namespaces(self.last);
        changed.extend(self.stored.difference(&all).cloned());
        for names in changed.chunks(BATCH) {
            let events = names
                .iter()
                .map(|name| (name.clone(), history.after(name, 0)))
                .collect();
            let store = Arc::clone(store);
            blocking(move || store.replace(events)).await?;
        }
        (self.last, self.stored) = (newest, all);
        Ok(())
    }
}

async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let ended = tokio::task::spawn_blocking(call).await;
    ended.unwrap_or_else(|error| Err(Error::new(ErrorKind::Internal, OPERATION, error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, event, history, reasons};
    use super::*;
    use crate::state::samples::lease;
    use serde_json::json;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    #[derive(Debug, Default)]
    struct MemoryStore(Mutex<BTreeMap<String, Vec<RecordedEvent>>>);

    impl MemoryStore {
        fn len(&self) -> usize {
            self.0.lock().unwrap().values().map(Vec::len).sum()
        }
    }

    impl EventStore for MemoryStore {
        fn load(&self) -> Result<Vec<StoredEvent>, Error> {
            let all = self.0.lock().unwrap();
            let stored = all.iter().flat_map(|(namespace, events)| {
                events.iter().map(|recorded| StoredEvent {
                    namespace: namespace.clone(),
                    uid: recorded.uid.clone(),
                    version: recorded.version.clone(),
                    event: recorded.event.clone(),
                })
            });
            Ok(stored.collect())
        }

        fn replace(&self, events: Vec<(String, Vec<RecordedEvent>)>) -> Result<(), Error> {
            let mut all = self.0.lock().unwrap();
            for (namespace, events) in events {
                if events.is_empty() {
                    all.remove(&namespace);
                } else {
                    all.insert(namespace, events);
                }
            }
            Ok(())
        }
    }

    async fn until(condition: impl Fn() -> bool) {
        let met = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), met).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_there_after_a_restart_until_their_lease_is_gone() {
        let memory = Arc::new(MemoryStore::default());
        let start = || {
            let history = Arc::new(history());
            let store: Arc<dyn EventStore> = Arc::clone(&memory) as _;
            let task = tokio::spawn(Arc::clone(&history).persist(store));
            (history, tokio_util::task::AbortOnDropHandle::new(task))
        };
        let (first, task) = start();
        first.take(event("a", "1", &at(9), json!({})));
        first.take(event("b", "2", &at(8), json!({})));
        until(|| memory.len() == 2).await;
        drop((first, task));

        let (second, task) = start();
        until(|| reasons(&second) == ["a 1", "b 2"]).await;
        // The API server reports `b` again, and a newer version of `a`.
        second.take(event("b", "2", &at(8), json!({})));
        second.take(event("a", "3", &at(1), json!({"note": "again"})));
        assert_eq!(reasons(&second), ["b 2", "a 3"]);
        let newest = |memory: &MemoryStore| {
            let all = memory.load().unwrap();
            let mut all: Vec<_> = all.into_iter().map(|event| event.version).collect();
            all.sort();
            all
        };
        until(|| newest(&memory) == ["2", "3"]).await;

        let namespace = lease(2).namespace();
        let other =
            json!({"metadata": {"name": "c", "namespace": namespace, "uid": "c", "resourceVersion": "4"}});
        second.rings().by_namespace.clear();
        second.take(event("c", "4", &at(1), other));
        until(|| newest(&memory) == ["4"]).await;
        drop((second, task));
    }
}

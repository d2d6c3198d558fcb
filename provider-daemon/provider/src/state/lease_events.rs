//! Events of leases, which the API server drops after an hour.
//!
//! Each event is one row of a table. Writes do not wait for the disk: the next stored block height makes them durable,
//! and the API server still has the events that a crash loses. Number and size of the rows are bounded; the oldest
//! events are removed first.

use super::file::StateDatabase;
use super::{State, any, existing};
use akash_provider_core::cluster::LeaseEvent;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_k8s::state::{EventStore, RecordedEvent, StoredEvent};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Table of lease events, by the namespace and UID of the Event object. The value is a JSON array: the
/// resource version and the lease event.
const EVENTS: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("lease-events");
/// Maximum number of stored events of all leases together.
const EVENTS_MAX: usize = 20_000;
/// Maximum total size of all stored events, in bytes.
const BYTES_MAX: usize = 16 << 20;
/// Maximum size of a stored event, in bytes. Larger events are not stored.
const EVENT_BYTES_MAX: usize = 8 << 10;

/// Namespace and UID of the Kubernetes Event object.
type EventKey = (String, String);

#[derive(Debug)]
struct LeaseEvents {
    database: Arc<StateDatabase>,
    index: Mutex<EventIndex>,
    limits: StoreLimits,
}

#[derive(Debug, Clone, Copy)]
struct StoreLimits {
    events: usize,
    bytes: usize,
}

/// Metadata of all rows, without event texts.
type EventIndex = BTreeMap<EventKey, Row>;

#[derive(Debug, Clone)]
struct Row {
    version: String,
    time: i64,
    bytes: usize,
}

impl State {
    /// Returns the store of lease events.
    #[must_use]
    pub fn lease_events(&self) -> Arc<dyn EventStore> {
        let limits = StoreLimits {
            events: EVENTS_MAX,
            bytes: BYTES_MAX,
        };
        Arc::new(LeaseEvents::new(Arc::clone(&self.database), limits))
    }
}

impl LeaseEvents {
    fn new(database: Arc<StateDatabase>, limits: StoreLimits) -> Self {
        Self {
            database,
            index: Mutex::default(),
            limits,
        }
    }

    fn index(&self) -> MutexGuard<'_, EventIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all rows. The next write removes undecodable rows.
    fn read(&self) -> Result<Vec<StoredEvent>, redb::Error> {
        self.database.read(|database| self.read_from(database))
    }

    fn read_from(&self, database: &Database) -> Result<Vec<StoredEvent>, redb::Error> {
        let mut index = EventIndex::new();
        let mut events = Vec::new();
        let read = database.begin_read().map_err(any)?;
        let Some(table) = existing(&read, EVENTS)? else {
            return Ok(events);
        };
        for row in table.iter().map_err(any)? {
            let (key, value) = row.map_err(any)?;
            let (namespace, uid) = key.value();
            let key = (namespace.to_owned(), uid.to_owned());
            let bytes = value.value();
            let decoded = serde_json::from_slice::<(String, LeaseEvent)>(bytes).ok();
            let time = decoded.as_ref().map_or(i64::MIN, |(_, event)| event.time.0);
            let version = decoded.as_ref().map(|(version, _)| version.clone());
            let row = Row {
                version: version.unwrap_or_default(),
                time,
                bytes: bytes.len(),
            };
            index.insert(key.clone(), row);
            if let Some((version, event)) = decoded {
                events.push(StoredEvent {
                    namespace: key.0,
                    uid: key.1,
                    version,
                    event,
                });
            }
        }
        *self.index() = index;
        Ok(events)
    }

    fn write(&self, events: Vec<(String, Vec<RecordedEvent>)>) -> Result<(), redb::Error> {
        let mut index = self.index().clone();
        let mut rows: BTreeMap<EventKey, Vec<u8>> = BTreeMap::new();
        let mut removed: HashSet<EventKey> = HashSet::new();
        for (namespace, events) in events {
            let from = (namespace.clone(), String::new());
            let mut gone: HashSet<EventKey> = index
                .range(from..)
                .take_while(|((of, _), _)| *of == namespace)
                .map(|(key, _)| key.clone())
                .collect();
            for recorded in events {
                let key = (namespace.clone(), recorded.uid);
                let is_stored = index.get(&key).is_some_and(|row| row.version == recorded.version);
                let text = serde_json::to_vec(&(&recorded.version, &recorded.event)).unwrap_or_default();
                if text.is_empty() || text.len() > EVENT_BYTES_MAX {
                    continue;
                }
                gone.remove(&key);
                let row = Row {
                    version: recorded.version,
                    time: recorded.event.time.0,
                    bytes: text.len(),
                };
                index.insert(key.clone(), row);
                if !is_stored {
                    rows.insert(key, text);
                }
            }
            gone.iter().for_each(|key| drop(index.remove(key)));
            removed.extend(gone);
        }
        for key in over(&index, self.limits) {
            index.remove(&key);
            rows.remove(&key);
            removed.insert(key);
        }
        self.commit(&rows, &removed)?;
        *self.index() = index;
        Ok(())
    }

    fn commit(
        &self,
        rows: &BTreeMap<EventKey, Vec<u8>>,
        removed: &HashSet<EventKey>,
    ) -> Result<(), redb::Error> {
        if rows.is_empty() && removed.is_empty() {
            return Ok(());
        }
        self.database.write(|database| {
            let mut write = database.begin_write().map_err(any)?;
            write.set_durability(Durability::None).map_err(any)?;
            {
                let mut table = write.open_table(EVENTS).map_err(any)?;
                for (namespace, uid) in removed {
                    table.remove((namespace.as_str(), uid.as_str())).map_err(any)?;
                }
                for ((namespace, uid), text) in rows {
                    table
                        .insert((namespace.as_str(), uid.as_str()), text.as_slice())
                        .map_err(any)?;
                }
            }
            write.commit().map_err(any)
        })
    }
}

/// Returns the oldest rows, which must be removed to stay within the limits.
fn over(index: &EventIndex, limits: StoreLimits) -> Vec<EventKey> {
    let mut bytes: usize = index.values().map(|row| row.bytes).sum();
    let mut events = index.len();
    if events <= limits.events && bytes <= limits.bytes {
        return Vec::new();
    }
    let mut by_age: Vec<(&EventKey, &Row)> = index.iter().collect();
    by_age.sort_by_key(|(_, row)| row.time);
    let mut oldest = Vec::new();
    for (key, row) in by_age {
        if events <= limits.events && bytes <= limits.bytes {
            break;
        }
        events -= 1;
        bytes -= row.bytes;
        oldest.push(key.clone());
    }
    oldest
}

fn failed(error: &redb::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "lease events", error.to_string())
}

impl EventStore for LeaseEvents {
    fn load(&self) -> Result<Vec<StoredEvent>, Error> {
        self.read().map_err(|error| failed(&error))
    }

    fn replace(&self, events: Vec<(String, Vec<RecordedEvent>)>) -> Result<(), Error> {
        self.write(events).map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::types::BlockTime;

    const LIMITS: StoreLimits = StoreLimits {
        events: 6,
        bytes: BYTES_MAX,
    };

    fn recorded(uid: &str, version: &str, time: i64, message: &str) -> RecordedEvent {
        let event = LeaseEvent {
            time: BlockTime(time),
            severity: "Warning".to_owned().into(),
            message: message.to_owned(),
            ..LeaseEvent::default()
        };
        RecordedEvent {
            number: 1,
            uid: uid.to_owned(),
            version: version.to_owned(),
            event,
        }
    }

    fn stored(store: &dyn EventStore) -> Vec<String> {
        let all = store.load().unwrap();
        all.iter()
            .map(|e| format!("{} {} {} {}", e.namespace, e.uid, e.version, e.event.severity))
            .collect()
    }

    fn replacement(namespace: &str, events: Vec<RecordedEvent>) -> Vec<(String, Vec<RecordedEvent>)> {
        vec![(namespace.to_owned(), events)]
    }

    #[test]
    fn restores_events_after_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let open = || State::open(home.path()).unwrap().state;
        {
            let state = open();
            let store = state.lease_events();
            assert!(store.load().unwrap().is_empty());
            let both = vec![recorded("a", "1", 1, ""), recorded("b", "2", 2, "")];
            store.replace(replacement("one", both)).unwrap();
            store
                .replace(replacement("two", vec![recorded("a", "3", 3, "")]))
                .unwrap();
            store
                .replace(replacement("gone", vec![recorded("a", "4", 4, "")]))
                .unwrap();
        }
        {
            let state = open();
            let store = state.lease_events();
            assert_eq!(store.load().unwrap().len(), 4);
            // A newer version of `b`, and `a` is no longer retained.
            store
                .replace(replacement("one", vec![recorded("b", "5", 5, "")]))
                .unwrap();
            store.replace(replacement("gone", Vec::new())).unwrap();
        }
        let state = open();
        let wanted = ["one b 5 Warning", "two a 3 Warning"];
        assert_eq!(stored(&*state.lease_events()), wanted);
    }

    #[test]
    fn limits_number_and_size_by_removing_the_oldest() {
        let home = tempfile::tempdir().unwrap();
        let state = State::open(home.path()).unwrap().state;
        let store = LeaseEvents::new(Arc::clone(&state.database), LIMITS);
        for lease in 0..5 {
            let events = (0..2)
                .map(|n| recorded(&n.to_string(), "1", 10 - lease, ""))
                .collect();
            store.replace(replacement(&lease.to_string(), events)).unwrap();
        }
        let namespaces: Vec<String> = store.load().unwrap().into_iter().map(|e| e.namespace).collect();
        assert_eq!(namespaces, ["0", "0", "1", "1", "2", "2"]);

        let bytes = LeaseEvents::new(
            Arc::clone(&state.database),
            StoreLimits {
                bytes: 8 << 10,
                ..LIMITS
            },
        );
        bytes.load().unwrap();
        let long = "x".repeat(5 << 10);
        for lease in ["new", "newer"] {
            bytes
                .replace(replacement(lease, vec![recorded("a", "1", 20, &long)]))
                .unwrap();
        }
        let all = bytes.load().unwrap();
        let size: usize = all.iter().map(|e| e.event.message.len()).sum();
        assert!(
            size <= 8 << 10 && all.iter().any(|e| e.namespace == "newer"),
            "{size}"
        );
        // An event that is too large is not stored and displaces no other event.
        let before = stored(&bytes);
        let too_long = "x".repeat(EVENT_BYTES_MAX);
        bytes
            .replace(replacement("long", vec![recorded("a", "1", 30, &too_long)]))
            .unwrap();
        assert_eq!(stored(&bytes), before);
    }

    #[test]
    fn skips_rows_that_cannot_be_decoded() {
        let home = tempfile::tempdir().unwrap();
        let state = State::open(home.path()).unwrap().state;
        let store = state.lease_events();
        let spoiled = BTreeMap::from([(("one".to_owned(), "bad".to_owned()), b"{".to_vec())]);
        let raw = LeaseEvents::new(Arc::clone(&state.database), LIMITS);
        raw.commit(&spoiled, &HashSet::new()).unwrap();
        raw.replace(replacement("two", vec![recorded("a", "1", 1, "")]))
            .unwrap();
        assert_eq!(stored(&*store), ["two a 1 Warning"]);
        store
            .replace(replacement("one", vec![recorded("b", "2", 2, "")]))
            .unwrap();
        assert_eq!(stored(&*store), ["one b 2 Warning", "two a 1 Warning"]);
        assert_eq!(raw.read().unwrap().len(), 2);
        assert_eq!(raw.index().len(), 2, "the next write of its namespace removes it");
    }
}

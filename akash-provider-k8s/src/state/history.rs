//! Events of the namespaces of leases. The API server deletes events after an hour; the history stores them for a
//! configured time, within limits.

mod store;
pub(super) mod terminations;

use super::CacheShared;
use super::status::pod_service;
use super::view::LeaseView;
use akash_provider_core::cluster::{EventObject, LeaseEvent};
use akash_provider_core::types::time::BlockTime;
use akash_provider_kube_kernel::watch::{Decoded, Sink};
use k8s_openapi::api::events::v1::Event;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
pub use store::{EventStore, StoredEvent};
use tokio::sync::watch;
use tokio::time::Instant;

/// Maximum number of events per lease.
const EVENTS_MAX: usize = 200;
/// Maximum length of the text of one event, in bytes.
const NOTE_MAX: usize = 1024;
/// Number of new events after which the events of deleted leases are removed.
const SWEEP_EVERY: u64 = 256;
/// Length of the name of a lease namespace.
const NAME_LENGTH: usize = 45;

/// Event in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEvent {
    /// Position of the event in the history. Each new event gets the next higher number.
    pub number: u64,
    /// UID of the event; a repeated event has the same UID.
    pub uid: String,
    /// Resource version of the event.
    pub version: String,
    /// Event as the gateway returns it to tenants, possibly with truncated text.
    pub event: LeaseEvent,
}

#[derive(Debug, Default)]
struct Rings {
    by_namespace: HashMap<String, VecDeque<RecordedEvent>>,
    last: u64,
}

/// Events of the namespaces of leases.
#[derive(Debug)]
pub struct EventHistory {
    keep: Duration,
    shared: Weak<CacheShared>,
    rings: Mutex<Rings>,
    newest: watch::Sender<u64>,
}

impl EventHistory {
    pub(super) fn new(keep: Duration, shared: Weak<CacheShared>) -> Self {
        Self {
            keep,
            shared,
            rings: Mutex::default(),
            newest: watch::Sender::new(0),
        }
    }

    /// Returns the events of a lease namespace, oldest first. Omits events with a number up to `after`; 0
    /// omits no event.
    #[must_use]
    pub fn after(&self, namespace: &str, after: u64) -> Vec<RecordedEvent> {
        let oldest = now().saturating_sub(millis(self.keep));
        let rings = self.rings();
        let ring = rings.by_namespace.get(namespace).into_iter().flatten();
        // An event without a time does not expire.
        ring.filter(|r| r.number > after && (r.event.time.0 >= oldest || r.event.time.0 == 0))
            .cloned()
            .collect()
    }

    /// Returns a receiver of the newest event number. After a change, readers call [`EventHistory::after`].
    #[must_use]
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Adds events that an earlier process stored. Does not change events in the history.
    pub fn restore(&self, stored: Vec<StoredEvent>) {
        for stored in stored {
            if is_lease_namespace(&stored.namespace) {
                let StoredEvent {
                    namespace,
                    uid,
                    version,
                    mut event,
                } = stored;
                event.message = cut(event.message);
                self.record(&namespace, uid, version, event, false);
            }
        }
    }

    fn namespaces(&self, after: u64) -> (BTreeSet<String>, Vec<String>) {
        let rings = self.rings();
        let is_newer = |ring: &VecDeque<RecordedEvent>| ring.back().is_some_and(|last| last.number > after);
        let changed = rings.by_namespace.iter().filter(|(_, ring)| is_newer(ring));
        let changed = changed.map(|(namespace, _)| namespace.clone()).collect();
        (rings.by_namespace.keys().cloned().collect(), changed)
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores an event. Replaces a stored event with the same UID only if `newer` is true and the content
    /// differs.
    fn record(&self, namespace: &str, uid: String, version: String, event: LeaseEvent, newer: bool) {
        let number = {
            let mut rings = self.rings();
            let number = rings.last + 1;
            let ring = rings.by_namespace.entry(namespace.to_owned()).or_default();
            if let Some(at) = ring.iter().position(|r| r.uid == uid) {
                let same = ring
                    .get(at)
                    .is_some_and(|r| r.version == version || r.event == event);
                // Lists repeat known events, and persisted events are older.
                if same || !newer {
                    return;
                }
                ring.remove(at);
            }
            let record = RecordedEvent {
                number,
                uid,
                version,
                event,
            };
            ring.push_back(record);
            // Lists are not sorted by time; equal times keep the order of the records.
            while ring.len() > EVENTS_MAX {
                let oldest = ring
                    .iter()
                    .enumerate()
                    .min_by_key(|(_, r)| (r.event.time, r.number));
                let Some((oldest, _)) = oldest else { break };
                ring.remove(oldest);
            }
            rings.last = number;
            number
        };
        self.newest.send_replace(number);
        if number.is_multiple_of(SWEEP_EVERY) {
            self.sweep();
        }
    }

    /// Removes the events of deleted leases.
    fn sweep(&self) {
        // Outdated caches may lack existing leases.
        let Some(shared) = self.shared.upgrade().filter(|s| s.is_known()) else {
            return;
        };
        let mut rings = self.rings();
        let index = shared.index();
        rings
            .by_namespace
            .retain(|namespace, _| index.leases.contains_key(namespace));
    }

    fn take(&self, event: Event) {
        let Some(namespace) = event.metadata.namespace.clone().filter(|n| is_lease_namespace(n)) else {
            return;
        };
        let uid = event.metadata.uid.clone().unwrap_or_default();
        let version = event.metadata.resource_version.clone().unwrap_or_default();
        let mut event = lease_event(event);
        if let Some(shared) = self.shared.upgrade() {
            let index = shared.index();
            if let Some(entry) = index.leases.get(&namespace) {
                event.service = service_of(&event.object, &entry.view).unwrap_or_default();
            }
        }
        self.record(&namespace, uid, version, event, true);
    }
}

/// Sink for watched events. An event stays in the history when the server deletes the event.
pub(super) struct EventSink(pub(super) Arc<EventHistory>);

impl Sink<Decoded<Event>> for EventSink {
    fn begin(&mut self) {}

    fn page(&mut self, events: Vec<Decoded<Event>>) {
        for event in events {
            self.applied(event);
        }
    }

    fn complete(&mut self, _: Instant) {}

    fn applied(&mut self, event: Decoded<Event>) {
        match event.0 {
            Ok(event) => self.0.take(event),
            Err(invalid) => tracing::debug!(error = invalid.error, "cannot decode event"),
        }
    }

    fn deleted(&mut self, _: Decoded<Event>) {}
}

/// Returns true if `name` can be a lease namespace.
fn is_lease_namespace(name: &str) -> bool {
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'v').contains(&b);
    name.len() == NAME_LENGTH && name.bytes().all(digit)
}

/// Converts a Kubernetes event. The caller sets the field `service`.
fn lease_event(event: Event) -> LeaseEvent {
    let series = event.series.as_ref().map(|s| s.last_observed_time.0);
    let last = event.deprecated_last_timestamp.as_ref().map(|t| t.0);
    let first = event.event_time.as_ref().map(|t| t.0);
    let made = event.metadata.creation_timestamp.as_ref().map(|t| t.0);
    // The latest time, because versions of the event API use different fields.
    let time = series.or(last).or(first).or(made);
    let regarding = event.regarding.unwrap_or_default();
    let source = event.deprecated_source.unwrap_or_default();
    let controller = event
        .reporting_controller
        .filter(|c| !c.is_empty())
        .or(source.component);
    let instance = event.reporting_instance.filter(|i| !i.is_empty()).or(source.host);
    LeaseEvent {
        time: BlockTime(time.map_or(0, k8s_openapi::jiff::Timestamp::as_millisecond)),
        service: String::new(),
        severity: event.type_.unwrap_or_default().into(),
        reason: event.reason.unwrap_or_default(),
        message: cut(event.note.unwrap_or_default()),
        object: EventObject {
            kind: regarding.kind.unwrap_or_default(),
            namespace: regarding.namespace.unwrap_or_default(),
            name: regarding.name.unwrap_or_default(),
        },
        reporting_controller: controller.unwrap_or_default(),
        reporting_instance: instance.unwrap_or_default(),
    }
}

fn cut(mut note: String) -> String {
    if note.len() > NOTE_MAX {
        let mut end = NOTE_MAX;
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        note.truncate(end);
    }
    note
}

/// Returns the service of an event, from the pod label or the prefix of the object name (`web-7c9f-x2x`,
/// `web-np`, `web-data-web-0`). Returns `None` for an event of the whole lease.
pub(crate) fn service_of(object: &EventObject, view: &LeaseView) -> Option<String> {
    if object.kind == "Pod"
        && let Some(service) = view.pods.get(&object.name).and_then(|pod| pod_service(pod))
    {
        return Some(service.to_owned());
    }
    let recorded = view.wanted().unwrap_or_default().iter().map(|s| &s.name);
    let running = view.deployments.keys().chain(view.stateful_sets.keys());
    let fits = |service: &&String| {
        let rest = object.name.strip_prefix(service.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    // Both `web` and `web-data` match `web-data-0`.
    let longest = recorded.chain(running).filter(fits).max_by_key(|s| s.len());
    longest.cloned()
}

fn now() -> i64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;

//! Events of a lease: the history, and with `follow` also later events.

use super::{Access, task_stream, touch};
use crate::state::{EventHistory, RecordedEvent, service_of};
use akash_provider_core::cluster::{EventOptions, LeaseEvent};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use futures::stream::{self, BoxStream, StreamExt};
use std::sync::Arc;
use tokio::sync::mpsc;

const EVENTS: &str = "events";
/// Maximum number of buffered events per stream. A slow reader misses events.
const WAITING_MAX: usize = 64;

impl Access {
    /// Returns the Kubernetes events of a lease, oldest first.
    ///
    /// With `follow`, the stream ends only when the lease is torn down.
    ///
    /// # Errors
    /// `NotFound` for an unknown lease or service, `Unavailable` while the watches are not synchronized.
    pub fn events(
        &self,
        lease: &LeaseId,
        options: EventOptions,
    ) -> Result<BoxStream<'static, Result<LeaseEvent, Error>>, Error> {
        self.check(EVENTS, lease, &options.services)?;
        if !self.state.sees_events() {
            let message = "the watch of events is not synchronized";
            return Err(Error::new(ErrorKind::Unavailable, EVENTS, message));
        }
        let reader = EventReader {
            access: self.clone(),
            history: Arc::clone(self.state.history()),
            namespace: lease.namespace(),
            services: options.services,
        };
        let (mut events, last) = reader.after(0);
        // The history has the order of arrival, which can differ from the order of the times.
        events.sort_by_key(|e| e.time);
        let history = stream::iter(events.into_iter().map(Ok));
        if !options.follow {
            return Ok(history.boxed());
        }
        let rest = task_stream(WAITING_MAX, |sender| reader.run(last, sender));
        Ok(history.chain(rest).boxed())
    }
}

struct EventReader {
    access: Access,
    history: Arc<EventHistory>,
    namespace: String,
    services: Vec<String>,
}

impl EventReader {
    /// Returns the events of the selected services after record number `last`, and the number of the newest
    /// record.
    fn after(&self, last: u64) -> (Vec<LeaseEvent>, u64) {
        let records = self.history.after(&self.namespace, last);
        let newest = records.last().map_or(last, |r| r.number);
        let view = self.access.state.lease_in(&self.namespace);
        let named = |record: RecordedEvent| {
            let mut event = record.event;
            if event.service.is_empty() {
                event.service = service_of(&event.object, &view).unwrap_or_default();
            }
            event
        };
        let wanted = |e: &LeaseEvent| self.services.is_empty() || self.services.contains(&e.service);
        let events = records.into_iter().map(named).filter(wanted).collect();
        (events, newest)
    }

    async fn run(self, mut last: u64, sender: mpsc::Sender<Result<LeaseEvent, Error>>) {
        let mut newest = self.history.newest();
        // Subscribes before the first read, so that no change is missed between the two.
        let mut touched = self.access.state.touched();
        loop {
            // Before the read: a record that arrives meanwhile ends the wait below.
            newest.mark_unchanged();
            let (events, seen) = self.after(last);
            last = seen;
            for event in events {
                if sender.send(Ok(event)).await.is_err() {
                    return;
                }
            }
            // After the recorded events: the end of a lease has events too.
            if self.access.is_over(&self.namespace) {
                return;
            }
            tokio::select! {
                () = sender.closed() => return,
                changed = newest.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = touch(&mut touched, &self.namespace) => {}
            }
        }
    }
}

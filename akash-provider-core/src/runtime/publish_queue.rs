//! A queue and a task that publishes on a bus, for callers that must not wait for the bus.
//!
//! One bounded queue and one task publish facts and statuses in order. Events that do not fit in the queue,
//! and facts that the bus refuses, are dropped, counted and logged. If the bus refuses a status, the status
//! is published again until the bus accepts it or a later status of the same topic.

use super::execute::panic_text;
use crate::bus::Bus;
use crate::error::{Error, chain_text};
use crate::types::{Event, Topic};
use futures::future::FutureExt;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Maximum number of queued events. Several hundred leases can change at the same time.
const QUEUE: usize = 1024;
/// Timeout of one publication on the bus.
const PUBLISH_LIMIT: Duration = Duration::from_secs(10);
/// Minimum interval between log messages about failures.
const REPORT_EVERY: Duration = Duration::from_secs(60);
/// If the bus refused a status, the status is published again after this delay.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Counter of the facts that did not reach a bus.
#[derive(Debug, Clone)]
pub(crate) struct LostFacts {
    /// Number of facts that did not fit in the queue or that the bus refused.
    counted: Arc<AtomicU64>,
    bus: Arc<dyn Bus>,
}

impl LostFacts {
    fn new(bus: Arc<dyn Bus>) -> Self {
        let counted = Arc::default();
        Self { counted, bus }
    }

    /// Counts a lost event of [`Topic::Facts`]. Events of other topics are not counted, because newer events
    /// replace them.
    fn add(&self, topic: Topic) {
        if topic == Topic::Facts {
            self.counted.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.counted
            .load(Ordering::Relaxed)
            .saturating_add(self.bus.lost())
    }
}

/// Queue of events for the bus, and the task that publishes the events.
#[derive(Debug)]
pub(crate) struct PublishQueue {
    queue: mpsc::Sender<(Topic, Arc<Event>)>,
    overflow: Arc<AtomicU64>,
    lost: LostFacts,
    publisher: JoinSet<()>,
}

impl PublishQueue {
    pub(crate) fn start(bus: Arc<dyn Bus>) -> Self {
        let (queue, events) = mpsc::channel(QUEUE);
        let overflow = Arc::new(AtomicU64::new(0));
        let lost = LostFacts::new(Arc::clone(&bus));
        let mut publisher = JoinSet::new();
        publisher.spawn(Publisher::new(bus, Arc::clone(&overflow), lost.clone()).run(events));
        Self {
            queue,
            overflow,
            lost,
            publisher,
        }
    }

    pub(crate) fn lost_facts(&self) -> LostFacts {
        self.lost.clone()
    }

    /// Adds an event to the queue. Returns false if the queue is full.
    pub(crate) fn enqueue(&self, topic: Topic, event: Arc<Event>) -> bool {
        let fits = self.queue.try_send((topic, event)).is_ok();
        if !fits {
            // Relaxed ordering is sufficient for a number in the log.
            self.overflow.fetch_add(1, Ordering::Relaxed);
            self.lost.add(topic);
        }
        fits
    }

    /// Waits up to `limit` for the publisher to empty the queue.
    pub(crate) async fn finish(mut self, limit: Duration) {
        // The publisher ends when all senders of the queue are dropped.
        drop(self.queue);
        let all = async { while self.publisher.join_next().await.is_some() {} };
        if timeout(limit, all).await.is_err() {
            tracing::warn!(
                ?limit,
                "bus did not accept the last events before the stop, so subscribers miss these events"
            );
        }
    }
}

/// The publishing task, which ends when all senders are dropped and the queue is empty.
struct Publisher {
    bus: Arc<dyn Bus>,
    overflow: Arc<AtomicU64>,
    lost: LostFacts,
    trouble: PublishFailures,
    /// Status events that the bus refused: the latest event of each topic.
    owed: BTreeMap<Topic, Arc<Event>>,
    again_at: Instant,
}

impl Publisher {
    fn new(bus: Arc<dyn Bus>, overflow: Arc<AtomicU64>, lost: LostFacts) -> Self {
        Self {
            bus,
            overflow,
            lost,
            trouble: PublishFailures::default(),
            owed: BTreeMap::new(),
            again_at: Instant::now(),
        }
    }

    async fn run(mut self, mut events: mpsc::Receiver<(Topic, Arc<Event>)>) {
        let at_once = self.bus.at_once().clamp(1, QUEUE);
        let mut next = Vec::new();
        loop {
            tokio::select! {
                biased;
                // First, because a queue that is never empty would delay old statuses forever.
                () = sleep_until(self.again_at), if !self.owed.is_empty() => self.publish_owed().await,
                count = events.recv_many(&mut next, at_once) => match count {
                    0 => break,
                    _ => self.publish(std::mem::take(&mut next)).await,
                },
            }
            self.report();
        }
        self.publish_owed().await;
        // The last report ignores the interval, because no further report follows.
        self.trouble.reported = None;
        self.report();
    }

    async fn publish_owed(&mut self) {
        for owed in std::mem::take(&mut self.owed) {
            self.publish(vec![owed]).await;
        }
    }

    async fn publish(&mut self, events: Vec<(Topic, Arc<Event>)>) {
        // A panic of the bus for one event must not lose later events.
        let publishing = AssertUnwindSafe(async { self.bus.publish_all(&events).await });
        let all = |why: String| vec![Some(why); events.len()];
        let failures: Vec<Option<String>> = match timeout(PUBLISH_LIMIT, publishing.catch_unwind()).await {
            Ok(Ok(outcomes)) if outcomes.len() == events.len() => {
                let why = |outcome: Result<(), Error>| outcome.err().map(|error| chain_text(&error));
                outcomes.into_iter().map(why).collect()
            }
            Ok(Ok(outcomes)) => all(format!("{} outcomes of {} events", outcomes.len(), events.len())),
            Ok(Err(panic)) => all(format!("panic: {}", panic_text(panic.as_ref()))),
            Err(_) => all(format!("no response within {PUBLISH_LIMIT:?}")),
        };
        for ((topic, event), failure) in events.into_iter().zip(failures) {
            let Some(error) = failure else {
                self.owed.remove(&topic);
                continue;
            };
            if topic.is_retained() {
                self.owed.insert(topic, event);
                self.again_at = Instant::now() + AGAIN_AFTER;
            }
            self.lost.add(topic);
            self.trouble.failed(error);
        }
    }

    fn report(&mut self) {
        self.trouble.overflowed += self.overflow.swap(0, Ordering::Relaxed);
        self.trouble.report();
    }
}

/// Number of failed publications since the last log message about failures.
#[derive(Debug, Default)]
struct PublishFailures {
    failed: u64,
    overflowed: u64,
    last_error: Option<String>,
    reported: Option<Instant>,
}

impl PublishFailures {
    fn failed(&mut self, error: String) {
        self.failed += 1;
        self.last_error = Some(error);
    }

    fn report(&mut self) {
        let quiet = self.failed == 0 && self.overflowed == 0;
        if quiet || self.reported.is_some_and(|last| last.elapsed() < REPORT_EVERY) {
            return;
        }
        tracing::warn!(
            failed = self.failed,
            overflowed = self.overflowed,
            error = self.last_error.as_deref().unwrap_or("queue full"),
            "bus did not accept events; statuses are sent again, other events are lost; check the connection to the bus"
        );
        *self = Self {
            reported: Some(Instant::now()),
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::{EventStream, LocalBus};
    use crate::error::ErrorKind;
    use std::sync::atomic::AtomicBool;

    #[derive(Debug, Default)]
    struct UnreliableBus {
        truth: LocalBus,
        is_away: AtomicBool,
    }

    #[async_trait::async_trait]
    impl Bus for UnreliableBus {
        async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), Error> {
            if self.is_away.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Unavailable, "publish", "away"));
            }
            self.truth.publish(topic, event).await
        }
        async fn subscribe(&self, topics: &[Topic]) -> Result<EventStream, Error> {
            self.truth.subscribe(topics).await
        }
        async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, Error> {
            self.truth.last(topic).await
        }
    }

    fn fact(wanted: u32) -> Arc<Event> {
        Arc::new(Event::BreakerTripped { wanted })
    }

    async fn last(bus: &UnreliableBus) -> Option<Arc<Event>> {
        bus.last(Topic::ClusterStatus).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_latest_refused_status_is_published_again() {
        let bus = Arc::new(UnreliableBus::default());
        let outlet = PublishQueue::start(Arc::clone(&bus) as Arc<dyn Bus>);
        bus.is_away.store(true, Ordering::Relaxed);
        for number in 0..3 {
            assert!(outlet.enqueue(Topic::ClusterStatus, fact(number)));
        }
        tokio::time::sleep(AGAIN_AFTER * 3).await;
        assert_eq!(last(&bus).await, None);
        bus.is_away.store(false, Ordering::Relaxed);
        tokio::time::sleep(AGAIN_AFTER * 2).await;
        assert_eq!(last(&bus).await, Some(fact(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_status_never_follows_a_later_one() {
        let bus = Arc::new(UnreliableBus::default());
        let outlet = PublishQueue::start(Arc::clone(&bus) as Arc<dyn Bus>);
        bus.is_away.store(true, Ordering::Relaxed);
        assert!(outlet.enqueue(Topic::ClusterStatus, fact(1)));
        tokio::time::sleep(AGAIN_AFTER / 2).await;
        bus.is_away.store(false, Ordering::Relaxed);
        assert!(outlet.enqueue(Topic::ClusterStatus, fact(2)));
        tokio::time::sleep(AGAIN_AFTER * 2).await;
        assert_eq!(last(&bus).await, Some(fact(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn refused_statuses_are_retried_once_at_the_end() {
        let bus = Arc::new(UnreliableBus::default());
        let outlet = PublishQueue::start(Arc::clone(&bus) as Arc<dyn Bus>);
        bus.is_away.store(true, Ordering::Relaxed);
        assert!(outlet.enqueue(Topic::ClusterStatus, fact(1)));
        tokio::time::sleep(AGAIN_AFTER / 2).await;
        bus.is_away.store(false, Ordering::Relaxed);
        outlet.finish(Duration::from_secs(1)).await;
        assert_eq!(last(&bus).await, Some(fact(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn bus_failures_are_logged_once_a_minute_with_counts() {
        let mut trouble = PublishFailures::default();
        trouble.failed("first".into());
        trouble.report();
        assert_eq!(trouble.failed, 0, "reported and reset");
        trouble.failed("second".into());
        trouble.report();
        assert_eq!(trouble.failed, 1, "counted for the next report");
        tokio::time::sleep(REPORT_EVERY).await;
        trouble.overflowed = 3;
        trouble.report();
        assert_eq!((trouble.failed, trouble.overflowed), (0, 0));
    }
}

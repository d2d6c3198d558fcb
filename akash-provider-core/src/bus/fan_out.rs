//! A bus for this process that forwards to other buses.

use super::{Bus, EventStream};
use crate::error::Error;
use crate::feed::lock;
use crate::runtime::{LostFacts, PublishQueue};
use crate::types::{Event, Topic};
use async_trait::async_trait;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Publishes on a first bus, and forwards every event to other buses without waiting for them.
///
/// The first bus serves subscribers and [`Bus::last`]. Each of the other buses has its own queue. An event
/// that does not fit in the queue is dropped.
///
/// If one of the other buses refuses an event of [`Topic::Facts`], the event is dropped. For any other topic,
/// the newest event of the topic is published again until this bus accepts the event.
///
/// ```
/// use akash_provider_core::bus::{Bus, FanOut, LocalBus};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let remote = Arc::new(LocalBus::new());
/// let bus = FanOut::new(Arc::new(LocalBus::new()), vec![remote]);
/// # let _: &dyn Bus = &bus;
/// # }
/// ```
#[derive(Debug)]
pub struct FanOut {
    first: Arc<dyn Bus>,
    /// Queues of the other buses. Empty after [`FanOut::finish`].
    others: Mutex<Vec<PublishQueue>>,
    lost: Vec<LostFacts>,
}

impl FanOut {
    /// Creates the bus. Must be called within a Tokio runtime.
    #[must_use]
    pub fn new(first: Arc<dyn Bus>, others: Vec<Arc<dyn Bus>>) -> Self {
        let others: Vec<_> = others.into_iter().map(PublishQueue::start).collect();
        let lost = others.iter().map(PublishQueue::lost_facts).collect();
        let others = Mutex::new(others);
        Self { first, others, lost }
    }

    /// Stops forwarding and waits up to `limit` for the queues to be published. Dropping the `FanOut`
    /// discards the queues.
    pub async fn finish(&self, limit: Duration) {
        let others = std::mem::take(&mut *lock(&self.others));
        let others = others.into_iter().map(|outlet| outlet.finish(limit));
        futures::future::join_all(others).await;
    }
}

#[async_trait]
impl Bus for FanOut {
    async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), Error> {
        for outlet in &*lock(&self.others) {
            // The outlet counts the events that do not fit in the queue.
            outlet.enqueue(topic, Arc::clone(&event));
        }
        self.first.publish(topic, event).await
    }

    fn lost(&self) -> u64 {
        self.lost
            .iter()
            .fold(self.first.lost(), |sum, lost| sum.saturating_add(lost.count()))
    }

    async fn subscribe(&self, topics: &[Topic]) -> Result<EventStream, Error> {
        self.first.subscribe(topics).await
    }

    async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, Error> {
        self.first.last(topic).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::{Delivery, LocalBus};
    use crate::error::ErrorKind;
    use futures::StreamExt;

    fn fact(wanted: u32) -> Arc<Event> {
        Arc::new(Event::BreakerTripped { wanted })
    }

    #[derive(Debug)]
    struct Hangs;

    #[async_trait]
    impl Bus for Hangs {
        async fn publish(&self, _: Topic, _: Arc<Event>) -> Result<(), Error> {
            std::future::pending().await
        }
        async fn subscribe(&self, _: &[Topic]) -> Result<EventStream, Error> {
            std::future::pending().await
        }
        async fn last(&self, _: Topic) -> Result<Option<Arc<Event>>, Error> {
            std::future::pending().await
        }
    }

    #[derive(Debug)]
    struct Refuses;

    #[async_trait]
    impl Bus for Refuses {
        async fn publish(&self, _: Topic, _: Arc<Event>) -> Result<(), Error> {
            Err(Error::new(ErrorKind::Unavailable, "publish", "away"))
        }
        async fn subscribe(&self, _: &[Topic]) -> Result<EventStream, Error> {
            std::future::pending().await
        }
        async fn last(&self, _: Topic) -> Result<Option<Arc<Event>>, Error> {
            Ok(None)
        }
    }

    #[tokio::test]
    async fn facts_that_another_bus_refuses_are_lost() {
        let bus = FanOut::new(Arc::new(LocalBus::new()), vec![Arc::new(Refuses)]);
        for topic in [Topic::Facts, Topic::ClusterStatus, Topic::Facts] {
            bus.publish(topic, fact(1)).await.unwrap();
        }
        bus.finish(Duration::from_secs(5)).await;
        assert_eq!(bus.lost(), 2, "a status is not lost");
    }

    #[cfg(feature = "conformance")]
    #[tokio::test(start_paused = true)]
    async fn fan_out_conforms_beside_a_hanging_bus() {
        let bus = FanOut::new(Arc::new(LocalBus::new()), vec![Arc::new(Hangs)]);
        crate::bus::conformance::suite(&bus, &crate::bus::conformance::Setup::default()).await;
    }

    #[tokio::test]
    async fn other_buses_receive_all_events_in_order() {
        let other = Arc::new(LocalBus::new());
        let mut facts = other.subscribe(&[Topic::Facts]).await.unwrap();
        let bus = FanOut::new(
            Arc::new(LocalBus::new()),
            vec![Arc::clone(&other) as Arc<dyn Bus>],
        );
        for number in 0..100 {
            bus.publish(Topic::Facts, fact(number)).await.unwrap();
        }
        bus.finish(Duration::from_secs(5)).await;
        for number in 0..100 {
            let event = fact(number);
            let topic = Topic::Facts;
            assert_eq!(facts.next().await, Some(Delivery::Event { topic, event }));
        }
    }
}

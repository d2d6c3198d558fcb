//! The suite every [`Bus`] passes.
//!
//! ```
//! use akash_provider_core::bus::{LocalBus, conformance};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! conformance::suite(&LocalBus::new(), &conformance::Setup::default()).await;
//! # }
//! ```

use super::{Bus, Delivery, EventStream};
use crate::types::{Event, Topic};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;

/// What the suite needs to know of a bus.
#[derive(Debug, Clone)]
pub struct Setup {
    /// How long a delivery may take.
    pub patience: Duration,
    /// Events published to a subscriber that does not read; more than the bus keeps for one.
    pub flood: u32,
}

impl Default for Setup {
    /// Five seconds, 5000 events.
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(5),
            flood: 5000,
        }
    }
}

fn fact(number: u32) -> Arc<Event> {
    Arc::new(Event::BreakerTripped { wanted: number })
}

async fn next(stream: &mut EventStream, setup: &Setup, what: &str) -> Delivery {
    let item = tokio::time::timeout(setup.patience, stream.next()).await;
    let item = item.unwrap_or_else(|_| unreachable_delivery(what));
    item.unwrap_or_else(|| unreachable_delivery(what))
}

#[expect(clippy::panic, reason = "a suite says what a backend does wrong by panicking")]
fn unreachable_delivery(what: &str) -> ! {
    panic!("{what}: nothing was delivered in time, or the stream ended")
}

/// Runs every check on a bus that nobody else publishes to.
///
/// # Panics
/// Names the rule that the bus breaks.
pub async fn suite(bus: &dyn Bus, setup: &Setup) {
    subscribers_get_their_topics_in_order(bus, setup).await;
    retained_topics_keep_their_last_event(bus).await;
    a_slow_subscriber_is_told_what_it_lost(bus, setup).await;
    a_dropped_subscriber_disturbs_nobody(bus, setup).await;
}

/// First in, first out; everyone gets everything of their topics and nothing else.
///
/// # Panics
/// When it is not so.
pub async fn subscribers_get_their_topics_in_order(bus: &dyn Bus, setup: &Setup) {
    let what = "subscribers get their topics in order";
    let mut facts = bus.subscribe(&[Topic::Facts]).await.expect(what);
    let both = [Topic::InventoryNodes, Topic::Facts];
    let mut all = bus.subscribe(&both).await.expect(what);
    for number in 0..10 {
        let topic = both[usize::from(number % 3 != 0)];
        bus.publish(topic, fact(number)).await.expect(what);
        bus.publish(Topic::ManifestStatus, fact(100)).await.expect(what);
    }
    for number in 0..10 {
        let topic = both[usize::from(number % 3 != 0)];
        let event = fact(number);
        let expected = Delivery::Event { topic, event };
        assert_eq!(next(&mut all, setup, what).await, expected, "{what}");
        if topic == Topic::Facts {
            assert_eq!(next(&mut facts, setup, what).await, expected, "{what}");
        }
    }
}

/// The last event of a status topic is kept; facts are not.
///
/// # Panics
/// When it is not so.
pub async fn retained_topics_keep_their_last_event(bus: &dyn Bus) {
    let what = "retained topics keep their last event";
    for topic in Topic::ALL {
        for number in 0..2 {
            bus.publish(topic, fact(number)).await.expect(what);
        }
        let last = bus.last(topic).await.expect(what);
        let expected = topic.is_retained().then(|| fact(1));
        assert_eq!(last, expected, "{what}: {}", topic.name());
    }
}

/// Every event is delivered, or counted in a `Lagged`, and what is delivered is in order.
///
/// # Panics
/// When it is not so.
pub async fn a_slow_subscriber_is_told_what_it_lost(bus: &dyn Bus, setup: &Setup) {
    let what = "a slow subscriber is told what it lost";
    let mut stream = bus.subscribe(&[Topic::Facts]).await.expect(what);
    for number in 0..setup.flood {
        bus.publish(Topic::Facts, fact(number)).await.expect(what);
    }
    let mut accounted = 0;
    while accounted < u64::from(setup.flood) {
        match next(&mut stream, setup, what).await {
            Delivery::Lagged(lost) => {
                assert!(lost > 0, "{what}: Lagged(0) says nothing");
                accounted += lost;
            }
            Delivery::Event { event, .. } => {
                let number = u32::try_from(accounted).unwrap_or(u32::MAX);
                assert_eq!(event, fact(number), "{what}: after {accounted} events");
                accounted += 1;
            }
        }
    }
    assert_eq!(accounted, u64::from(setup.flood), "{what}");
}

/// A subscriber that goes away leaves the others as they were.
///
/// # Panics
/// When it is not so.
pub async fn a_dropped_subscriber_disturbs_nobody(bus: &dyn Bus, setup: &Setup) {
    let what = "a dropped subscriber disturbs nobody";
    let gone = bus.subscribe(&[Topic::Facts]).await.expect(what);
    let mut stays = bus.subscribe(&[Topic::Facts]).await.expect(what);
    drop(gone);
    bus.publish(Topic::Facts, fact(7)).await.expect(what);
    let (topic, event) = (Topic::Facts, fact(7));
    let expected = Delivery::Event { topic, event };
    assert_eq!(next(&mut stays, setup, what).await, expected, "{what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::LocalBus;

    #[tokio::test]
    async fn the_local_bus_conforms() {
        suite(&LocalBus::new(), &Setup::default()).await;
        suite(&LocalBus::with_limit(16), &Setup::default()).await;
    }

    #[tokio::test]
    async fn pointers_to_a_bus_conform() {
        let shared: Arc<dyn Bus> = Arc::new(LocalBus::new());
        suite(&shared, &Setup::default()).await;
        suite(&(Box::new(LocalBus::new()) as Box<dyn Bus>), &Setup::default()).await;
    }

    #[derive(Debug)]
    struct Forgetful(LocalBus);

    #[async_trait::async_trait]
    impl Bus for Forgetful {
        async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), crate::Error> {
            self.0.publish(topic, event).await
        }
        async fn subscribe(&self, topics: &[Topic]) -> Result<EventStream, crate::Error> {
            let stream = self.0.subscribe(topics).await?;
            let told = |d: &Delivery| futures::future::ready(!matches!(d, Delivery::Lagged(_)));
            Ok(stream.filter(told).boxed())
        }
        async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, crate::Error> {
            self.0.last(topic).await
        }
    }

    #[tokio::test]
    #[should_panic(expected = "a slow subscriber is told what it lost")]
    async fn a_bus_that_loses_events_silently_does_not_conform() {
        suite(&Forgetful(LocalBus::with_limit(16)), &Setup::default()).await;
    }
}

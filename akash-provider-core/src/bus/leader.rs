//! A bus on which only the leader of several instances publishes.

#![expect(
    clippy::disallowed_methods,
    reason = "the age of a stored fact, which no input of the engine has"
)]

use super::{Bus, EventStream};
use crate::election::LeadershipGate;
use crate::error::Error;
use crate::feed::lock;
use crate::types::{Event, Topic};
use async_trait::async_trait;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of facts that a standby stores. The oldest facts are dropped.
const FACTS_MAX: usize = 4096;

/// Publishes while this instance leads. On a standby, stores the events that the next leader has to publish.
///
/// A standby observes the same events as the leader. The standby stores the latest event of each retained
/// topic, and the facts (events of `Topic::Facts`) that have an [id](Event::id) and are younger than
/// `window`. After a fail-over, the new leader first publishes the stored events. A fact can arrive twice,
/// with the same id.
///
/// The inner bus always serves subscribers and [`Bus::last`].
#[derive(Debug)]
pub struct LeaderBus<B> {
    bus: B,
    gate: LeadershipGate,
    window: Duration,
    stored: Mutex<Stored>,
}

#[derive(Debug, Default)]
struct Stored {
    facts: VecDeque<(Instant, Arc<Event>)>,
    statuses: BTreeMap<Topic, Arc<Event>>,
}

impl<B: Bus> LeaderBus<B> {
    /// Creates a bus that publishes while `gate` is open.
    ///
    /// `window` is the maximum age of a stored fact. Twice the duration of the election lease is sufficient.
    #[must_use]
    pub fn new(bus: B, gate: LeadershipGate, window: Duration) -> Self {
        Self {
            bus,
            gate,
            window,
            stored: Mutex::default(),
        }
    }

    /// Stores events for publication by the next leader, and returns one `Ok` per event.
    fn store(&self, events: &[(Topic, Arc<Event>)]) -> Vec<Result<(), Error>> {
        let stored = &mut *lock(&self.stored);
        for (topic, event) in events {
            if topic.is_retained() {
                stored.statuses.insert(*topic, Arc::clone(event));
            } else if event.id().is_some() {
                stored.facts.push_back((Instant::now(), Arc::clone(event)));
            }
        }
        let surplus = stored.facts.len().saturating_sub(FACTS_MAX);
        stored.facts.drain(..surplus);
        stored.drop_older(self.window);
        events.iter().map(|_| Ok(())).collect()
    }
}

impl Stored {
    fn drop_older(&mut self, window: Duration) {
        let old = self.facts.partition_point(|(at, _)| at.elapsed() > window);
        self.facts.drain(..old);
    }

    fn events(&self) -> Vec<(Topic, Arc<Event>)> {
        let facts = self.facts.iter().map(|(_, event)| (Topic::Facts, event));
        let statuses = self.statuses.iter().map(|(topic, event)| (*topic, event));
        let all = facts.chain(statuses);
        all.map(|(topic, event)| (topic, Arc::clone(event))).collect()
    }

    fn remove(&mut self, event: &Arc<Event>) {
        self.facts.retain(|(_, stored)| !Arc::ptr_eq(stored, event));
        self.statuses.retain(|_, stored| !Arc::ptr_eq(stored, event));
    }
}

#[async_trait]
impl<B: Bus> Bus for LeaderBus<B> {
    async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), Error> {
        let mut outcomes = self.publish_all(&[(topic, event)]).await;
        outcomes.pop().unwrap_or(Ok(()))
    }

    async fn publish_all(&self, events: &[(Topic, Arc<Event>)]) -> Vec<Result<(), Error>> {
        if self.gate.term().is_none() {
            return self.store(events);
        }
        let stored = {
            let mut stored = lock(&self.stored);
            stored.drop_older(self.window);
            stored.events()
        };
        // Stored events are published before the new events, because a stored status must not follow a later
        // status. Events that the bus does not accept stay stored for the next publication.
        if !stored.is_empty() {
            let Some(outcomes) = self.gate.during(self.bus.publish_all(&stored)).await else {
                return self.store(events);
            };
            let mut left = lock(&self.stored);
            for ((_, event), _) in stored.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_ok()) {
                left.remove(event);
            }
        }
        {
            let mut left = lock(&self.stored);
            events
                .iter()
                .for_each(|(topic, _)| drop(left.statuses.remove(topic)));
        }
        // The inner bus may retry on a new connection when another instance leads.
        match self.gate.during(self.bus.publish_all(events)).await {
            Some(outcomes) => outcomes,
            None => self.store(events),
        }
    }

    fn at_once(&self) -> usize {
        self.bus.at_once()
    }

    async fn subscribe(&self, topics: &[Topic]) -> Result<EventStream, Error> {
        self.bus.subscribe(topics).await
    }

    async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, Error> {
        self.bus.last(topic).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::{Delivery, LocalBus};
    use crate::types::OrderId;
    use futures::StreamExt;

    const WINDOW: Duration = Duration::from_secs(24);

    fn seen(number: u64) -> Arc<Event> {
        let order: OrderId = format!("akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/{number}/1/1")
            .parse()
            .unwrap();
        Arc::new(Event::OrderSeen { order })
    }

    fn status(number: u64) -> Arc<Event> {
        let body = number.into();
        Arc::new(Event::Status { body })
    }

    #[cfg(feature = "conformance")]
    #[tokio::test(start_paused = true)]
    async fn the_bus_of_a_leader_conforms() {
        let bus = LeaderBus::new(LocalBus::new(), LeadershipGate::new(true), WINDOW);
        crate::bus::conformance::suite(&bus, &crate::bus::conformance::Setup::default()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_leader_publishes_the_facts_of_the_window_and_a_standby_publishes_nothing() {
        let gate = LeadershipGate::new(false);
        let bus = LeaderBus::new(LocalBus::new(), gate.clone(), WINDOW);
        let mut all = bus.subscribe(&Topic::ALL).await.unwrap();
        let old = seen(1);
        bus.publish(Topic::Facts, old).await.unwrap();
        tokio::time::sleep(WINDOW + Duration::from_secs(1)).await;
        bus.publish(Topic::Facts, seen(2)).await.unwrap();
        bus.publish(Topic::ClusterStatus, status(1)).await.unwrap();
        bus.publish(Topic::ClusterStatus, status(2)).await.unwrap();
        bus.publish(Topic::InventoryNodes, status(3)).await.unwrap();
        // An observation without an id is not published again.
        bus.publish(Topic::Facts, Arc::new(Event::RecordsFound))
            .await
            .unwrap();
        assert_eq!(bus.last(Topic::ClusterStatus).await.unwrap(), None);
        gate.set(true);
        bus.publish(Topic::ClusterStatus, status(4)).await.unwrap();
        bus.publish(Topic::Facts, seen(3)).await.unwrap();
        drop(bus);
        let published: Vec<_> = all
            .by_ref()
            .map(|delivery| match delivery {
                Delivery::Event { topic, event } => (topic, event),
                Delivery::Lagged(lost) => panic!("{lost:?}"),
            })
            .collect()
            .await;
        let expected = [
            (Topic::Facts, seen(2)),
            (Topic::ClusterStatus, status(2)),
            (Topic::InventoryNodes, status(3)),
            (Topic::ClusterStatus, status(4)),
            (Topic::Facts, seen(3)),
        ];
        assert_eq!(published, expected);
    }

    #[derive(Debug)]
    struct SilentBus;

    #[async_trait]
    impl Bus for SilentBus {
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

    #[tokio::test(start_paused = true)]
    async fn publication_ends_with_the_leadership_and_the_event_is_stored() {
        let gate = LeadershipGate::new(true);
        let bus = LeaderBus::new(SilentBus, gate.clone(), WINDOW);
        let ends = async {
            tokio::task::yield_now().await;
            gate.set(false);
        };
        let (published, ()) = tokio::join!(bus.publish(Topic::Facts, seen(1)), ends);
        published.unwrap();
        assert_eq!(lock(&bus.stored).facts[0].1, seen(1));
    }

    #[tokio::test(start_paused = true)]
    async fn stored_facts_are_bounded() {
        let bus = LeaderBus::new(LocalBus::new(), LeadershipGate::new(false), WINDOW);
        for number in 0..FACTS_MAX as u64 + 10 {
            bus.publish(Topic::Facts, seen(number)).await.unwrap();
        }
        let stored = lock(&bus.stored);
        assert_eq!(stored.facts.len(), FACTS_MAX);
        assert_eq!(stored.facts[0].1, seen(10));
    }
}

//! The bus within one process.

use super::{Bus, Delivery, EventStream};
use crate::error::Error;
use crate::feed::{Feed, lock};
use crate::types::{Event, Topic};
use async_trait::async_trait;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Default length of a subscriber's queue, in events.
pub const QUEUE_LIMIT: usize = 1024;

/// A bus in memory. Each subscriber has its own bounded queue. For a slow subscriber, one
/// [`Delivery::Lagged`] replaces the oldest events. Clones share the same bus.
#[derive(Debug, Clone)]
pub struct LocalBus {
    state: Arc<Mutex<LocalBusState>>,
    limit: usize,
}

#[derive(Debug, Default)]
struct LocalBusState {
    subscribers: Vec<Subscriber>,
    retained: BTreeMap<Topic, Arc<Event>>,
}

#[derive(Debug)]
struct Subscriber {
    topics: Vec<Topic>,
    feed: Feed<Delivery>,
}

impl Default for LocalBus {
    fn default() -> Self {
        Self::new()
    }
}

impl LocalBus {
    /// Creates a bus with queues of [`QUEUE_LIMIT`] events.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(QUEUE_LIMIT)
    }

    /// Creates a bus. The queue of each subscriber has space for `limit` events. A limit below 2 counts as 2.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self {
            state: Arc::default(),
            limit: limit.max(2),
        }
    }
}

/// Adds a delivery to a queue. In a full queue, one [`Delivery::Lagged`] replaces the oldest events.
fn enqueue(queue: &mut VecDeque<Delivery>, limit: usize, delivery: Delivery) {
    if queue.len() >= limit {
        let mut lost = 0;
        // Leaves space for the lag notice and the new delivery.
        while queue.len() + 2 > limit {
            match queue.pop_front() {
                Some(Delivery::Lagged(n)) => lost += n.unwrap_or(1),
                Some(Delivery::Event { .. }) => lost += 1,
                None => break,
            }
        }
        queue.push_front(Delivery::Lagged(Some(lost)));
    }
    queue.push_back(delivery);
}

#[async_trait]
impl Bus for LocalBus {
    async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), Error> {
        let mut state = lock(&self.state);
        if topic.is_retained() {
            state.retained.insert(topic, Arc::clone(&event));
        }
        state.subscribers.retain(|subscriber| {
            let wanted = subscriber.topics.contains(&topic);
            let event = Arc::clone(&event);
            subscriber.feed.update(|queue| {
                if wanted {
                    enqueue(queue, self.limit, Delivery::Event { topic, event });
                }
            })
        });
        Ok(())
    }

    async fn subscribe(&self, topics: &[Topic]) -> Result<EventStream, Error> {
        let (feed, stream) = Feed::new();
        lock(&self.state).subscribers.push(Subscriber {
            topics: topics.to_vec(),
            feed,
        });
        Ok(stream)
    }

    async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, Error> {
        Ok(lock(&self.state).retained.get(&topic).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;

    fn fact(wanted: u32) -> Arc<Event> {
        Arc::new(Event::BreakerTripped { wanted })
    }

    #[tokio::test]
    async fn a_slow_subscriber_receives_the_number_of_lost_deliveries() {
        let bus = LocalBus::with_limit(4);
        let mut stream = bus.subscribe(&[Topic::Facts]).await.unwrap();
        for n in 0..10 {
            bus.publish(Topic::Facts, fact(n)).await.unwrap();
        }
        drop(bus);
        let got: Vec<_> = stream.by_ref().collect().await;
        let event = |n| Delivery::Event {
            topic: Topic::Facts,
            event: fact(n),
        };
        assert_eq!(got, [Delivery::Lagged(Some(7)), event(7), event(8), event(9)]);
    }

    #[tokio::test]
    async fn a_dropped_stream_is_removed() {
        let bus = LocalBus::new();
        drop(bus.subscribe(&[Topic::Facts]).await.unwrap());
        bus.publish(Topic::ClusterStatus, fact(1)).await.unwrap();
        assert_eq!(lock(&bus.state).subscribers.len(), 0);
    }
}

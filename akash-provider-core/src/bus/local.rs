//! The bus within one process.

use super::{Bus, Delivery, EventStream};
use crate::error::Error;
use crate::feed::{Feed, lock};
use crate::types::{Event, Topic};
use async_trait::async_trait;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Events that wait for one subscriber before the oldest are given up: some minutes of a busy provider.
pub const QUEUE_LIMIT: usize = 1024;

/// A bus in memory. Each subscriber has a queue of its own with a limit; the oldest events of a slow one are
/// replaced by one [`Delivery::Lagged`]. A clone is the same bus.
#[derive(Debug, Clone)]
pub struct LocalBus {
    state: Arc<Mutex<State>>,
    limit: usize,
}

#[derive(Debug, Default)]
struct State {
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
    /// A bus whose subscribers may lag by [`QUEUE_LIMIT`] events.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(QUEUE_LIMIT)
    }

    /// A bus whose subscribers may lag by `limit` events; at least 2, for a lag notice and an event.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self {
            state: Arc::default(),
            limit: limit.max(2),
        }
    }
}

/// Adds a delivery; a full queue gives up its oldest events and says at its head how many they were.
fn enqueue(queue: &mut VecDeque<Delivery>, limit: usize, delivery: Delivery) {
    if queue.len() >= limit {
        let mut lost = 0;
        // Down to where there is room for the word of what was lost, and for what comes.
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
    async fn a_slow_subscriber_is_told_how_many_it_lost() {
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
    async fn a_dropped_stream_is_forgotten() {
        let bus = LocalBus::new();
        drop(bus.subscribe(&[Topic::Facts]).await.unwrap());
        bus.publish(Topic::ClusterStatus, fact(1)).await.unwrap();
        assert_eq!(lock(&bus.state).subscribers.len(), 0);
    }
}

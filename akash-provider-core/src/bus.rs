//! The bus: facts and retained status for other parts and processes. Outbound only: no engine input comes
//! from it, so a lossy or remote bus costs nobody a bid.

#[cfg(feature = "conformance")]
pub mod conformance;
mod fan_out;
mod leader;
mod local;

use crate::error::Error;
use crate::types::{Event, Topic};
use async_trait::async_trait;
use futures::stream::BoxStream;
use std::fmt;
use std::sync::Arc;

pub use fan_out::FanOut;
pub use leader::LeaderBus;
pub use local::{LocalBus, QUEUE_LIMIT};

/// What a subscriber gets: an event, or word of those it lost. A reader answers both, so neither may hide behind a `_`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// An event of a topic.
    Event {
        /// Topic that it was published on.
        topic: Topic,
        /// The event itself; all subscribers share it.
        event: Arc<Event>,
    },
    /// So many events of its topics were lost to this subscriber, because it was too slow. `None` where nobody can
    /// know how many: a bus outside of the process was replaced by one that is behind. The last event of each of its
    /// retained topics follows then. Never silence.
    Lagged(Option<u64>),
}

/// A subscriber's stream; dropping it unsubscribes.
pub type EventStream = BoxStream<'static, Delivery>;

/// Carries events outwards.
///
/// # Contract
/// First in, first out for each subscriber, across all topics it subscribed to. Everyone gets everything of their
/// topics, once, and nothing of others. Retained topics ([`Topic::is_retained`]) keep their last event, others none.
///
/// What waits for one subscriber has a limit, and the publisher waits for no one: a subscriber that cannot keep up
/// gets [`Delivery::Lagged`] with how many it lost at least, where that can be known. One that goes away disturbs nobody.
///
/// # Errors
/// `Unavailable` when the bus cannot be reached; publishing is then lost and the provider goes on.
///
/// # Implementing
/// Run `bus::conformance::suite` (feature `conformance`) on it.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait Bus: fmt::Debug + Send + Sync + 'static {
    /// Publishes an event; returns when the bus has it, not when anyone has read it.
    async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), Error>;

    /// Publishes several, in their order; says of each whether the bus has it.
    async fn publish_all(&self, events: &[(Topic, Arc<Event>)]) -> Vec<Result<(), Error>> {
        let mut outcomes = Vec::with_capacity(events.len());
        for (topic, event) in events {
            outcomes.push(self.publish(*topic, Arc::clone(event)).await);
        }
        outcomes
    }

    /// How many events are best given to [`Bus::publish_all`] at most: more than 1 where they cost less together.
    fn at_once(&self) -> usize {
        1
    }

    /// Subscribes to topics. Events published after this returns are delivered.
    async fn subscribe(&self, topics: &[Topic]) -> Result<EventStream, Error>;

    /// The last event of a retained topic, if any.
    async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, Error>;
}

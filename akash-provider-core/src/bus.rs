//! The bus publishes events and retained status to other components and processes. The engine reads no input
//! from the bus, so a lossy or remote bus cannot lose a bid.

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

/// Item of a subscriber's stream: an event, or a notice about lost events. A consumer must handle both and
/// should not match either with `_`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// An event of a topic.
    Event {
        /// Topic that it was published on.
        topic: Topic,
        /// The event itself; all subscribers share it.
        event: Arc<Event>,
    },
    /// The subscriber was too slow and lost this number of events of its topics. The number is `None` when
    /// the loss cannot be counted, for example after a remote bus was replaced by one with older state. In
    /// that case the last event of each retained topic follows.
    Lagged(Option<u64>),
}

/// Stream of one subscriber. Dropping the stream unsubscribes.
pub type EventStream = BoxStream<'static, Delivery>;

/// Transport of events to other components and processes.
///
/// # Contract
/// Each subscriber receives the events of its topics in the order of publication across these topics, each
/// event once, and no event of other topics. Retained topics ([`Topic::is_retained`]) keep their last event,
/// other topics keep none.
///
/// The queue of a subscriber is bounded, and the publisher never waits for a subscriber. A subscriber that is
/// too slow receives [`Delivery::Lagged`] with the minimum number of lost events, if known. A dropped
/// subscriber does not affect the others.
///
/// # Errors
/// `Unavailable` when the bus cannot be reached. The event is then lost and the provider continues.
///
/// # Implementing
/// Run `bus::conformance::suite` (feature `conformance`) on it.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait Bus: fmt::Debug + Send + Sync + 'static {
    /// Publishes an event. Returns when the bus has accepted the event, without waiting for subscribers.
    async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), Error>;

    /// Publishes several events in order and returns one result per event.
    async fn publish_all(&self, events: &[(Topic, Arc<Event>)]) -> Vec<Result<(), Error>> {
        let mut outcomes = Vec::with_capacity(events.len());
        for (topic, event) in events {
            outcomes.push(self.publish(*topic, Arc::clone(event)).await);
        }
        outcomes
    }

    /// Maximum useful number of events for one [`Bus::publish_all`]; more than 1 where a batch is cheaper.
    fn at_once(&self) -> usize {
        1
    }

    /// Subscribes to topics. Events published after the return of this function are delivered.
    async fn subscribe(&self, topics: &[Topic]) -> Result<EventStream, Error>;

    /// Returns the last event of a retained topic.
    async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, Error>;
}

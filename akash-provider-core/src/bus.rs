//! The bus publishes events and status values to other components and processes. The engine reads no input
//! from the bus, so a bus that loses events cannot cause the loss of a bid.

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

/// Item in the stream of a subscriber: an event, or a notice about lost events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// An event of a topic.
    Event {
        /// Topic of the event.
        topic: Topic,
        /// The event. All subscribers share it.
        event: Arc<Event>,
    },
    /// The subscriber lost events, usually because it was too slow. Contains the minimum number of lost
    /// events, or `None` if the number is unknown.
    Lagged(Option<u64>),
}

/// Stream of one subscriber. Dropping the stream unsubscribes.
pub type EventStream = BoxStream<'static, Delivery>;

/// Transport of events to other components and processes.
///
/// # Contract
/// A subscriber receives each event of its topics once, in the order of publication across these topics. The
/// bus stores only the last event of each retained topic ([`Topic::is_retained`]).
///
/// The queue of a subscriber is bounded, and the publisher never waits for a subscriber. A subscriber that is
/// too slow receives [`Delivery::Lagged`] with the minimum number of lost events, if known. A dropped
/// subscriber does not affect other subscribers.
///
/// # Errors
/// Returns `Unavailable` when the bus cannot be reached. The event is then lost, and the provider continues.
///
/// # Implementing
/// Run `bus::conformance::suite` (feature `conformance`) with the implementation.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
#[auto_impl::auto_impl(Arc, Box)]
pub trait Bus: fmt::Debug + Send + Sync + 'static {
    /// Publishes an event. Returns when the bus has accepted the event.
    async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), Error>;

    /// Publishes several events in order and returns one result per event.
    async fn publish_all(&self, events: &[(Topic, Arc<Event>)]) -> Vec<Result<(), Error>> {
        let mut outcomes = Vec::with_capacity(events.len());
        for (topic, event) in events {
            outcomes.push(self.publish(*topic, Arc::clone(event)).await);
        }
        outcomes
    }

    /// Recommended maximum number of events in one call of [`Bus::publish_all`].
    fn at_once(&self) -> usize {
        1
    }

    /// Returns the number of facts (events of [`Topic::Facts`]) that this bus accepted and then dropped, for
    /// example because a remote bus refused them.
    fn lost(&self) -> u64 {
        0
    }

    /// Subscribes to topics. The stream contains every event that is published after this method returns.
    async fn subscribe(&self, topics: &[Topic]) -> Result<EventStream, Error>;

    /// Returns the last event of a retained topic.
    async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, Error>;
}

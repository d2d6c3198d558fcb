//! The bus of a provider on Redis: what happens reaches readers in other processes, and a standby.
//!
//! ```text
//!   {prefix}:stream:<topic>   one stream per topic, bounded; an entry is one event
//!   {prefix}:last:<topic>     the last event of a topic that is retained
//!   {prefix}:sequence         how many events there were on all topics together
//!   {prefix}:counts           how many there were on each topic
//!   {prefix}:epoch            changes when events may have been lost or renumbered
//!   {prefix}:publisher:<id>   the last event that a publisher sent: none is there twice
//!   {prefix}:fact:<id>        a fact with this id was published, for 15 minutes: none is there twice after a fail-over
//! ```
//! The id of an entry is `<sequence>-<count of its topic>`, so a reader of several topics sees them in the order in
//! which they were published, and counts what was trimmed before it was read. All of an event is written by one
//! script, or nothing of it.
//!
//! Every reader reads everything from where it is; there are no consumer groups. After a connection that broke it goes
//! on where it was. A server that took over may lack what the one before had: the reader is told
//! [`Delivery::Lagged`](akash_provider_core::bus::Delivery) with an unknown number, gets the last event of each retained
//! topic, and goes on with what is there: an event may come twice then. Losing is allowed, silence is not.

mod connection;
mod election;
mod entry;
mod location;
mod position;
mod reader;
mod script;

use akash_provider_core::bus::{Bus, EventStream};
use akash_provider_core::types::{Event, Topic};
use akash_provider_core::{Error, ErrorKind};
use async_trait::async_trait;
use connection::Link;
use reader::Reader;
use script::Publisher;
use std::sync::Arc;

pub use election::RedisElection;
pub use location::{BadLocation, Location};

/// Events that each stream of facts keeps for readers that lag behind.
pub const FACTS_KEPT: usize = 65_536;
/// Events that each stream of a retained status keeps: a reader wants the latest, which is kept besides.
pub const STATUSES_KEPT: usize = 64;

/// A bus on Redis. A clone is the same bus.
///
/// Connections are made when they are needed and again when they broke; nothing is asked of the server before.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use akash_provider_core::bus::Bus;
/// use akash_provider_core::types::Topic;
/// use akash_provider_redis::{Location, RedisBus};
/// use futures::StreamExt;
///
/// let location: Location = "redis-sentinel://10.0.0.1:26379,10.0.0.2:26379/provider".parse()?;
/// let bus = RedisBus::new(location);
/// let mut facts = bus.subscribe(&[Topic::Facts]).await?;
/// while let Some(delivery) = facts.next().await {
///     println!("{delivery:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RedisBus {
    link: Arc<Link>,
    publisher: Arc<Publisher>,
}

impl RedisBus {
    /// The bus at this place.
    #[must_use]
    pub fn new(location: Location) -> Self {
        Self::with_kept(location, FACTS_KEPT)
    }

    /// A bus whose stream of facts keeps so many events for readers that lag behind; at least 1.
    #[must_use]
    pub fn with_kept(location: Location, facts: usize) -> Self {
        let link = Arc::new(Link::new(location));
        Self {
            publisher: Arc::new(Publisher::new(Arc::clone(&link), facts.max(1))),
            link,
        }
    }
}

#[async_trait]
impl Bus for RedisBus {
    async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), Error> {
        let mut outcomes = self.publisher.publish(&[(topic, event)]).await;
        outcomes.pop().unwrap_or(Ok(()))
    }

    async fn publish_all(&self, events: &[(Topic, Arc<Event>)]) -> Vec<Result<(), Error>> {
        self.publisher.publish(events).await
    }

    fn at_once(&self) -> usize {
        script::AT_ONCE
    }

    async fn subscribe(&self, topics: &[Topic]) -> Result<EventStream, Error> {
        let reader = Reader::open(Arc::clone(&self.link), topics).await?;
        Ok(reader.into_stream())
    }

    async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, Error> {
        if !topic.is_retained() {
            return Ok(None);
        }
        let key = self.link.keys().last(topic);
        let text: String = self.publisher.ask("last", position::last(&key)).await?;
        if text.is_empty() {
            return Ok(None);
        }
        let event = entry::event(&text)
            .map_err(|error| Error::new(ErrorKind::Internal, "last", format!("key `{key}`: {error}")))?;
        Ok(Some(event))
    }
}

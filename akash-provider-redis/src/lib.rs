//! Bus of a provider on Redis: delivers events to other processes and to standbys.
//!
//! ```text
//!   {prefix}:stream:<topic>   one bounded stream per topic; an entry is one event
//!   {prefix}:last:<topic>     last event of a retained topic
//!   {prefix}:sequence         number of events on all topics
//!   {prefix}:counts           number of events on each topic
//!   {prefix}:epoch            changes when events may be lost or renumbered
//!   {prefix}:publisher:<id>   last event of a publisher, to detect duplicates
//!   {prefix}:fact:<id>        id of a published fact, for 15 minutes, to detect duplicates after a fail-over
//! ```
//! The id of an entry is `<sequence>-<count of its topic>`. A reader of several topics therefore gets events in the
//! order of publication, and can count the entries that the server removed before the reader read them. A script writes
//! an event atomically.
//!
//! Each reader reads all entries from its position; there are no consumer groups. After a broken connection, the reader
//! continues at its position. After the server was restarted or replaced, events may be missing. The reader then gets
//! [`Delivery::Lagged`](akash_provider_core::bus::Delivery) with an unknown number and the last event of each retained
//! topic, and continues with the existing events. An event may be delivered twice in this case. A loss is always
//! reported.

mod connection;
mod election;
mod entry;
mod location;
mod position;
mod reader;
mod script;

use akash_provider_core::bus::{Bus, EventStream};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::types::{Event, Topic};
use akash_provider_core::{Error, ErrorKind};
use async_trait::async_trait;
use connection::RedisEndpoint;
use reader::TopicReader;
use script::Publisher;
use std::sync::Arc;
use std::time::Duration;

pub use election::RedisElection;
pub use location::{InvalidLocation, Location};

/// Number of retained events in the stream of [`Topic::Facts`].
pub const FACTS_PER_STREAM: usize = 65_536;
/// Number of retained events in the stream of each topic except [`Topic::Facts`]. The latest event is also
/// stored separately.
pub const STATUSES_PER_STREAM: usize = 64;

/// Bus on Redis. Clones share their connection.
///
/// Connections are opened on demand and again after failures.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use akash_provider_core::bus::Bus;
/// use akash_provider_core::election::LeadershipGate;
/// use akash_provider_core::types::Topic;
/// use akash_provider_redis::{Location, RedisBus};
/// use futures::StreamExt;
///
/// let location: Location = "redis-sentinel://10.0.0.1:26379,10.0.0.2:26379/provider".parse()?;
/// let bus = RedisBus::new(location, LeadershipGate::new(true));
/// let mut facts = bus.subscribe(&[Topic::Facts]).await?;
/// while let Some(delivery) = facts.next().await {
///     println!("{delivery:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RedisBus {
    link: Arc<RedisEndpoint>,
    publisher: Arc<Publisher>,
}

impl RedisBus {
    /// Creates a bus at a location, without a connection. The bus publishes only while `gate` is open.
    ///
    /// ```compile_fail,E0061
    /// # use akash_provider_redis::{Location, RedisBus};
    /// # fn example(location: Location) {
    /// let bus = RedisBus::new(location);
    /// # }
    /// ```
    #[must_use]
    pub fn new(location: Location, gate: LeadershipGate) -> Self {
        Self::with_stream_length(location, gate, FACTS_PER_STREAM)
    }

    /// Creates a bus. The stream of [`Topic::Facts`] retains `facts` events, at least 1.
    #[must_use]
    pub fn with_stream_length(location: Location, gate: LeadershipGate, facts: usize) -> Self {
        let link = Arc::new(RedisEndpoint::new(location));
        Self {
            publisher: Arc::new(Publisher::new(Arc::clone(&link), gate, facts.max(1))),
            link,
        }
    }
}

/// Returns the version of the Redis server at a location.
///
/// # Errors
/// Returns an error if the server does not respond within `limit`, or if it rejects the connection.
pub async fn server_version(location: Location, limit: Duration) -> Result<String, Error> {
    const OPERATION: &str = "check the Redis server";
    let place = location.to_string();
    let failed = |why: String| Error::new(ErrorKind::Unavailable, OPERATION, format!("{place}: {why}"));
    let endpoint = RedisEndpoint::new(location);
    let asking = async {
        let mut connection = endpoint.connect(OPERATION, limit).await?;
        let info: String = redis::cmd("INFO")
            .arg("server")
            .query_async(&mut connection)
            .await
            .map_err(|error| failed(error.to_string()))?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(version.unwrap_or("unknown").trim().to_owned())
    };
    match tokio::time::timeout(limit, asking).await {
        Ok(version) => version,
        Err(_) => Err(failed(format!("no response within {limit:?}"))),
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
        let reader = TopicReader::open(Arc::clone(&self.link), topics).await?;
        Ok(reader.into_stream())
    }

    async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, Error> {
        if !topic.is_retained() {
            return Ok(None);
        }
        let key = self.link.keys().last(topic);
        let text: String = self.publisher.run("last", position::last(&key)).await?;
        if text.is_empty() {
            return Ok(None);
        }
        let event = entry::event(&text)
            .map_err(|error| Error::new(ErrorKind::Internal, "last", format!("key `{key}`: {error}")))?;
        Ok(Some(event))
    }
}

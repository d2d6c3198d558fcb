//! Names of the keys, and the ends of the streams.

use crate::entry::{BYTES_MAX, EntryId};
use akash_provider_core::types::Topic;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, RedisResult, Value};

#[derive(Debug)]
pub(crate) struct RedisKeys {
    prefix: String,
}

/// State of the bus and of each requested topic, read in one transaction.
#[derive(Debug)]
pub(crate) struct Heads {
    pub(crate) epoch: Option<String>,
    pub(crate) sequence: u64,
    /// End of the stream and last retained event of each requested topic, in the requested order.
    pub(crate) topics: Vec<(EntryId, Option<String>)>,
}

impl RedisKeys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
        }
    }

    pub(crate) fn epoch(&self) -> String {
        format!("{}:epoch", self.prefix)
    }

    pub(crate) fn sequence(&self) -> String {
        format!("{}:sequence", self.prefix)
    }

    pub(crate) fn counts(&self) -> String {
        format!("{}:counts", self.prefix)
    }

    pub(crate) fn publisher(&self, id: &str) -> String {
        format!("{}:publisher:{id}", self.prefix)
    }

    pub(crate) fn fact(&self, id: &str) -> String {
        format!("{}:fact:{id}", self.prefix)
    }

    pub(crate) fn election(&self, name: &str) -> String {
        format!("{}:election:{name}", self.prefix)
    }

    pub(crate) fn stream(&self, topic: Topic) -> String {
        format!("{}:stream:{}", self.prefix, topic.name())
    }

    pub(crate) fn last(&self, topic: Topic) -> String {
        format!("{}:last:{}", self.prefix, topic.name())
    }
}

/// Returns the command that reads the last event of a topic. The response is empty if the topic has no event.
/// The response has at most one byte more than the largest valid event, so that the caller detects a larger
/// event.
pub(crate) fn last(key: &str) -> Cmd {
    redis::cmd("GETRANGE").arg(key).arg(0).arg(BYTES_MAX).to_owned()
}

impl Heads {
    /// Moves all positions to the start of the epoch.
    pub(crate) fn at_start_of_epoch(mut self) -> Self {
        let epoch = self.epoch.as_deref().and_then(|epoch| epoch.rsplit_once('@'));
        if let Some(sequence) = epoch.and_then(|(_, start)| start.parse().ok()) {
            for (end, _) in &mut self.topics {
                // The number of earlier events of the topic is unknown, so none counts as missing.
                let count = u64::MAX;
                *end = EntryId { sequence, count };
            }
        }
        self
    }

    pub(crate) async fn read(
        connection: &mut MultiplexedConnection,
        keys: &RedisKeys,
        topics: &[Topic],
    ) -> RedisResult<Self> {
        let mut query = redis::pipe();
        query.atomic();
        query.cmd("MGET").arg(keys.epoch()).arg(keys.sequence());
        query.cmd("HMGET").arg(keys.counts());
        for topic in topics {
            query.arg(topic.name());
        }
        for topic in topics {
            query.add_command(last(&keys.last(*topic)));
        }
        let mut replies: Vec<Value> = query.query_async(connection).await?;
        let lasts = replies.split_off(2.min(replies.len()));
        let lasts = lasts.into_iter().map(String::from_redis_value);
        let lasts = lasts.collect::<Result<Vec<_>, _>>()?;
        let lasts = lasts
            .into_iter()
            .map(|text| Some(text).filter(|text| !text.is_empty()));
        type Replies = ((Option<String>, Option<u64>), Vec<Option<u64>>);
        let ((epoch, sequence), counts): Replies = redis::from_redis_value(Value::Array(replies))?;
        let sequence = sequence.unwrap_or(0);
        let ends = counts.into_iter().map(|count| EntryId {
            sequence,
            count: count.unwrap_or(0),
        });
        Ok(Self {
            epoch,
            sequence,
            topics: ends.zip(lasts).collect(),
        })
    }
}

//! Where everything lies, and how far there is something.

use crate::entry::EntryId;
use akash_provider_core::types::Topic;
use redis::RedisResult;
use redis::aio::MultiplexedConnection;

/// Names of the keys.
#[derive(Debug)]
pub(crate) struct Keys {
    prefix: String,
}

/// How far the server is, as one look at it says.
#[derive(Debug)]
pub(crate) struct Heads {
    pub(crate) epoch: Option<String>,
    pub(crate) sequence: u64,
    /// Of each topic that was asked for, in that order: where its stream ends, and its last event where it is retained.
    pub(crate) topics: Vec<(EntryId, Option<String>)>,
}

impl Keys {
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

impl Heads {
    /// Before the first event of the epoch, all of which are new to whoever read another one.
    pub(crate) fn at_start_of_epoch(mut self) -> Self {
        let epoch = self.epoch.as_deref().and_then(|epoch| epoch.rsplit_once('@'));
        if let Some(sequence) = epoch.and_then(|(_, start)| start.parse().ok()) {
            for (end, _) in &mut self.topics {
                // How many of the topic there were before is not known, and so none of them is counted as missing.
                let count = u64::MAX;
                *end = EntryId { sequence, count };
            }
        }
        self
    }

    /// One look at everything, so that no event lies between its parts.
    pub(crate) async fn read(
        connection: &mut MultiplexedConnection,
        keys: &Keys,
        topics: &[Topic],
    ) -> RedisResult<Self> {
        let mut asked = redis::pipe();
        asked.atomic();
        asked.cmd("MGET").arg(keys.epoch()).arg(keys.sequence());
        asked.cmd("HMGET").arg(keys.counts());
        for topic in topics {
            asked.arg(topic.name());
        }
        asked.cmd("MGET");
        for topic in topics {
            asked.arg(keys.last(*topic));
        }
        type Said = (
            (Option<String>, Option<u64>),
            Vec<Option<u64>>,
            Vec<Option<String>>,
        );
        let ((epoch, sequence), counts, lasts): Said = asked.query_async(connection).await?;
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

//! Subscriber of topics. The reader pulls events, so that unread events wait in the bounded streams on the server.

use crate::connection::{RedisEndpoint, ServerId, unavailable};
use crate::entry::{self, BYTES_MAX, ENTRY_MAX, EntryId, StreamEntry};
use crate::position::Heads;
use akash_provider_core::Error;
use akash_provider_core::bus::{Delivery, EventStream};
use akash_provider_core::types::Topic;
use futures::StreamExt;
use redis::aio::MultiplexedConnection;
use redis::streams::StreamReadReply;
use redis::{RedisError, RedisResult, Script};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Maximum time for which the server waits for new entries.
const BLOCK: Duration = Duration::from_secs(2);
/// Maximum time for a response, including the blocking time.
const RESPONSE_LIMIT: Duration = Duration::from_secs(7);
/// Maximum number of entries per stream in a response.
const BATCH: usize = 256;
/// Size at which a response is complete, in bytes. Each further stream then adds only its first entry.
const BATCH_BYTES: usize = BYTES_MAX;

/// Reads entries up to a maximum number and a maximum total size. `XREAD` would limit only the number. For an
/// entry that is too large, the script returns only the id and the epoch, with an invalid version. The first
/// new entry of each stream is returned even above the maximum total size, because the reader merges the
/// streams in order.
///
/// Keys: the streams. Arguments: maximum bytes, maximum bytes of one entry, maximum entries per stream, and
/// the last read id of each stream.
const SOURCE: &str = r"
local left = tonumber(ARGV[1])
local read = {}
for at, key in ipairs(KEYS) do
  local entries = {}
  local after = ARGV[3 + at]
  while #entries < tonumber(ARGV[3]) and (left > 0 or #entries == 0) do
    local entry = redis.call('XRANGE', key, '(' .. after, '+', 'COUNT', 1)[1]
    if not entry then break end
    after = entry[1]
    local bytes = 0
    for _, field in ipairs(entry[2]) do bytes = bytes + #field end
    if bytes > tonumber(ARGV[2]) then
      local short = {'v', 'too large'}
      for i = 1, #entry[2], 2 do
        if entry[2][i] == 'epoch' and #entry[2][i + 1] <= 256 then
          short = {'v', 'too large', 'epoch', entry[2][i + 1]}
        end
      end
      entry[2] = short
    else
      left = left - bytes
    end
    entries[#entries + 1] = entry
  end
  if #entries > 0 then read[#read + 1] = {key, entries} end
end
return read
";
/// First and maximum delay between two attempts to connect.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

pub(crate) struct TopicReader {
    link: Arc<RedisEndpoint>,
    topics: Vec<Topic>,
    /// Id of the last read entry of each topic.
    at: Vec<EntryId>,
    epoch: Option<String>,
    server: Option<ServerId>,
    connection: Option<MultiplexedConnection>,
    ready: VecDeque<Delivery>,
    pause: Duration,
    /// True after an invalid entry was logged. Later invalid entries are not logged.
    has_logged_invalid: bool,
    /// True if the current outage was logged.
    is_away: bool,
    batch: Script,
}

impl TopicReader {
    /// Subscribes at the current end of the streams.
    pub(crate) async fn open(link: Arc<RedisEndpoint>, topics: &[Topic]) -> Result<Self, Error> {
        let mut unique = Vec::new();
        for topic in topics {
            if !unique.contains(topic) {
                unique.push(*topic);
            }
        }
        let mut reader = Self {
            link,
            at: Vec::new(),
            topics: unique,
            epoch: None,
            server: None,
            connection: None,
            ready: VecDeque::new(),
            pause: PAUSE.0,
            has_logged_invalid: false,
            is_away: false,
            batch: Script::new(SOURCE),
        };
        if reader.topics.is_empty() {
            return Ok(reader);
        }
        let mut connection = reader.link.connect("subscribe", RESPONSE_LIMIT).await?;
        reader.server = ServerId::read(&mut connection).await.map_err(failed)?;
        let heads = reader.heads(&mut connection).await.map_err(failed)?;
        reader.move_to(heads);
        reader.connection = Some(connection);
        Ok(reader)
    }

    pub(crate) fn into_stream(self) -> EventStream {
        futures::stream::unfold(self, |mut reader| async move {
            let delivery = reader.next().await?;
            Some((delivery, reader))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Delivery> {
        if self.topics.is_empty() {
            // Without topics there are no events, and the stream must not end before its bus.
            std::future::pending::<()>().await;
        }
        loop {
            if let Some(delivery) = self.ready.pop_front() {
                return Some(delivery);
            }
            if let Err(error) = self.read().await {
                if !std::mem::replace(&mut self.is_away, true) {
                    tracing::warn!(%error, "cannot read events from Redis, retrying; check the Redis server");
                }
                sleep(self.pause).await;
                self.pause = (self.pause * 2).min(PAUSE.1);
            }
        }
    }

    async fn read(&mut self) -> Result<(), Error> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.reconnect().await?,
        };
        let outcome = match self.request(&mut connection).await {
            Ok(Some(reply)) => self.take(&reply, &mut connection).await,
            Ok(None) => self.check_for_loss(&mut connection).await,
            Err(error) => Err(error),
        };
        outcome.map_err(failed)?;
        // Set only after success: a failed connection is dropped.
        self.connection = Some(connection);
        self.pause = PAUSE.0;
        if std::mem::take(&mut self.is_away) {
            tracing::info!("events can be read from Redis again");
        }
        Ok(())
    }

    async fn request(&self, connection: &mut MultiplexedConnection) -> RedisResult<Option<StreamReadReply>> {
        let mut batch = self.batch.prepare_invoke();
        for topic in &self.topics {
            batch.key(self.link.keys().stream(*topic));
        }
        batch.arg(BATCH_BYTES).arg(ENTRY_MAX).arg(BATCH);
        for at in &self.at {
            batch.arg(at.to_string());
        }
        let reply: StreamReadReply = batch.invoke_async(connection).await?;
        if !reply.keys.is_empty() {
            return Ok(Some(reply));
        }
        let mut command = redis::cmd("XREAD");
        // Waits for the next entry only.
        command.arg("COUNT").arg(1);
        command.arg("BLOCK").arg(BLOCK.as_millis() as u64).arg("STREAMS");
        for topic in &self.topics {
            command.arg(self.link.keys().stream(*topic));
        }
        for at in &self.at {
            command.arg(at.to_string());
        }
        command.query_async(connection).await
    }

    /// Connects to the current master. Events may be missing after a restart or replacement of the server.
    async fn reconnect(&mut self) -> Result<MultiplexedConnection, Error> {
        let mut connection = self.link.connect("subscribe", RESPONSE_LIMIT).await?;
        let server = ServerId::read(&mut connection).await.map_err(failed)?;
        let is_same = server.is_some() && server == self.server;
        if !is_same {
            let heads = self.heads(&mut connection).await.map_err(failed)?;
            self.lost(heads);
            self.server = server;
        }
        Ok(connection)
    }

    async fn heads(&self, connection: &mut MultiplexedConnection) -> RedisResult<Heads> {
        Heads::read(connection, self.link.keys(), &self.topics).await
    }

    fn highest(&self) -> u64 {
        self.at.iter().map(|at| at.sequence).max().unwrap_or(0)
    }

    /// Checks for lost events after an empty read.
    async fn check_for_loss(&mut self, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        let heads = self.heads(connection).await?;
        let is_other = self.epoch.is_some() && heads.epoch != self.epoch;
        if is_other || heads.sequence < self.highest() {
            self.lost(heads);
        }
        Ok(())
    }

    /// Reports lost events, and delivers the last event of each retained topic. If the server has a new epoch
    /// or lower sequence numbers, reading continues at the start of the server's epoch. Some events may then
    /// be delivered twice.
    fn lost(&mut self, heads: Heads) {
        self.ready.push_back(Delivery::Lagged(None));
        for (topic, (_, last)) in self.topics.iter().zip(&heads.topics) {
            if let Some(Ok(event)) = last.as_deref().map(entry::event) {
                self.ready.push_back(Delivery::Event { topic: *topic, event });
            }
        }
        let is_ours = heads.epoch.is_some() && heads.epoch == self.epoch;
        let goes_on = is_ours && heads.sequence >= self.highest();
        if !goes_on {
            self.move_to(heads.at_start_of_epoch());
        }
    }

    fn move_to(&mut self, heads: Heads) {
        self.epoch = heads.epoch;
        self.at = heads.topics.into_iter().map(|(end, _)| end).collect();
    }

    /// Delivers the entries of `reply` in the order of publication, across all topics.
    async fn take(
        &mut self,
        reply: &StreamReadReply,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<()> {
        for (place, mut entry) in self.sorted(reply)? {
            if self.epoch.is_none() {
                self.epoch = Some(entry.epoch.clone());
            }
            if self.epoch.as_deref() != Some(&entry.epoch) {
                let heads = self.heads(connection).await?;
                if heads.epoch != self.epoch {
                    self.lost(heads);
                    return Ok(());
                }
                // A reader that stays before this entry would read it forever.
                entry.event = Err("unknown epoch".to_owned());
            }
            self.deliver(place, entry);
        }
        Ok(())
    }

    fn deliver(&mut self, place: usize, entry: StreamEntry) {
        let (Some(topic), Some(at)) = (self.topics.get(place).copied(), self.at.get_mut(place)) else {
            return;
        };
        let missing = entry.id.count.saturating_sub(at.count.saturating_add(1));
        *at = entry.id;
        if missing > 0 {
            self.ready.push_back(Delivery::Lagged(Some(missing)));
        }
        match entry.event {
            Ok(event) => self.ready.push_back(Delivery::Event { topic, event }),
            Err(why) => {
                self.ready.push_back(Delivery::Lagged(Some(1)));
                self.log_invalid(&format!("invalid event {} of {}: {why}", entry.id, topic.name()));
            }
        }
    }

    /// Returns the entries in order of publication, each with the index of its topic. Omits an entry if
    /// another stream can still contain an older entry. Omitted entries are read again.
    fn sorted(&self, reply: &StreamReadReply) -> RedisResult<Vec<(usize, StreamEntry)>> {
        let keys: Vec<String> = self
            .topics
            .iter()
            .map(|topic| self.link.keys().stream(*topic))
            .collect();
        let mut entries = Vec::new();
        let mut horizon = u64::MAX;
        for stream in &reply.keys {
            let Some(place) = keys.iter().position(|key| *key == stream.key) else {
                continue;
            };
            for raw in &stream.ids {
                entries.push((place, StreamEntry::read(raw)?));
            }
            if let Some((_, last)) = entries.last() {
                horizon = horizon.min(last.id.sequence);
            }
        }
        entries.retain(|(_, entry)| entry.id.sequence <= horizon);
        entries.sort_by_key(|(_, entry)| entry.id);
        Ok(entries)
    }

    fn log_invalid(&mut self, what: &str) {
        if !std::mem::replace(&mut self.has_logged_invalid, true) {
            tracing::warn!(
                problem = what,
                "invalid event on the bus skipped; further invalid events are not logged"
            );
        }
    }
}

fn failed(error: RedisError) -> Error {
    unavailable("subscribe", &error)
}

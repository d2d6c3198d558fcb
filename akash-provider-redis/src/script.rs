//! Publishing: one script, which writes all of an event or nothing of it.

use crate::STATUSES_KEPT;
use crate::connection::{Line, Link};
use crate::entry::{BYTES_MAX, VERSION};
use akash_provider_core::types::{Event, Topic};
use akash_provider_core::{Error, ErrorKind};
use redis::{Cmd, FromRedisValue, RedisError, Script};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest time for an answer: what is published goes to memory.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// For how long the server remembers what a publisher sent last.
const REMEMBERED_S: u64 = 3600;

/// Numbers stay below 2^53, so they are exact in Lua. A sequence that went back, or a stream that is ahead of it, means
/// that what was there is lost or not ours: from there on it is another epoch, whose ids are higher than all before, so
/// that readers that wait for higher ones see it. Its name ends with the sequence after which it begins.
const SOURCE: &str = r"
local sent = tonumber(redis.call('GET', KEYS[6]) or '0')
if sent >= tonumber(ARGV[6]) then
  return redis.call('GET', KEYS[2])
end
local number = function(value) return string.format('%.0f', value) end
local epoch = redis.call('GET', KEYS[1])
local sequence = tonumber(redis.call('GET', KEYS[2]) or '0')
local known = tonumber(ARGV[2])
local info = redis.pcall('XINFO', 'STREAM', KEYS[4])
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then
    known = math.max(known, tonumber(string.match(info[i + 1], '^%d+')))
  end
end
if not epoch or sequence < known then
  sequence = math.max(sequence, known)
  epoch = ARGV[1] .. '@' .. number(sequence)
end
sequence = sequence + 1
local count = tonumber(redis.call('HGET', KEYS[3], ARGV[3]) or '0') + 1
local time = redis.call('TIME')
local at = number(tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
redis.call('XADD', KEYS[4], 'MAXLEN', ARGV[4], number(sequence) .. '-' .. number(count),
  'v', ARGV[7], 'epoch', epoch, 'at', at, 'event', ARGV[5])
redis.call('SET', KEYS[1], epoch)
redis.call('SET', KEYS[2], number(sequence))
redis.call('HSET', KEYS[3], ARGV[3], number(count))
redis.call('SET', KEYS[6], ARGV[6], 'EX', ARGV[8])
if KEYS[5] ~= '' then
  redis.call('SET', KEYS[5], ARGV[5])
end
return number(sequence)
";

/// The side that writes, with one connection for all that it is asked.
pub(crate) struct Publisher {
    line: Line,
    script: Script,
    /// Of this process, so that what it sends twice is there once.
    id: String,
    sent: AtomicU64,
    /// The highest sequence that the server gave to one of our events. One that is behind it has lost some.
    acknowledged: AtomicU64,
    facts_kept: usize,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher")
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

impl Publisher {
    pub(crate) fn new(link: Arc<Link>, facts_kept: usize) -> Self {
        Self {
            line: Line::new(link, ANSWER_LIMIT),
            script: Script::new(SOURCE),
            id: random(),
            sent: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            facts_kept,
        }
    }

    pub(crate) async fn publish(&self, topic: Topic, event: &Event) -> Result<(), Error> {
        let internal = |why: String| Error::new(ErrorKind::Internal, "publish", why);
        let text = serde_json::to_string(event).map_err(|error| internal(error.to_string()))?;
        if text.len() > BYTES_MAX {
            let length = text.len();
            return Err(internal(format!(
                "an event of {} has {length} bytes, more than the {BYTES_MAX} that a reader takes",
                topic.name()
            )));
        }
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        // Once more after a connection that broke: whether the server had it is unknown then, and it tells repeats.
        let first = self.send(topic, &text, number).await;
        let sequence = match first {
            Err(error) if error.is_transient() => self.send(topic, &text, number).await?,
            other => other?,
        };
        self.acknowledged.fetch_max(sequence, Ordering::Relaxed);
        Ok(())
    }

    async fn send(&self, topic: Topic, text: &str, number: u64) -> Result<u64, Error> {
        let keys = self.line.link().keys();
        let last = topic.is_retained().then(|| keys.last(topic));
        let kept = if topic.is_retained() {
            STATUSES_KEPT
        } else {
            self.facts_kept
        };
        let mut script = self.script.prepare_invoke();
        script
            .key(keys.epoch())
            .key(keys.sequence())
            .key(keys.counts())
            .key(keys.stream(topic))
            .key(last.unwrap_or_default())
            .key(keys.publisher(&self.id))
            .arg(random())
            .arg(self.acknowledged.load(Ordering::Relaxed))
            .arg(topic.name())
            .arg(kept)
            .arg(text)
            .arg(number)
            .arg(VERSION)
            .arg(REMEMBERED_S);
        let mut connection = self.line.connected("publish").await?;
        let said: Result<u64, RedisError> = script.invoke_async(&mut connection).await;
        self.line.judged("publish", said).await
    }

    /// Asks one thing.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        operation: &'static str,
        command: Cmd,
    ) -> Result<T, Error> {
        let mut connection = self.line.connected(operation).await?;
        let said = command.query_async(&mut connection).await;
        self.line.judged(operation, said).await
    }
}

/// Sixteen digits that nobody else has.
pub(crate) fn random() -> String {
    let mut bytes = [0; 8];
    // A machine without randomness has no TLS either; a fixed text costs a repeat that is not told.
    getrandom::fill(&mut bytes).ok();
    data_encoding::HEXLOWER.encode(&bytes)
}

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
use tokio::sync::Mutex;

/// Longest time for an answer: what is published goes to memory.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// For how long the server remembers what a publisher sent last.
const REMEMBERED_S: u64 = 3600;
/// Time for which the server stores the id of a fact, in seconds: longer than two of the longest leases, which is what
/// a new leader publishes again.
const IDS_KEPT_S: u64 = 900;

/// Numbers stay below 2^53, so they are exact in Lua: a sequence above 2^50, which no provider reaches, is forged and
/// counts as lost. A sequence that went back, or a stream that is ahead of it, means
/// that what was there is lost or not ours: from there on it is another epoch, whose ids are higher than all before, so
/// that readers that wait for higher ones see it. Its name ends with the sequence after which it begins.
///
/// Keys: epoch, sequence, counts, publisher, and of each event its stream, its last and the key of its id. Arguments: a name for a new epoch,
/// the sequence that is known, the number of the first event, the version, the lifetimes of the publisher and of ids, and of
/// each event its topic, how many are kept, itself.
///
/// A fact with an id that was published within the last [`IDS_KEPT_S`] is not written again: after a fail-over the new leader
/// publishes facts of the time between, and the old one may have published some of them.
const SOURCE: &str = r"
local number = function(value) return string.format('%.0f', value) end
local first = tonumber(ARGV[3])
local many = (#KEYS - 4) / 3
local sent = tonumber(redis.call('GET', KEYS[4]) or '0')
local sequence = tonumber(redis.call('GET', KEYS[2]) or '0') or 0
if not (sequence >= 0 and sequence <= 2^50) then
  sequence = 0
end
if sent >= first + many - 1 then
  return number(sequence)
end
local epoch = redis.call('GET', KEYS[1])
local known = tonumber(ARGV[2])
local looked = {}
for at = 0, many - 1 do
  local stream = KEYS[5 + 3 * at]
  if not looked[stream] then
    looked[stream] = true
    local info = redis.pcall('XINFO', 'STREAM', stream)
    for i = 1, #info, 2 do
      if info[i] == 'last-generated-id' then
        known = math.max(known, tonumber(string.match(info[i + 1], '^%d+')))
      end
    end
  end
end
if not epoch or sequence < known then
  sequence = math.max(sequence, known)
  epoch = ARGV[1] .. '@' .. number(sequence)
end
local time = redis.call('TIME')
local now = number(tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
for at = math.max(0, sent + 1 - first), many - 1 do
  local stream, last, id = KEYS[5 + 3 * at], KEYS[6 + 3 * at], KEYS[7 + 3 * at]
  local topic, kept, event = ARGV[7 + 3 * at], ARGV[8 + 3 * at], ARGV[9 + 3 * at]
  if id == '' or redis.call('SET', id, '1', 'NX', 'EX', ARGV[6]) then
    sequence = sequence + 1
    local count = tonumber(redis.call('HGET', KEYS[3], topic) or '0') + 1
    redis.call('XADD', stream, 'MAXLEN', kept, number(sequence) .. '-' .. number(count),
      'v', ARGV[4], 'epoch', epoch, 'at', now, 'event', event)
    redis.call('HSET', KEYS[3], topic, number(count))
    if last ~= '' then
      redis.call('SET', last, event)
    end
  end
end
redis.call('SET', KEYS[1], epoch)
redis.call('SET', KEYS[2], number(sequence))
redis.call('SET', KEYS[4], number(first + many - 1), 'EX', ARGV[5])
return number(sequence)
";

/// Events that are sent at once, and what they may have together: the server does nothing else meanwhile.
pub(crate) const AT_ONCE: usize = 128;
const TOGETHER_BYTES: usize = 1 << 20;

/// The side that writes, with one connection for all that it is asked.
pub(crate) struct Publisher {
    line: Line,
    script: Script,
    /// Of this process, so that what it sends twice is there once.
    id: String,
    /// Number of the last event. Held while events are sent: the server drops a number that comes after a higher one.
    sent: Mutex<u64>,
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
            sent: Mutex::new(0),
            acknowledged: AtomicU64::new(0),
            facts_kept,
        }
    }

    /// Publishes all of them in their order; one outcome for each.
    pub(crate) async fn publish(&self, events: &[(Topic, Arc<Event>)]) -> Vec<Result<(), Error>> {
        let mut outcomes = Vec::with_capacity(events.len());
        let mut waiting: Vec<Written> = Vec::new();
        let mut bytes = 0;
        for (topic, event) in events {
            let written = Written::new(*topic, event);
            let length = written.as_ref().map_or(0, |written| written.text.len());
            if waiting.len() >= AT_ONCE || bytes + length > TOGETHER_BYTES || written.is_err() {
                self.send_all(&mut waiting, &mut outcomes).await;
                bytes = 0;
            }
            match written {
                Ok(written) => {
                    bytes += length;
                    waiting.push(written);
                }
                Err(error) => outcomes.push(Err(error)),
            }
        }
        self.send_all(&mut waiting, &mut outcomes).await;
        outcomes
    }

    async fn send_all(&self, waiting: &mut Vec<Written>, outcomes: &mut Vec<Result<(), Error>>) {
        if waiting.is_empty() {
            return;
        }
        let events = std::mem::take(waiting);
        let many = events.len() as u64;
        let mut sent = self.sent.lock().await;
        let number = *sent + 1;
        *sent += many;
        // Once more after a connection that broke: whether the server had it is unknown then, and it tells repeats.
        let first = self.send(&events, number).await;
        let sequence = match first {
            Err(error) if error.is_transient() => self.send(&events, number).await,
            other => other,
        };
        if let Ok(sequence) = sequence {
            self.acknowledged.fetch_max(sequence, Ordering::Relaxed);
        }
        outcomes.extend(events.iter().map(|_| match &sequence {
            Ok(_) => Ok(()),
            Err(error) => Err(same(error)),
        }));
    }

    async fn send(&self, events: &[Written], number: u64) -> Result<u64, Error> {
        let keys = self.line.link().keys();
        let mut script = self.script.prepare_invoke();
        script
            .key(keys.epoch())
            .key(keys.sequence())
            .key(keys.counts())
            .key(keys.publisher(&self.id))
            .arg(random())
            .arg(self.acknowledged.load(Ordering::Relaxed))
            .arg(number)
            .arg(VERSION)
            .arg(REMEMBERED_S)
            .arg(IDS_KEPT_S);
        for Written { topic, id, text } in events {
            let last = topic.is_retained().then(|| keys.last(*topic));
            let kept = if topic.is_retained() {
                STATUSES_KEPT
            } else {
                self.facts_kept
            };
            script
                .key(keys.stream(*topic))
                .key(last.unwrap_or_default())
                .key(id.as_deref().map(|id| keys.fact(id)).unwrap_or_default())
                .arg(topic.name())
                .arg(kept)
                .arg(text);
        }
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

/// An event as it is sent.
struct Written {
    topic: Topic,
    id: Option<String>,
    text: String,
}

impl Written {
    fn new(topic: Topic, event: &Event) -> Result<Self, Error> {
        let internal = |why: String| Error::new(ErrorKind::Internal, "publish", why);
        let text = serde_json::to_string(&event.with_id()).map_err(|error| internal(error.to_string()))?;
        if text.len() > BYTES_MAX {
            let length = text.len();
            return Err(internal(format!(
                "an event of {} has {length} bytes, more than the {BYTES_MAX} that a reader takes",
                topic.name()
            )));
        }
        let id = event.id();
        Ok(Self { topic, id, text })
    }
}

/// What went wrong with several events, for one of them.
fn same(error: &Error) -> Error {
    let told = Error::new(error.kind(), "publish", error.message());
    match error.is_transient() {
        true => told,
        false => told.permanent(),
    }
}

/// Sixteen digits that nobody else has.
pub(crate) fn random() -> String {
    let mut bytes = [0; 8];
    // A machine without randomness has no TLS either; a fixed text costs a repeat that is not told.
    getrandom::fill(&mut bytes).ok();
    data_encoding::HEXLOWER.encode(&bytes)
}

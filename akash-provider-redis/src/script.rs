//! Publication of events with a script, atomically.

use crate::STATUSES_PER_STREAM;
use crate::connection::{RedisEndpoint, SharedConnection};
use crate::entry::{BYTES_MAX, VERSION};
use akash_provider_core::election::{LEASE_DURATION_MAX, LeadershipGate};
use akash_provider_core::types::{Event, Topic};
use akash_provider_core::{Error, ErrorKind};
use redis::{Cmd, FromRedisValue, RedisError, Script};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// Maximum time for a response.
const RESPONSE_LIMIT: Duration = Duration::from_secs(3);
/// Lifetime of the key that stores the last event number of a publisher, in seconds.
const PUBLISHER_LIFETIME_S: u64 = 3600;
/// Time for which the ID of a published fact is stored, in seconds. After a fail-over, the new leader
/// publishes the facts of the last two election lease durations again. The additional 5 minutes allow for
/// delays.
const ID_LIFETIME_S: u64 = 2 * LEASE_DURATION_MAX.as_secs() + 300;

/// Publishes events. Numbers stay below 2^53, so they are exact in Lua. A provider never stores a sequence
/// above 2^50, so the script reads such a sequence as 0.
///
/// If the stored sequence is lower than the known sequence, events were lost or another program wrote events.
/// The script then starts a new epoch, and readers notice the loss. The ids of the new epoch are higher than
/// all earlier ids. The name of an epoch ends with the sequence before its first event.
///
/// Keys: epoch, sequence, counts, publisher, and for each event its stream, its last event and the key of its
/// id. Arguments: a name for a new epoch, the known sequence, the number of the first event, the version, the
/// lifetimes of the publisher and of ids, and for each event its topic, the length of its stream and its
/// JSON.
///
/// A fact with an id published within [`ID_LIFETIME_S`] is not written again, because the new leader repeats
/// recent facts after a fail-over.
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

/// Maximum number of events in one script call. During a script call, all other commands of the server wait.
pub(crate) const AT_ONCE: usize = 128;
const TOGETHER_BYTES: usize = 1 << 20;

/// Publisher with one connection.
pub(crate) struct Publisher {
    connection: SharedConnection,
    script: Script,
    /// Id of this process, with which the server detects events that were published twice.
    id: String,
    /// Number of the last sent event. The lock is held until the server responds, so that events arrive in
    /// order. The server drops an event with a lower number than the previous event.
    sent: Mutex<u64>,
    /// Highest sequence number that the server assigned to this publisher. If a later response contains a
    /// lower number, events were lost.
    acknowledged: AtomicU64,
    stored_facts: usize,
    gate: LeadershipGate,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher")
            .field("line", &self.connection)
            .finish_non_exhaustive()
    }
}

impl Publisher {
    pub(crate) fn new(link: Arc<RedisEndpoint>, gate: LeadershipGate, stored_facts: usize) -> Self {
        Self {
            gate,
            connection: SharedConnection::new(link, RESPONSE_LIMIT),
            script: Script::new(SOURCE),
            id: random(),
            sent: Mutex::new(0),
            acknowledged: AtomicU64::new(0),
            stored_facts,
        }
    }

    /// Publishes the events in this order. Returns one result per event.
    pub(crate) async fn publish(&self, events: &[(Topic, Arc<Event>)]) -> Vec<Result<(), Error>> {
        let mut outcomes = Vec::with_capacity(events.len());
        let mut waiting: Vec<EncodedEvent> = Vec::new();
        let mut bytes = 0;
        for (topic, event) in events {
            let written = EncodedEvent::new(*topic, event);
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

    async fn send_all(&self, waiting: &mut Vec<EncodedEvent>, outcomes: &mut Vec<Result<(), Error>>) {
        if waiting.is_empty() {
            return;
        }
        let events = std::mem::take(waiting);
        let many = events.len() as u64;
        let mut sent = self.sent.lock().await;
        let number = *sent + 1;
        *sent += many;
        // One retry after a broken connection. The server may have the events and drops duplicates.
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
            Err(error) => Err(copy_of(error)),
        }));
    }

    async fn send(&self, events: &[EncodedEvent], number: u64) -> Result<u64, Error> {
        let keys = self.connection.link().keys();
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
            .arg(PUBLISHER_LIFETIME_S)
            .arg(ID_LIFETIME_S);
        for EncodedEvent { topic, id, text } in events {
            let last = topic.is_retained().then(|| keys.last(*topic));
            let stored_entries = if topic.is_retained() {
                STATUSES_PER_STREAM
            } else {
                self.stored_facts
            };
            script
                .key(keys.stream(*topic))
                .key(last.unwrap_or_default())
                .key(id.as_deref().map(|id| keys.fact(id)).unwrap_or_default())
                .arg(topic.name())
                .arg(stored_entries)
                .arg(text);
        }
        let mut connection = self.connection.connected("publish").await?;
        let refused = |why| Error::new(ErrorKind::Unavailable, "publish", why).permanent();
        let permit = self.gate.permit();
        let permit = permit.ok_or_else(|| refused("not published: another instance may be the leader"))?;
        let sending = script.invoke_async(&mut connection);
        let response: Option<Result<u64, RedisError>> = self.gate.under(&permit, sending).await;
        let response = response.ok_or_else(|| refused("the leadership ended during the publication"))?;
        self.connection.check("publish", response).await
    }

    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        operation: &'static str,
        command: Cmd,
    ) -> Result<T, Error> {
        let mut connection = self.connection.connected(operation).await?;
        let response = command.query_async(&mut connection).await;
        self.connection.check(operation, response).await
    }
}

struct EncodedEvent {
    topic: Topic,
    id: Option<String>,
    text: String,
}

impl EncodedEvent {
    fn new(topic: Topic, event: &Event) -> Result<Self, Error> {
        let internal = |why: String| Error::new(ErrorKind::Internal, "publish", why);
        let text = serde_json::to_string(&event.with_id()).map_err(|error| internal(error.to_string()))?;
        if text.len() > BYTES_MAX {
            let length = text.len();
            return Err(internal(format!(
                "event of {}: {length} bytes exceed the maximum of {BYTES_MAX} bytes",
                topic.name()
            )));
        }
        let id = event.id();
        Ok(Self { topic, id, text })
    }
}

/// Copies an error, so that every event of a failed batch gets this error.
fn copy_of(error: &Error) -> Error {
    let copy = Error::new(error.kind(), "publish", error.message());
    match error.is_transient() {
        true => copy,
        false => copy.permanent(),
    }
}

/// Returns 16 random hexadecimal digits.
pub(crate) fn random() -> String {
    let mut bytes = [0; 8];
    // Without randomness TLS fails too; a fixed text only disables the detection of duplicates.
    getrandom::fill(&mut bytes).ok();
    data_encoding::HEXLOWER.encode(&bytes)
}

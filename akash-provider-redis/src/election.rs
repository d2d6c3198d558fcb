//! Leader election with a Redis record, for [`Election`](akash_provider_core::election::Election).
//!
//! ```text
//!   {prefix}:election:<name>        version, holder, term, lease_ms, beside; written by a compare-and-set script
//!   {prefix}:election:<name>:term   highest term ever used; never decreases
//! ```
//! The keys do not expire. Candidates measure with their own clocks how long the record has not changed, so a jump of
//! the server's clock creates no second leader. A server that is out of memory does not evict the term.

use crate::connection::{RedisEndpoint, SharedConnection};
use crate::location::Location;
use crate::script::random;
use akash_provider_core::election::{
    Claim, ElectionRecord, ElectionStore, PAYLOAD_MAX, RecordPayload, Stored, TERM_LEAP, TERM_MAX,
};
use akash_provider_core::{Error, ErrorKind};
use async_trait::async_trait;
use redis::{RedisError, Script};
use std::sync::Arc;
use std::time::Duration;

/// Maximum time for a response.
const RESPONSE_LIMIT: Duration = Duration::from_secs(3);

/// Writes the record if the record has the expected version; an empty version means a missing record. Returns
/// the term of the written record.
///
/// A new term is the requested term. If Redis contains this term or a higher term, the new term is the
/// highest term in Redis plus 1. An implausibly high term in Redis counts as 0, because only a forged term is
/// so high. All other terms are small enough for exact numbers in Lua.
const SOURCE: &str = r"
local version = redis.call('HGET', KEYS[1], 'version') or ''
if version ~= ARGV[1] then
  return false
end
local number = function(value) return string.format('%.0f', value) end
local known = tonumber(redis.call('GET', KEYS[2]) or '0') or 0
local term = tonumber(ARGV[4])
local forged = not (known <= tonumber(ARGV[8]) and known <= term + tonumber(ARGV[9]))
if forged then
  known = 0
end
if ARGV[5] == '1' and term <= known then
  term = known + 1
end
if term > known then
  redis.call('SET', KEYS[2], number(term))
end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'holder', ARGV[3], 'term', number(term),
  'lease_ms', ARGV[6], 'beside', ARGV[7])
return number(term)
";

/// Reads the requested fields of a record. A field above the maximum length is returned as empty.
const READ: &str = r"
local fields = {}
for i = 2, #ARGV do
  local long = redis.call('HSTRLEN', KEYS[1], ARGV[i]) > tonumber(ARGV[1])
  fields[i - 1] = not long and redis.call('HGET', KEYS[1], ARGV[i]) or ''
end
return fields
";

/// Election record that is stored on a Redis server.
#[derive(Debug)]
pub struct RedisElection {
    connection: SharedConnection,
    script: Script,
    read: Script,
    place: String,
    key: String,
}

impl RedisElection {
    /// Creates a store for the election record with this name. Sends no request.
    #[must_use]
    pub fn new(location: Location, name: &str) -> Self {
        let link = RedisEndpoint::new(location.clone());
        let key = link.keys().election(name);
        Self {
            place: format!("the key `{key}` at {location}"),
            key,
            connection: SharedConnection::new(Arc::new(link), RESPONSE_LIMIT),
            script: Script::new(SOURCE),
            read: Script::new(READ),
        }
    }

    async fn write(&self, operation: &'static str, claim: &Claim, version: &str) -> Result<Stored, Error> {
        let next = random();
        let lease_ms = u64::try_from(claim.lease.as_millis()).unwrap_or(u64::MAX);
        let mut script = self.script.prepare_invoke();
        script
            .key(&self.key)
            .key(format!("{}:term", self.key))
            .arg(version)
            .arg(&next)
            .arg(claim.holder.as_deref().unwrap_or_default())
            .arg(claim.term)
            .arg(u8::from(claim.is_new_term))
            .arg(lease_ms)
            .arg(claim.payload.to_json())
            .arg(TERM_MAX)
            .arg(TERM_LEAP);
        let mut connection = self.connection.taken(operation).await?;
        let response: Result<Option<u64>, RedisError> = script.invoke_async(&mut connection).await;
        let response = self.connection.check(operation, response).await?;
        self.connection.put_back(connection).await;
        let Some(term) = response else {
            let message = "another instance wrote the election record";
            return Err(Error::new(ErrorKind::Conflict, operation, message));
        };
        let record = ElectionRecord {
            holder: claim.holder.clone(),
            lease: Duration::from_millis(lease_ms),
            term,
            sign: next.clone(),
            payload: claim.payload.clone(),
        };
        Ok(Stored {
            record,
            version: next,
        })
    }
}

#[async_trait]
impl ElectionStore for RedisElection {
    fn place(&self) -> String {
        self.place.clone()
    }

    async fn read(&self) -> Result<Option<Stored>, Error> {
        const OPERATION: &str = "read the leader record";
        let mut invocation = self.read.prepare_invoke();
        invocation
            .key(&self.key)
            .arg(PAYLOAD_MAX)
            .arg(&["version", "holder", "term", "lease_ms", "beside"]);
        let mut connection = self.connection.taken(OPERATION).await?;
        let response = invocation.invoke_async(&mut connection).await;
        let (version, holder, term, lease_ms, beside): (String, String, String, String, String) =
            self.connection.check(OPERATION, response).await?;
        self.connection.put_back(connection).await;
        if version.is_empty() {
            return Ok(None);
        }
        let record = ElectionRecord {
            holder: (!holder.is_empty()).then_some(holder),
            lease: Duration::from_millis(lease_ms.parse().unwrap_or_default()),
            term: term.parse().unwrap_or_default(),
            sign: version.clone(),
            payload: RecordPayload::from_json(&beside),
        };
        Ok(Some(Stored { record, version }))
    }

    async fn create(&self, claim: &Claim) -> Result<Stored, Error> {
        self.write("create the leader record", claim, "").await
    }

    async fn replace(&self, claim: &Claim, version: &str) -> Result<Stored, Error> {
        self.write("update the leader record", claim, version).await
    }
}

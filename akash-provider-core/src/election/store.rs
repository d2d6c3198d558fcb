//! The election record and its store.

use crate::error::{Error, ErrorKind};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum size of a [`RecordPayload`] as JSON, in bytes.
pub const PAYLOAD_MAX: usize = 32 * 1024;
/// Maximum lease duration of an election. Longer durations are reduced to this value.
pub const LEASE_DURATION_MAX: Duration = Duration::from_secs(600);

/// Minimum timeout of a call, so that a store under load can still respond.
const FIRST_LIMIT_MIN: Duration = Duration::from_secs(1);

/// Maximum term of a record. Lua and JSON represent all numbers up to this value exactly.
pub const TERM_MAX: u64 = 1 << 40;
/// Maximum difference between the term of a record and the highest known term.
pub const TERM_LEAP: u64 = 1 << 24;

/// Timing of heartbeats and of the election lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// Time without a heartbeat after which a standby takes over.
    pub lease: Duration,
    /// Time for which an instance leads after its last successful heartbeat. Shorter than `lease`, so that
    /// two instances never lead at the same time.
    pub renew: Duration,
    /// Interval between two calls to the store.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Creates the timing for an election lease of this duration. A leader sends eight heartbeats per
    /// `lease`, and leads for two thirds of `lease` after its last successful heartbeat.
    #[must_use]
    pub fn for_lease(lease: Duration) -> Self {
        Self {
            lease,
            renew: lease * 2 / 3,
            retry: lease / 8,
        }
    }

    /// Restricts the durations to safe values: an instance can become the leader, and two instances never
    /// lead at the same time.
    pub(super) fn sane(self) -> Self {
        let lease = self.lease.clamp(Duration::from_secs(1), LEASE_DURATION_MAX);
        let renew = self.renew.min(lease * 2 / 3);
        let retry = self.retry.clamp(Duration::from_millis(10), renew / 2);
        Self { lease, renew, retry }
    }

    /// Returns the timeout of the first call, which is also the minimum timeout of later calls.
    pub(super) fn first_limit(self) -> Duration {
        (self.lease / 12).max(FIRST_LIMIT_MIN).min(self.longest_limit())
    }

    /// Returns the maximum timeout of a call. After a call without a response, the next call has this
    /// timeout.
    pub(super) const fn longest_limit(self) -> Duration {
        self.lease.saturating_sub(self.renew)
    }
}

/// Additional content of the election record, for the next leader and for clients of the leader.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordPayload {
    /// Address at which clients reach the leader; empty if unknown.
    pub address: String,
    /// Settings that all instances must share. The value of each setting is a short hash.
    pub settings: BTreeMap<String, String>,
    /// State for the next leader, in the leader's own format; empty if no state was stored.
    #[serde(rename = "kept")]
    pub state: String,
}

impl RecordPayload {
    /// Returns the payload as one line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Strings always serialize to JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the result of [`RecordPayload::to_json`]. Returns the default for a text that is empty, too
    /// long or invalid.
    #[must_use]
    pub fn from_json(text: &str) -> Self {
        if text.is_empty() || text.len() > PAYLOAD_MAX {
            return Self::default();
        }
        serde_json::from_str(text).unwrap_or_default()
    }
}

/// Content of the election record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionRecord {
    /// Identity of the leader; `None` after the leadership was released.
    pub holder: Option<String>,
    /// Time without a heartbeat after which a standby takes over.
    pub lease: Duration,
    /// Term of the leader. A term above [`TERM_MAX`], or more than [`TERM_LEAP`] above the highest known
    /// term, is not used.
    pub term: u64,
    /// Heartbeat: a text that changes with each write.
    pub sign: String,
    /// Additional content of the election record.
    pub payload: RecordPayload,
}

/// An election record with its version in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Content of the record.
    pub record: ElectionRecord,
    /// Version of the record. Each write changes the version. To replace the record, a write must name this
    /// version.
    pub version: String,
}

/// Content that an instance writes to the election record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Identity of the leader; `None` releases the leadership.
    pub holder: Option<String>,
    /// Current or new term. A store that counts terms itself may write a higher term.
    pub term: u64,
    /// Whether the write starts a new leadership instead of renewing the current leadership.
    pub is_new_term: bool,
    /// Time without a heartbeat after which a standby takes over.
    pub lease: Duration,
    /// Additional content of the election record.
    pub payload: RecordPayload,
}

/// Store of the record of one election.
///
/// # Behavior
/// - A write replaces only the named version. If several instances write at the same time, one write
///   succeeds, and the other writes return [`ErrorKind::Conflict`].
/// - Every write changes the version and the heartbeat of the record.
/// - After a write, every instance reads the written content.
/// - A write without a response may have taken effect, or may take effect later.
///
/// Run `election::conformance::suite` (feature `conformance`) with the implementation.
#[async_trait]
pub trait ElectionStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the location of the election record, as text for operators.
    fn place(&self) -> String;

    /// Returns the record, or `None` if it does not exist.
    async fn read(&self) -> Result<Option<Stored>, Error>;

    /// Creates the record if it does not exist.
    async fn create(&self, claim: &Claim) -> Result<Stored, Error>;

    /// Replaces the record if it still has the given version.
    async fn replace(&self, claim: &Claim, version: &str) -> Result<Stored, Error>;
}

/// An election record in the memory of this process. Clones share the same record.
#[derive(Debug, Clone, Default)]
pub struct MemoryElection {
    inner: Arc<MemoryElectionState>,
}

#[derive(Debug, Default)]
struct MemoryElectionState {
    stored: Mutex<(u64, Option<Stored>)>,
    away: AtomicBool,
}

impl MemoryElection {
    /// Creates a store without a record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the store unreachable, or reachable again.
    pub fn set_away(&self, away: bool) {
        self.inner.away.store(away, Ordering::SeqCst);
    }

    /// Deletes the election record, as an operator could do.
    pub fn remove(&self) {
        crate::feed::lock(&self.inner.stored).1 = None;
    }

    /// Calls `work`, or returns an error while the store is unreachable.
    fn with<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut (u64, Option<Stored>)) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.inner.away.load(Ordering::SeqCst) {
            let message = "the record in memory is unreachable";
            return Err(Error::new(ErrorKind::Unavailable, operation, message));
        }
        work(&mut crate::feed::lock(&self.inner.stored))
    }

    fn write(&self, operation: &'static str, claim: &Claim, version: Option<&str>) -> Result<Stored, Error> {
        self.with(operation, |(writes, stored)| {
            if stored.as_ref().map(|stored| stored.version.as_str()) != version {
                let message = "another instance wrote the record first";
                return Err(Error::new(ErrorKind::Conflict, operation, message));
            }
            *writes += 1;
            let record = ElectionRecord {
                holder: claim.holder.clone(),
                lease: claim.lease,
                term: claim.term,
                sign: writes.to_string(),
                payload: claim.payload.clone(),
            };
            let version = writes.to_string();
            Ok(stored.insert(Stored { record, version }).clone())
        })
    }
}

#[async_trait]
impl ElectionStore for MemoryElection {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    async fn read(&self) -> Result<Option<Stored>, Error> {
        self.with("read the leadership", |(_, stored)| Ok(stored.clone()))
    }

    async fn create(&self, claim: &Claim) -> Result<Stored, Error> {
        self.write("start the leadership", claim, None)
    }

    async fn replace(&self, claim: &Claim, version: &str) -> Result<Stored, Error> {
        self.write("write the leadership", claim, Some(version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_round_trips_and_an_invalid_payload_is_empty() {
        let beside = RecordPayload {
            address: "provider.example.com:8443".to_owned(),
            settings: [("price".to_owned(), "0011".to_owned())].into(),
            state: "{\"a\":\"\u{e9}\"}".to_owned(),
        };
        let text = beside.to_json();
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(RecordPayload::from_json(&text), beside);
        let long = format!("{text}{}", " ".repeat(PAYLOAD_MAX));
        for text in ["", "[]", "{\"settings\":3}", &long] {
            assert_eq!(RecordPayload::from_json(text), RecordPayload::default());
        }
        assert_eq!(
            RecordPayload::from_json("{\"newer\":1}"),
            RecordPayload::default()
        );
    }
}

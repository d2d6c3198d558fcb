//! The shared record of a leadership, and where it lies.

use crate::error::{Error, ErrorKind};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Most bytes that are kept beside a leadership, as JSON. A Lease carries it as an annotation.
pub const BESIDE_MAX: usize = 32 * 1024;
/// The longest time that a record may keep others waiting, whatever it says.
pub(super) const DURATION_MAX: Duration = Duration::from_secs(600);

/// Minimum limit of a call: a store under load needs this time.
const FIRST_LIMIT_MIN: Duration = Duration::from_secs(1);

/// The highest term of a record: a leadership each second for 34,000 years. Lua and JSON have such numbers exactly.
pub const TERM_MAX: u64 = 1 << 40;
/// Largest difference between the term of a record and the highest known one: a leadership each second for half a year.
pub const TERM_LEAP: u64 = 1 << 24;

/// How long a leadership lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Others wait so long after a leader's last sign of life before they take over.
    pub lease: Duration,
    /// A leader that could not say that it lives for so long leads no more. Shorter than `lease`, which is what keeps
    /// two from leading at once.
    pub renew: Duration,
    /// Pause between two looks.
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
    /// A leader says eight times in a lease that it lives, and stops by itself after two thirds of it.
    #[must_use]
    pub fn of(lease: Duration) -> Self {
        Self {
            lease,
            renew: lease * 2 / 3,
            retry: lease / 8,
        }
    }

    /// The same, with what would let two lead at once, or nobody, put right.
    pub(super) fn sane(self) -> Self {
        let lease = self.lease.clamp(Duration::from_secs(1), DURATION_MAX);
        let renew = self.renew.min(lease * 2 / 3);
        let retry = self.retry.clamp(Duration::from_millis(10), renew / 2);
        Self { lease, renew, retry }
    }

    /// Limit of a call while the store responds.
    pub(super) fn first_limit(self) -> Duration {
        (self.lease / 12).max(FIRST_LIMIT_MIN).min(self.longest_limit())
    }

    /// Limit of a call after one without a response. A longer call is of no use to a leadership.
    pub(super) const fn longest_limit(self) -> Duration {
        self.lease.saturating_sub(self.renew)
    }
}

/// What lies beside a leadership: facts for those who take over, and for those who look for the leader.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Beside {
    /// Where the leader is asked by others; empty where it did not say.
    pub address: String,
    /// The settings that all must have alike, each as a short hash.
    pub settings: BTreeMap<String, String>,
    /// What the next leader must know, as the leader wrote it; empty where nothing was ever kept.
    pub kept: String,
}

impl Beside {
    /// As one line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Of texts, which JSON always has room for.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// From what [`Beside::to_json`] gave. What is empty, too long or no such text is as if nothing lay there.
    #[must_use]
    pub fn from_json(text: &str) -> Self {
        if text.is_empty() || text.len() > BESIDE_MAX {
            return Self::default();
        }
        serde_json::from_str(text).unwrap_or_default()
    }
}

/// What the shared record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Who leads; `None` once it has handed over.
    pub holder: Option<String>,
    /// How long others wait for its next sign of life.
    pub lease: Duration,
    /// Counts the leaderships. A term above [`TERM_MAX`], or more than [`TERM_LEAP`] above the highest known one, is
    /// reported and not used: the next leadership has the highest known term plus 1.
    pub term: u64,
    /// The sign of life: any text that is another one each time.
    pub sign: String,
    /// What lies beside it.
    pub beside: Beside,
}

/// A record as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// What it says.
    pub record: Record,
    /// Which a write must name, and which is another one after each write.
    pub version: String,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// `None` hands over.
    pub holder: Option<String>,
    /// The term that it is, or that begins; a store that knows of a later one gives a later one.
    pub term: u64,
    /// It begins a leadership, and does not go on with one.
    pub begins: bool,
    /// How long others are to wait for the next sign of life.
    pub lease: Duration,
    /// What is to lie beside it.
    pub beside: Beside,
}

/// Where the record of one election lies.
///
/// # Behavior
/// - a write happens only over the version that it names, so that of several that write at once one wins; the others
///   get [`ErrorKind::Conflict`]
/// - every write gives the record another version and another sign of life
/// - what was written is what everybody reads from then on
/// - a write whose answer did not come may have happened, and may still happen
///
/// Run `election::conformance::suite` (feature `conformance`) on it.
#[async_trait]
pub trait ElectionStore: fmt::Debug + Send + Sync + 'static {
    /// Where it is, for people.
    fn place(&self) -> String;

    /// The record; `None` where there is none.
    async fn read(&self) -> Result<Option<Stored>, Error>;

    /// Makes the record where there is none.
    async fn create(&self, claim: &Claim) -> Result<Stored, Error>;

    /// Writes the record over this version of it.
    async fn replace(&self, claim: &Claim, version: &str) -> Result<Stored, Error>;
}

/// A record in the memory of this process. A clone is the same one.
#[derive(Debug, Clone, Default)]
pub struct MemoryElection {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    stored: Mutex<(u64, Option<Stored>)>,
    away: AtomicBool,
}

impl MemoryElection {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// It answers nobody from here on, or again.
    pub fn set_away(&self, away: bool) {
        self.inner.away.store(away, Ordering::SeqCst);
    }

    /// Forgets the record, as somebody would who deletes it.
    pub fn remove(&self) {
        crate::feed::lock(&self.inner.stored).1 = None;
    }

    /// Does something with the number of writes and the record.
    fn with<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut (u64, Option<Stored>)) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.inner.away.load(Ordering::SeqCst) {
            let message = "the record in memory is away";
            return Err(Error::new(ErrorKind::Unavailable, operation, message));
        }
        work(&mut crate::feed::lock(&self.inner.stored))
    }

    fn write(&self, operation: &'static str, claim: &Claim, version: Option<&str>) -> Result<Stored, Error> {
        self.with(operation, |(writes, stored)| {
            if stored.as_ref().map(|stored| stored.version.as_str()) != version {
                let message = "somebody else wrote the record first";
                return Err(Error::new(ErrorKind::Conflict, operation, message));
            }
            *writes += 1;
            let record = Record {
                holder: claim.holder.clone(),
                lease: claim.lease,
                term: claim.term,
                sign: writes.to_string(),
                beside: claim.beside.clone(),
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
        self.write("begin the leadership", claim, None)
    }

    async fn replace(&self, claim: &Claim, version: &str) -> Result<Stored, Error> {
        self.write("write the leadership", claim, Some(version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beside_is_read_again_and_nonsense_is_as_nothing() {
        let beside = Beside {
            address: "provider.example.com:8443".to_owned(),
            settings: [("price".to_owned(), "0011".to_owned())].into(),
            kept: "{\"a\":\"\u{e9}\"}".to_owned(),
        };
        let text = beside.to_json();
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(Beside::from_json(&text), beside);
        let long = format!("{text}{}", " ".repeat(BESIDE_MAX));
        for text in ["", "[]", "{\"settings\":3}", &long] {
            assert_eq!(Beside::from_json(text), Beside::default());
        }
        assert_eq!(Beside::from_json("{\"newer\":1}"), Beside::default());
    }
}

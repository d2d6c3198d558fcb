//! Whether a tenant has proved that a name is theirs: a TXT record of DNS beside the name, which names their account.
//!
//! A query that fails says nothing: what was proven stays so, and what never was waits. A record that is gone counts
//! when DNS has said so several times. Who gets a name that several tenants list is no question of it: one without its
//! proof keeps the name from nobody and gives it to nobody.

use super::facts::Host;
use super::note::Notebook;
use super::notes::{Proof, ProofState};
use super::rounds::{self, Budget};
use super::shared::Shared;
use crate::hostnames::timestamp;
use crate::labels;
use crate::operators::said::cut;
use akash_provider_core::types::Address;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The label before a name whose record is looked for.
const LABEL: &str = "_akash-challenge";
/// What a record says before the address of the owner.
const FIELD: &str = "akash-owner=";
/// Longest name of DNS, as text without the last dot.
const NAME_MAX: usize = 253;
/// A name of DNS has records of no more tenants than that.
const RECORDS_MAX: usize = 100;
/// How often DNS has to say in a row that a record is not there before one that was counts as withdrawn.
const STRIKES: u32 = 3;
/// First wait of a name that waits for its record; it doubles.
const SOON: Duration = Duration::from_secs(30);
/// Longest wait for one answer, whatever a resolver does itself.
const LIMIT: Duration = Duration::from_secs(20);

/// Who asks DNS.
#[async_trait]
pub trait TxtLookup: Debug + Send + Sync {
    /// The TXT records of a name, the strings of each joined; none where DNS says that there are none.
    ///
    /// # Errors
    /// It is not known, and why, in a few words.
    async fn txt(&self, name: &str) -> Result<Vec<String>, String>;
}

/// How proofs are looked for.
#[derive(Debug, Clone)]
pub struct Proving {
    /// Who asks DNS.
    pub lookup: Arc<dyn TxtLookup>,
    /// How often.
    pub budget: Budget,
}

/// Name and value of the record that proves a hostname; a wildcard is proved at the name below which it is.
#[must_use]
pub fn record(hostname: &str, owner: &Address) -> (String, String) {
    let base = hostname.strip_prefix("*.").unwrap_or(hostname);
    (format!("{LABEL}.{base}"), format!("{FIELD}{owner}"))
}

/// What a name without its proof waits for.
#[must_use]
pub(super) fn wanting(hostname: &str, owner: &Address) -> String {
    let (name, value) = record(hostname, owner);
    format!("it waits for the proof that it is its owner's: a TXT record `{name}` with `{value}`")
}

/// What is remembered of a name beside its note.
#[derive(Debug, Clone, Copy, Default)]
struct Tries {
    /// Answers in a row by which the record is not there.
    negative: u32,
    /// Looks in a row without a proof.
    vain: u32,
}

/// What a look says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Finding {
    Proven,
    /// The records that are there are others, or there are none.
    Absent(&'static str),
    Unknown(String),
}

/// Looks for ever, name after name.
pub(super) async fn run(proving: Proving, shared: Arc<Shared>, notes: Notebook, until: CancellationToken) {
    let tries: Arc<Mutex<BTreeMap<String, Tries>>> = Arc::default();
    let wanted = {
        let (shared, tries) = (Arc::clone(&shared), Arc::clone(&tries));
        move || {
            let names = wanted(&shared);
            let mut tries = tries.lock().unwrap_or_else(PoisonError::into_inner);
            tries.retain(|name, _| names.contains(name));
            names
        }
    };
    let budget = proving.budget;
    let ask = |name: String| {
        let (lookup, shared, notes) = (Arc::clone(&proving.lookup), Arc::clone(&shared), notes.clone());
        let tries = Arc::clone(&tries);
        async move {
            let Some(host) = host(&shared, &name) else {
                return budget.every;
            };
            let finding = find(lookup.as_ref(), &name, owner(&host)).await;
            let (note, again) = {
                let mut all = tries.lock().unwrap_or_else(PoisonError::into_inner);
                let tries = all.entry(name.clone()).or_default();
                (
                    judge(&name, &host, finding, tries),
                    pause(&host, tries, budget.every),
                )
            };
            let Some(note) = note else {
                return again;
            };
            if note.state != ProofState::Waiting {
                tracing::info!(hostname = name, state = ?note.state, why = note.why, "a proof of a hostname");
            }
            if !notes.write(&name, &host, labels::HOSTNAME_PROOF, &note).await {
                return SOON.min(budget.every);
            }
            again
        }
    };
    let changes = shared.board.changes();
    rounds::run(budget.per_minute, changes, wanted, ask, until).await;
}

/// The names that need a proof.
fn wanted(shared: &Shared) -> BTreeSet<String> {
    let inner = shared.board.inner();
    let index = &inner.index;
    let needs = |name: &String| index.plan().needs_proof(name) && index.host(name).is_some_and(Result::is_ok);
    index.names().into_iter().filter(needs).collect()
}

fn host(shared: &Shared, name: &str) -> Option<Host> {
    let inner = shared.board.inner();
    inner.index.host(name)?.as_ref().ok().cloned()
}

const fn owner(host: &Host) -> &Address {
    &host.lease.order.group.deployment.owner
}

async fn find(lookup: &dyn TxtLookup, hostname: &str, owner: &Address) -> Finding {
    let (name, value) = record(hostname, owner);
    if name.len() > NAME_MAX {
        return Finding::Absent("that name is longer than DNS allows, so that it cannot be proved");
    }
    let found = timeout(LIMIT, lookup.txt(&name)).await;
    let records = match found {
        Ok(Ok(records)) => records,
        Ok(Err(why)) => return Finding::Unknown(why),
        Err(_) => return Finding::Unknown("no answer in time".to_owned()),
    };
    if records
        .iter()
        .take(RECORDS_MAX)
        .any(|record| record.trim() == value)
    {
        return Finding::Proven;
    }
    Finding::Absent(if records.is_empty() {
        "there is none"
    } else {
        "those that are there say something else"
    })
}

/// What is to be noted by now; nothing where it is noted so already.
fn judge(name: &str, host: &Host, finding: Finding, tries: &mut Tries) -> Option<Proof> {
    let wanted = wanting(name, owner(host));
    let owner = owner(host).to_string();
    let noted = host.notes.noted(&owner);
    let before = noted.map(|proof| proof.state);
    tries.vain = if finding == Finding::Proven {
        0
    } else {
        tries.vain.saturating_add(1)
    };
    let (state, why) = match finding {
        Finding::Proven => {
            tries.negative = 0;
            (ProofState::Proven, "the TXT record is there".to_owned())
        }
        Finding::Absent(how) => {
            tries.negative = tries.negative.saturating_add(1);
            let why = format!("{wanted}; {how}");
            match before {
                Some(ProofState::Proven) if tries.negative < STRIKES => return None,
                Some(ProofState::Proven | ProofState::Withdrawn) => (ProofState::Withdrawn, why),
                _ => (ProofState::Waiting, why),
            }
        }
        Finding::Unknown(how) => {
            tries.negative = 0;
            if matches!(before, Some(ProofState::Proven | ProofState::Withdrawn)) {
                return None;
            }
            let why = format!("{wanted}; DNS could not be asked: {}", cut(how));
            (ProofState::Waiting, why)
        }
    };
    let is_noted = noted.is_some_and(|proof| (proof.state, &proof.why) == (state, &why));
    (!is_noted).then(|| Proof {
        state,
        owner,
        why,
        at: timestamp(),
    })
}

/// How long a name rests: the whole time when it is proven, so that one bad day of a zone is no three answers; and when
/// it waits, less while it has not waited often.
fn pause(host: &Host, tries: &Tries, every: Duration) -> Duration {
    if host.notes.proof_of(owner(host)) == Some(ProofState::Proven) {
        return every;
    }
    match tries.vain {
        0 => every,
        vain => SOON.saturating_mul(1 << (vain - 1).min(16)).min(every),
    }
}

#[cfg(test)]
mod tests;

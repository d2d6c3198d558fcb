//! Proof of ownership: a DNS TXT record at `_akash-challenge.` plus the hostname, with the address of the tenant.
//!
//! A failed query changes nothing: a proven hostname stays proven, and an unproven hostname waits. A proof is withdrawn
//! only after several consecutive responses without the TXT record. The proof does not decide between tenants that list
//! the same hostname: without a proof, a tenant does not get the hostname and does not block other tenants.

use super::facts::Host;
use super::note_writer::NoteWriter;
use super::schedule::{self, CheckRate};
use super::shared::HostnameOperatorState;
use akash_provider_core::types::Address;
use akash_provider_kube_kernel::labels;
use akash_provider_kube_kernel::time::timestamp;
use akash_provider_kube_model::crd::notes::{Proof, ProofState};
use akash_provider_kube_model::problem::cut;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Label before the hostname in the name of the TXT record.
const LABEL: &str = "_akash-challenge";
/// Prefix of the value of the TXT record; the address of the owner follows.
const FIELD: &str = "akash-owner=";
/// Maximum length of a DNS name, without the last dot.
const NAME_MAX: usize = 253;
/// Maximum number of TXT records that are read.
const RECORDS_MAX: usize = 100;
/// Limit of consecutive DNS responses without the TXT record. At this limit, the proof is withdrawn.
const STRIKES: u32 = 3;
/// Initial interval between DNS queries for an unproven hostname. The interval doubles with each query.
const SOON: Duration = Duration::from_secs(30);
/// Maximum duration of one DNS query.
const LIMIT: Duration = Duration::from_secs(20);

/// Resolver of TXT records.
#[async_trait]
pub trait TxtLookup: Debug + Send + Sync {
    /// Returns the TXT records of a name, or an empty list if DNS reports none. Joins the strings of each
    /// record.
    ///
    /// # Errors
    /// Returns a short reason if the query failed.
    async fn txt(&self, name: &str) -> Result<Vec<String>, String>;
}

/// Configuration of the DNS proofs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProofConfig {
    /// Resolver of the TXT records.
    pub lookup: Arc<dyn TxtLookup>,
    /// Rate of the DNS queries.
    pub budget: CheckRate,
}

impl ProofConfig {
    /// Creates a configuration with this resolver and this rate of queries.
    #[must_use]
    pub fn new(lookup: Arc<dyn TxtLookup>, budget: CheckRate) -> Self {
        Self { lookup, budget }
    }
}

/// Returns the name and the value of the TXT record that proves the ownership of a hostname. `*.example.com`
/// and `example.com` have the same record.
#[must_use]
pub fn record(hostname: &str, owner: &Address) -> (String, String) {
    let base = hostname.strip_prefix("*.").unwrap_or(hostname);
    (format!("{LABEL}.{base}"), format!("{FIELD}{owner}"))
}

/// Returns the message that names the missing TXT record.
pub(super) fn wanting(hostname: &str, owner: &Address) -> String {
    let (name, value) = record(hostname, owner);
    format!("proof of ownership pending: create the TXT record `{name}` with the value `{value}`")
}

/// Counters of the DNS queries for a hostname.
#[derive(Debug, Clone, Copy, Default)]
struct Tries {
    /// Number of consecutive DNS responses without the required TXT record. A failed query resets the number.
    negative: u32,
    /// Number of consecutive DNS queries that did not find the TXT record.
    vain: u32,
}

/// Result of a DNS query for a TXT record.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Finding {
    Proven,
    /// The TXT record does not exist. Contains the reason.
    Absent(&'static str),
    Unknown(String),
}

/// Checks the DNS proofs of hostnames until `until` is cancelled.
pub(super) async fn run(
    proving: ProofConfig,
    shared: Arc<HostnameOperatorState>,
    notes: NoteWriter,
    until: CancellationToken,
) {
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
            let finding = find(lookup.as_ref(), &name, host.lease.owner()).await;
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
                tracing::info!(hostname = name, state = ?note.state, why = note.why, "DNS proof of ownership of a hostname accepted or withdrawn, see the field `state`");
            }
            if !notes.write(&name, &host, labels::HOSTNAME_PROOF, &note).await {
                return SOON.min(budget.every);
            }
            again
        }
    };
    let changes = shared.state.changes();
    schedule::run(budget.per_minute, changes, wanted, ask, until).await;
}

/// Returns the hostnames that require a proof.
fn wanted(shared: &HostnameOperatorState) -> BTreeSet<String> {
    let inner = shared.state.inner();
    let index = &inner.index;
    let needs = |name: &String| index.plan().needs_proof(name) && index.host(name).is_some_and(Result::is_ok);
    index.names().into_iter().filter(needs).collect()
}

fn host(shared: &HostnameOperatorState, name: &str) -> Option<Host> {
    let inner = shared.state.inner();
    inner.index.host(name)?.as_ref().ok().cloned()
}

async fn find(lookup: &dyn TxtLookup, hostname: &str, owner: &Address) -> Finding {
    let (name, value) = record(hostname, owner);
    if name.len() > NAME_MAX {
        return Finding::Absent(
            "the TXT record name is longer than DNS allows, so the hostname cannot be proven",
        );
    }
    let found = timeout(LIMIT, lookup.txt(&name)).await;
    let records = match found {
        Ok(Ok(records)) => records,
        Ok(Err(why)) => return Finding::Unknown(why),
        Err(_) => return Finding::Unknown("no response in time".to_owned()),
    };
    if records
        .iter()
        .take(RECORDS_MAX)
        .any(|record| record.trim() == value)
    {
        return Finding::Proven;
    }
    Finding::Absent(if records.is_empty() {
        "no TXT record exists"
    } else {
        "the TXT records have other values"
    })
}

/// Returns the proof state to write, or `None` if the stored state remains.
fn judge(name: &str, host: &Host, finding: Finding, tries: &mut Tries) -> Option<Proof> {
    let wanted = wanting(name, host.lease.owner());
    let owner = host.lease.owner().to_string();
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
            (ProofState::Proven, "the TXT record exists".to_owned())
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
            let why = format!("{wanted}; the DNS query failed: {}", cut(how));
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

/// Returns the delay until the next DNS query. Unproven hostnames have shorter first delays.
fn pause(host: &Host, tries: &Tries, every: Duration) -> Duration {
    if host.notes.proof_of(host.lease.owner()) == Some(ProofState::Proven) {
        return every;
    }
    match tries.vain {
        0 => every,
        vain => SOON.saturating_mul(1 << (vain - 1).min(16)).min(every),
    }
}

#[cfg(test)]
mod tests;

//! The conformance suite of [`ElectionStore`].
//!
//! ```
//! use akash_provider_core::election::{MemoryElection, conformance};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let store = MemoryElection::new();
//! let other = store.clone();
//! conformance::suite(&store, &other, &conformance::Setup::default()).await;
//! # }
//! ```

use super::{Claim, ElectionStore, PAYLOAD_MAX, RecordPayload, Stored};
use crate::conformance::Rule;
use crate::error::ErrorKind;
use futures::future::join_all;
use std::time::Duration;

/// Parameters of the suite for one store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Setup {
    /// Maximum time of one call.
    pub timeout: Duration,
}

impl Default for Setup {
    /// Returns a timeout of five seconds.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
        }
    }
}

impl Setup {
    fn rule(&self, name: &'static str) -> Rule {
        Rule::new(name, self.timeout)
    }
}

fn claim(holder: Option<&str>, term: u64, state: &str) -> Claim {
    Claim {
        holder: holder.map(str::to_owned),
        term,
        is_new_term: false,
        lease: Duration::from_secs(12),
        payload: RecordPayload {
            address: "leader.example.com:8443".to_owned(),
            settings: [("price".to_owned(), "00ff".to_owned())].into(),
            state: state.to_owned(),
        },
    }
}

/// Runs every check on two connections to one election record. The record must not exist before the call.
///
/// # Panics
/// Panics when the store violates a rule. The message names the rule.
pub async fn suite(store: &dyn ElectionStore, other: &dyn ElectionStore, setup: &Setup) {
    a_record_is_created_once(store, other, setup).await;
    all_connections_read_the_written_record(store, other, setup).await;
    one_of_several_writes_wins(store, other, setup).await;
    every_write_is_a_new_heartbeat(store, setup).await;
}

/// Checks that a record is created once and that a second creation is refused.
///
/// # Panics
/// Panics when the store violates the rule.
pub async fn a_record_is_created_once(store: &dyn ElectionStore, other: &dyn ElectionStore, setup: &Setup) {
    let rule = setup.rule("a record is created once");
    let before = rule.ok("read", store.read()).await;
    rule.holds(
        before.is_none(),
        format!("the suite needs an empty store, which contains {before:?}"),
    );
    let none = claim(Some("a"), 3, "");
    let replaced = other.replace(&none, "1");
    let why = "there is no record to replace";
    rule.refused("replace", ErrorKind::Conflict, why, replaced).await;
    let made = rule
        .ok("create", store.create(&claim(Some("a"), 3, "first")))
        .await;
    let is_so = made.record.holder.as_deref() == Some("a") && made.record.term == 3;
    rule.holds(is_so, format!("`create` returned {made:?}"));
    let second = claim(Some("b"), 9, "second");
    let again = other.create(&second);
    let why = "there is a record already";
    rule.refused("create", ErrorKind::Conflict, why, again).await;
    let read = rule.ok("read", other.read()).await;
    rule.holds(
        read.as_ref() == Some(&made),
        format!("`create` returned {made:?} and `read` {read:?}"),
    );
}

/// Checks that holder, term, lease duration and payload are read exactly as they were written.
///
/// # Panics
/// Panics when the store violates the rule.
pub async fn all_connections_read_the_written_record(
    store: &dyn ElectionStore,
    other: &dyn ElectionStore,
    setup: &Setup,
) {
    let rule = setup.rule("all connections read the written record");
    // The maximum length, with characters that some formats cannot store.
    let odd = "{\"a\": \"\\n \u{e9} 'x' \u{1f600}\"}";
    let long = odd.repeat(PAYLOAD_MAX / 4 / odd.len());
    let claims = [
        claim(Some("a"), 3, &long),
        claim(Some("b_00ff"), 4, ""),
        claim(None, 4, odd),
        Claim {
            payload: RecordPayload::default(),
            ..claim(Some("a"), 2_000_000_000, "")
        },
    ];
    for claim in claims {
        let stored = rule.there("read", rule.ok("read", store.read()).await);
        let written = rule.ok("replace", store.replace(&claim, &stored.version)).await;
        let read = rule.there("read", rule.ok("read", other.read()).await);
        rule.holds(
            read == written,
            format!("`replace` returned {written:?} and `read` {read:?}"),
        );
        let Stored { record, .. } = read;
        let is_so =
            (&record.holder, record.term, &record.payload) == (&claim.holder, claim.term, &claim.payload);
        rule.holds(is_so, format!("{claim:?} was written and {record:?} was read"));
        // A released record has no holder, so its lease duration does not matter.
        let is_so = claim.holder.is_none() || record.lease == claim.lease;
        rule.holds(
            is_so,
            format!("a lease of {:?} is read as {:?}", claim.lease, record.lease),
        );
    }
}

/// Checks that only one of several concurrent writes with the same version succeeds. The other writes must
/// return a conflict.
///
/// # Panics
/// Panics when the store violates the rule.
pub async fn one_of_several_writes_wins(store: &dyn ElectionStore, other: &dyn ElectionStore, setup: &Setup) {
    let rule = setup.rule("one of several writes wins");
    for round in 0..5 {
        let before = rule.there("read", rule.ok("read", store.read()).await);
        let names: Vec<String> = (0..8).map(|n| format!("{round}-{n}")).collect();
        let writes = names.iter().enumerate().map(|(n, name)| {
            let (claim, version) = (claim(Some(name), before.record.term + 1, name), &before.version);
            async move {
                let one = if n % 2 == 0 { store } else { other };
                one.replace(&claim, version).await
            }
        });
        let answers = rule.answer("replace", join_all(writes)).await;
        let lost = answers.iter().filter_map(|answer| answer.as_ref().err());
        for error in lost.clone() {
            rule.holds(
                error.kind() == ErrorKind::Conflict,
                format!("a refused write returned {error}"),
            );
        }
        let lost = lost.count();
        rule.holds(
            lost == 7,
            format!("{lost} of 8 writes over one version were refused"),
        );
        let after = rule.there("read", rule.ok("read", store.read()).await);
        let won: Vec<Stored> = answers.into_iter().filter_map(Result::ok).collect();
        rule.holds(
            won == [after.clone()],
            format!("{won:?} was written and {after:?} was read"),
        );
    }
}

/// Checks that a write with unchanged content also changes the version and counts as a heartbeat.
///
/// # Panics
/// Panics when the store violates the rule.
pub async fn every_write_is_a_new_heartbeat(store: &dyn ElectionStore, setup: &Setup) {
    let rule = setup.rule("every write is a new heartbeat");
    let mut before = rule.there("read", rule.ok("read", store.read()).await);
    for _ in 0..5 {
        let same = claim(Some("a"), 2_000_000_100, "same");
        let after = rule.ok("replace", store.replace(&same, &before.version)).await;
        let is_so = after.version != before.version && after.record.sign != before.record.sign;
        rule.holds(is_so, format!("{before:?} became {after:?}"));
        before = after;
    }
}

//! Counters of transactions.

use super::api::{Code, IncludedTx, Submission};
use crate::lock::lock;
use crate::signer::TxFee;
use akash_provider_core::error::Failure;
use akash_provider_core::statistics::{CounterMap, DurationCounts, DurationHistogram};
use akash_provider_core::types::{Denom, TxOutcome};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bucket bounds for the time from a call to its outcome.
const OUTCOME_BOUNDS: [Duration; 8] = [
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(40),
    Duration::from_secs(60),
    Duration::from_secs(120),
];
/// Maximum number of pairs (message name, outcome) that have a counter.
const MESSAGES_MAX: usize = 64;
/// Maximum number of counted error codes. If nodes report more codes, the additional codes are counted as
/// [`OTHER`].
const CODES_MAX: usize = 64;
/// Maximum number of denominations for which fees are counted.
const DENOMS_MAX: usize = 16;
/// Maximum length of a counted codespace, in bytes. A longer codespace is counted as [`OTHER`].
const CODESPACE_MAX: usize = 32;
const OTHER: &str = "other";

/// Outcome of a message, for statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageOutcome {
    /// A block contains the message, and the message was executed.
    Committed,
    /// A node refused the message, or a block contains the message and the execution failed.
    Refused,
    /// The message may have been sent, and its outcome is unknown.
    Unknown,
    /// The message was certainly not sent, or its transaction expired.
    NotSent,
    /// The caller was dropped before the outcome was known.
    Abandoned,
}

/// Statistics of transactions since the start of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxStatistics {
    /// Number of messages by [`Msg::name`](akash_provider_core::types::Msg::name) and outcome.
    pub messages: BTreeMap<(&'static str, MessageOutcome), u64>,
    /// Number of messages that the chain refused, by error code, such as `market/21`.
    pub refusals: BTreeMap<String, u64>,
    /// Number of times that a transaction was sent to a node, including repetitions.
    pub submissions: u64,
    /// Number of times that a node refused a sent transaction, by error code. A full mempool is `sdk/20`.
    pub refused_submissions: BTreeMap<String, u64>,
    /// Number of times that the full mempool of a node refused a transaction.
    pub mempool_full: u64,
    /// Number of transactions in blocks, including failed transactions.
    pub included: u64,
    /// Total fees of all included transactions, by denomination. The total contains fees that a granter paid.
    pub fees: BTreeMap<Denom, u64>,
    /// Total gas that all included transactions used.
    pub gas_used: u64,
    /// Time from a call to its outcome, for committed and refused messages.
    pub outcome_times: DurationCounts,
}

#[derive(Debug)]
pub(super) struct TxCounters {
    messages: CounterMap<(&'static str, MessageOutcome)>,
    refusals: CounterMap<String>,
    submissions: AtomicU64,
    refused_submissions: CounterMap<String>,
    mempool_full: AtomicU64,
    included: AtomicU64,
    fees: Mutex<BTreeMap<Denom, u64>>,
    gas_used: AtomicU64,
    outcome_times: DurationHistogram,
}

impl MessageOutcome {
    /// Returns the name of the outcome, such as `not_sent`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::NotSent => "not_sent",
            Self::Abandoned => "abandoned",
        }
    }
}

impl Default for TxCounters {
    fn default() -> Self {
        Self {
            messages: CounterMap::new(MESSAGES_MAX, (OTHER, MessageOutcome::Unknown)),
            refusals: CounterMap::new(CODES_MAX, OTHER.to_owned()),
            submissions: AtomicU64::new(0),
            refused_submissions: CounterMap::new(CODES_MAX, OTHER.to_owned()),
            mempool_full: AtomicU64::new(0),
            included: AtomicU64::new(0),
            fees: Mutex::default(),
            gas_used: AtomicU64::new(0),
            outcome_times: DurationHistogram::new(&OUTCOME_BOUNDS),
        }
    }
}

impl TxCounters {
    /// Counts the outcome of a call, once for each message.
    pub(super) fn count_outcome(
        &self,
        names: &[&'static str],
        result: &Result<TxOutcome, Failure>,
        took: Duration,
    ) {
        let outcome = match result {
            Ok(TxOutcome::Committed { .. }) => MessageOutcome::Committed,
            Ok(TxOutcome::Rejected { code, .. }) => {
                self.refusals.increment(known_code(code));
                MessageOutcome::Refused
            }
            Ok(TxOutcome::Unknown { .. }) => MessageOutcome::Unknown,
            Err(_) => MessageOutcome::NotSent,
        };
        if matches!(outcome, MessageOutcome::Committed | MessageOutcome::Refused) {
            self.outcome_times.record(took);
        }
        self.count(names, outcome);
    }

    pub(super) fn count(&self, names: &[&'static str], outcome: MessageOutcome) {
        for name in names {
            self.messages.increment((name, outcome));
        }
    }

    pub(super) fn count_submission(&self) {
        self.submissions.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a response if the node refused the transaction.
    pub(super) fn count_response(&self, response: &Result<Submission, Failure>) {
        if let Ok(Submission::Refused { code, .. }) = response {
            self.refused_submissions.increment(known_code(&code.to_string()));
            self.mempool_full
                .fetch_add(u64::from(is_mempool_full(code)), Ordering::Relaxed);
        }
    }

    pub(super) fn count_included(&self, included: &IncludedTx, price: &TxFee) {
        self.included.fetch_add(1, Ordering::Relaxed);
        self.gas_used.fetch_add(included.gas_used, Ordering::Relaxed);
        let mut fees = lock(&self.fees);
        if fees.len() < DENOMS_MAX || fees.contains_key(&price.fee.denom) {
            let amount = u64::try_from(price.fee.amount).unwrap_or(u64::MAX);
            let sum = fees.entry(price.fee.denom.clone()).or_default();
            *sum = sum.saturating_add(amount);
        }
    }

    pub(super) fn statistics(&self) -> TxStatistics {
        TxStatistics {
            messages: self.messages.values(),
            refusals: self.refusals.values(),
            submissions: self.submissions.load(Ordering::Relaxed),
            refused_submissions: self.refused_submissions.values(),
            mempool_full: self.mempool_full.load(Ordering::Relaxed),
            included: self.included.load(Ordering::Relaxed),
            fees: lock(&self.fees).clone(),
            gas_used: self.gas_used.load(Ordering::Relaxed),
            outcome_times: self.outcome_times.values(),
        }
    }
}

fn is_mempool_full(code: &Code) -> bool {
    const MEMPOOL_FULL: u32 = 20;
    code.is_sdk(MEMPOOL_FULL)
}

/// Returns a valid code (`codespace/number` or `codespace`) unchanged, otherwise [`OTHER`].
fn known_code(code: &str) -> String {
    let is_space = |text: &str| {
        let is_letter =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        !text.is_empty() && text.len() <= CODESPACE_MAX && text.bytes().all(is_letter)
    };
    match code.split_once('/') {
        Some((space, number)) if is_space(space) && number.parse::<u32>().is_ok() => code.to_owned(),
        None if is_space(code) => code.to_owned(),
        _ => OTHER.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_nodes_are_bounded_in_form_and_number() {
        let counters = TxCounters::default();
        let refused = |code: &str| {
            Ok(TxOutcome::Rejected {
                error: akash_provider_core::types::TxError::Other,
                code: code.to_owned(),
                log: String::new(),
            })
        };
        let long = format!("{}/1", "x".repeat(4_096));
        for code in ["market/21", "a\nb/1", "market/x", "A", long.as_str()] {
            counters.count_outcome(&["MsgCreateBid"], &refused(code), Duration::ZERO);
        }
        let few = counters.statistics();
        assert_eq!(
            few.refusals,
            [("market/21".to_owned(), 1), (OTHER.to_owned(), 4)].into()
        );
        assert_eq!(
            few.messages,
            [(("MsgCreateBid", MessageOutcome::Refused), 5)].into()
        );
        for number in 0..1_000 {
            counters.count_outcome(
                &["MsgCreateBid"],
                &refused(&format!("m/{number}")),
                Duration::ZERO,
            );
        }
        assert_eq!(counters.statistics().refusals.len(), CODES_MAX);
    }
}

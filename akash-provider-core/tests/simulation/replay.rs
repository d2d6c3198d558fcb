//! The trace of a history: a hash to compare histories, and optionally a text with every event.

use akash_provider_core::engine::{Effect, LeasePhase, Status};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    hasher: DefaultHasher,
    words: Option<String>,
    /// Whether every input is recorded and replayed immediately.
    pub(crate) is_taped: bool,
    /// Number of observations of each phase.
    pub(crate) seen: BTreeMap<&'static str, u64>,
    /// Findings of full scans since the trace was last cleared.
    pub(crate) findings: Vec<String>,
}

impl Trace {
    /// Creates a trace that stores the text of every event.
    pub(crate) fn in_words() -> Self {
        Self {
            words: Some(String::new()),
            ..Self::default()
        }
    }

    /// Creates a trace that records and replays every input.
    pub(crate) fn taped() -> Self {
        Self {
            is_taped: true,
            ..Self::default()
        }
    }

    pub(crate) fn line(&mut self, line: impl FnOnce() -> String) {
        if let Some(words) = &mut self.words {
            writeln!(words, "{}", line()).unwrap();
        }
    }

    pub(crate) fn effect(&mut self, effect: &Effect) {
        effect.hash(&mut self.hasher);
        self.line(|| format!("    out {effect:?}"));
    }

    pub(crate) fn count(&mut self, status: &Status) {
        status.height.hash(&mut self.hasher);
        let mut count = |what, n: usize| *self.seen.entry(what).or_default() += n as u64;
        count("orders", status.orders.len());
        count("leases", status.leases.len());
        count(
            "running",
            status
                .leases
                .iter()
                .filter(|l| l.phase == LeasePhase::Running)
                .count(),
        );
        count(
            "ending",
            status.leases.iter().filter(|l| l.ending.is_some()).count(),
        );
        let pool = status.inventory.leased_ips;
        count("addresses", pool.map_or(0, |p| p.allocated as usize));
        count("breaker", usize::from(status.breaker.tripped));
        count("held_owners", status.breaker.held_owners.len());
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hasher.clone().finish()
    }

    pub(crate) fn words(&self) -> &str {
        self.words.as_deref().unwrap_or_default()
    }
}

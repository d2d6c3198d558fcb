//! Deadlines of all machines of one type. Each machine has at most one deadline per clock, so no deadline can
//! be left over from an earlier state.

use crate::types::{BlockTime, Mono, Now};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Monotonic deadline and block-time deadline of one state machine.
pub(super) type Deadlines = (Option<Mono>, Option<BlockTime>);

/// Deadlines of all state machines of one type, on the monotonic clock and in block time.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(deserialize = "Id: Deserialize<'de> + Ord"))]
pub(super) struct Timers<Id> {
    mono: BTreeSet<(Mono, Id)>,
    block: BTreeSet<(BlockTime, Id)>,
}

impl<Id> Default for Timers<Id> {
    fn default() -> Self {
        Self {
            mono: BTreeSet::new(),
            block: BTreeSet::new(),
        }
    }
}

impl<Id: Clone + Ord> Timers<Id> {
    /// Returns the earliest monotonic deadline.
    pub(super) fn next_mono(&self) -> Option<Mono> {
        self.mono.first().map(|(at, _)| *at)
    }

    pub(super) fn is_due(&self, now: Now) -> bool {
        self.mono.first().is_some_and(|(at, _)| *at <= now.mono)
            || self.block.first().is_some_and(|(at, _)| *at <= now.block_time)
    }

    pub(super) fn set(&mut self, id: &Id, old: &mut Deadlines, new: Deadlines) {
        replace(&mut self.mono, id, old.0, new.0);
        replace(&mut self.block, id, old.1, new.1);
        *old = new;
    }

    /// Returns the expired monotonic deadlines. A deadline remains until the next step of its machine.
    pub(super) fn due_mono(&self, now: Mono) -> impl Iterator<Item = &(Mono, Id)> {
        self.mono.iter().take_while(move |(at, _)| *at <= now)
    }

    pub(super) fn due_block(&self, now: BlockTime) -> impl Iterator<Item = &(BlockTime, Id)> {
        self.block.iter().take_while(move |(at, _)| *at <= now)
    }
}

fn replace<T: Copy + Ord, Id: Clone + Ord>(
    entries: &mut BTreeSet<(T, Id)>,
    id: &Id,
    old: Option<T>,
    new: Option<T>,
) {
    // Fast path: most steps change no deadline.
    if old == new {
        return;
    }
    if let Some(at) = old {
        entries.remove(&(at, id.clone()));
    }
    if let Some(at) = new {
        entries.insert((at, id.clone()));
    }
}

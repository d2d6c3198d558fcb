//! When which machine wants to be woken. Entries are set and removed with the machines' own deadlines, so
//! there are no stale timers.

use crate::types::{BlockTime, DeploymentId, LeaseId, Mono, Now, OrderId};
use std::collections::BTreeSet;

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// Of an order.
    Order(OrderId),
    /// Of a deployment.
    Deployment(DeploymentId),
    /// Of a lease.
    Workload(LeaseId),
    /// Of a deployment's money.
    Escrow(DeploymentId),
}

/// Deadlines in both clocks.
#[derive(Debug, Default)]
pub(super) struct Timers {
    mono: BTreeSet<(Mono, Key)>,
    block: BTreeSet<(BlockTime, Key)>,
}

/// Deadlines of one machine.
pub(super) type Deadlines = (Option<Mono>, Option<BlockTime>);

impl Timers {
    /// Earliest monotonic deadline.
    pub(super) fn next_mono(&self) -> Option<Mono> {
        self.mono.first().map(|(at, _)| *at)
    }

    /// Replaces a machine's deadlines.
    pub(super) fn set(&mut self, key: impl Fn() -> Key, old: &mut Deadlines, new: Deadlines) {
        if old.0 != new.0 {
            if let Some(at) = old.0 {
                self.mono.remove(&(at, key()));
            }
            if let Some(at) = new.0 {
                self.mono.insert((at, key()));
            }
        }
        if old.1 != new.1 {
            if let Some(at) = old.1 {
                self.block.remove(&(at, key()));
            }
            if let Some(at) = new.1 {
                self.block.insert((at, key()));
            }
        }
        *old = new;
    }

    /// Machines whose deadlines have come, each once, in the order of the deadlines. Their entries stay: the
    /// machine moves them in its step, or keeps them and is woken again by the next one.
    pub(super) fn take_due(&self, now: Now) -> Vec<Key> {
        let mut due: Vec<Key> = self
            .mono
            .iter()
            .take_while(|(at, _)| *at <= now.mono)
            .map(|(_, key)| key.clone())
            .collect();
        let both: BTreeSet<Key> = due.iter().cloned().collect();
        let block = self
            .block
            .iter()
            .take_while(|(at, _)| *at <= now.block_time)
            .map(|(_, key)| key);
        due.extend(block.filter(|key| !both.contains(*key)).cloned());
        due
    }
}

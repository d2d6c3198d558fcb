//! What others changed or deleted of a lease's objects, and how often it is put right: pure.
//!
//! ```text
//! rendered + seen ─ found ─► what differs for sure ─ Drift ─► what is put right ─ Calm ─► now, or when
//! ```

mod calm;

pub(crate) use calm::{Calm, FIGHT};

use crate::apply::item::{Item, Kind};
use crate::apply::plan::{Ledger, There, Wanted, Watched, Write, plan};
use crate::labels;
use crate::settings::Drift;
use std::collections::BTreeSet;

/// An object that is not as it was applied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// What puts it right.
    pub(crate) write: Write,
    /// There is none of its name.
    pub(crate) is_missing: bool,
}

/// The watched objects that are missing, or lack a field as we wrote it. The lease must be applied to its end: before
/// that, what differs is a deploy under way.
///
/// An object that carries the hash of another rendering, or that another provider wrote, is none of them: a deploy may
/// have written it that is newer than what the caches say is wanted.
pub(crate) fn found(items: &[Item], seen: &dyn Watched) -> Vec<Found> {
    let watched: Vec<Item> = items
        .iter()
        .filter(|item| item.id.kind.is_watched())
        .cloned()
        .collect();
    let wanted = Wanted {
        items: &watched,
        ledger: &Ledger::new(),
        there: &There::new(),
        without_password: &BTreeSet::new(),
        kept: &BTreeSet::new(),
        prune: false,
    };
    // What is just going, and sets whose claims differ, are among the other parts of the plan.
    let writes = plan(&wanted, seen).writes.into_iter();
    let judged = writes.filter_map(|write| {
        let item = watched.iter().find(|item| item.id == write.id)?;
        let Some(live) = seen.find(&write.id) else {
            return Some(Found {
                write,
                is_missing: true,
            });
        };
        let applied = live.annotation(labels::APPLIED_HASH);
        let is_sure = match applied {
            Some(hash) => hash == item.hash && !write.take_over,
            // Made anew by hand. Nothing of ours writes a policy without its hash.
            None => write.id.kind == Kind::NetworkPolicy,
        };
        is_sure.then_some(Found {
            write,
            is_missing: false,
        })
    });
    judged.collect()
}

impl Drift {
    /// True for what is put right by itself: isolation in any case.
    pub(crate) fn heals(self, kind: Kind) -> bool {
        self == Self::Heal || kind == Kind::NetworkPolicy
    }
}

#[cfg(test)]
mod tests;

//! What the node that a question lands on has: it may be behind, and may have thrown old states away.

use crate::faults::Shared;

/// The services whose state has no height that can be asked for.
const WITHOUT_HEIGHT: [&str; 3] = ["/cosmos.tx.", "/cosmos.base.node.", "/akash.discovery."];

/// True for a query of the state after a block.
pub(crate) fn has_height(path: &str) -> bool {
    !WITHOUT_HEIGHT.iter().any(|service| path.starts_with(service))
}

/// A node, by its distance to the newest one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Distance {
    behind: u64,
    keep: u64,
}

impl Distance {
    /// That of the node that the next question lands on; `None` where it is like any other.
    pub(crate) fn of(shared: &Shared) -> Option<Self> {
        let (behind, keep) = (shared.behind(), shared.faults().keep_blocks);
        (behind > 0 || keep > 0).then_some(Self { behind, keep })
    }

    /// Where it is when the newest block is that one.
    pub(crate) fn at(self, newest: u64) -> View {
        View {
            shown: newest.saturating_sub(self.behind).max(1),
            oldest: if self.keep > 0 {
                newest.saturating_sub(self.keep)
            } else {
                0
            },
        }
    }
}

/// What it has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    /// Its newest block.
    pub(crate) shown: u64,
    /// It has thrown away what is below.
    pub(crate) oldest: u64,
}

impl View {
    /// What a node says to a query about a height that it does not have: code, what the code means, and a text.
    pub(crate) fn refusal(&self, asked: u64) -> Option<(u32, &'static str, String)> {
        if asked > self.shown {
            let text = "cannot query with height in the future; please provide a valid height";
            return Some((26, "invalid height", text.to_owned()));
        }
        (asked > 0 && asked < self.oldest).then(|| {
            let text = format!(
                "failed to load state at height {asked}; version does not exist (latest height: {})",
                self.shown
            );
            (38, "not found", text)
        })
    }
}

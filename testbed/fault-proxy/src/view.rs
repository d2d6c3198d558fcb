//! State of the node that gets a request. The node may lag, and may have removed old states.

use crate::faults::ProxyFaults;

/// Path prefixes of queries that cannot have a height.
const WITHOUT_HEIGHT: [&str; 3] = ["/cosmos.tx.", "/cosmos.base.node.", "/akash.discovery."];

/// Returns true if a query with this path can have a height.
pub(crate) fn has_height(path: &str) -> bool {
    !WITHOUT_HEIGHT.iter().any(|service| path.starts_with(service))
}

/// Lag of a node, and number of retained blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Distance {
    behind: u64,
    keep: u64,
}

impl Distance {
    /// Returns the simulated lag and retention for the next request, or `None` if both are 0.
    pub(crate) fn from_shared(shared: &ProxyFaults) -> Option<Self> {
        let (behind, keep) = (shared.behind(), shared.faults().keep_blocks);
        (behind > 0 || keep > 0).then_some(Self { behind, keep })
    }

    /// Returns the block range of the node; `newest` is the chain's newest block.
    pub(crate) fn at(self, newest: u64) -> BlockRange {
        BlockRange {
            height: newest.saturating_sub(self.behind).max(1),
            oldest: if self.keep > 0 {
                newest.saturating_sub(self.keep)
            } else {
                0
            },
        }
    }
}

/// Range of blocks that a node has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRange {
    /// Newest block.
    pub(crate) height: u64,
    /// Oldest retained block; 0 if all blocks are retained.
    pub(crate) oldest: u64,
}

impl BlockRange {
    /// Returns the error for a query at an unavailable height: code, name and text.
    pub(crate) fn refusal(&self, asked: u64) -> Option<(u32, &'static str, String)> {
        if asked > self.height {
            let text = "cannot query with height in the future; please provide a valid height";
            return Some((26, "invalid height", text.to_owned()));
        }
        (asked > 0 && asked < self.oldest).then(|| {
            let text = format!(
                "failed to load state at height {asked}; version does not exist (latest height: {})",
                self.height
            );
            (38, "not found", text)
        })
    }
}

//! The reading half of the chain client: queries and events over a set of endpoints.

use crate::checkpoint::Checkpoint;
use crate::endpoints::{EndpointStatus, Endpoints};
use crate::events::{FollowerStatus, HeightStore, MemoryHeights, Settings, Witness};
use crate::lock::lock;
use crate::query::Told;
use akash_provider_core::types::{Address, BlockTime, Height};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Times of blocks that are remembered; the oldest go first.
const TIMES_MAX: usize = 16_384;

/// The time of a block, and when one node alone gave it; `None` where two nodes agreed.
type StoredTime = (BlockTime, Option<Instant>);

/// Asks and hears the chain; it sends nothing.
///
/// Implements [`ChainQuery`](akash_provider_core::chain::ChainQuery) and
/// [`ChainEvents`](akash_provider_core::chain::ChainEvents). A clone reads through the same endpoints.
#[derive(Debug, Clone)]
pub struct Reader {
    pub(crate) endpoints: Endpoints,
    pub(crate) settings: Settings,
    pub(crate) heights: Arc<dyn HeightStore>,
    pub(crate) following: Arc<Mutex<FollowerStatus>>,
    pub(crate) witness: Option<Arc<dyn Witness>>,
    /// Whose leases are never left out; `None` for somebody who only looks.
    pub(crate) us: Option<Address>,
    /// Records of others that could not be read and were told of.
    pub(crate) told: Arc<Told>,
    /// Times of blocks.
    times: Arc<Mutex<BTreeMap<Height, StoredTime>>>,
}

/// What a reader does, as values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderStatus {
    /// Each endpoint, in the order of the addresses given.
    pub endpoints: Vec<EndpointStatus>,
    /// How often another endpoint was taken.
    pub switches: u64,
    /// Why the last time.
    pub last_switch: Option<String>,
    /// How the chain is followed.
    pub follower: FollowerStatus,
    /// The processed block, where no node has reached it for five minutes; `provider-daemon state reset-height` resets
    /// it.
    pub unreached: Option<Checkpoint>,
    /// Time by which the clock of this machine is behind the nodes; block times are checked with the corrected clock.
    pub clock_behind: Option<Duration>,
}

impl Reader {
    /// Reads through these endpoints; the last height is not kept over a restart.
    #[must_use]
    pub fn new(endpoints: Endpoints) -> Self {
        Self {
            endpoints,
            settings: Settings::default(),
            heights: Arc::new(MemoryHeights::default()),
            following: Arc::default(),
            witness: None,
            us: None,
            told: Arc::default(),
            times: Arc::default(),
        }
    }

    /// Keeps the last height there.
    #[must_use]
    pub fn with_heights(mut self, heights: Arc<dyn HeightStore>) -> Self {
        self.heights = heights;
        self
    }

    /// Follows the chain with these settings.
    #[must_use]
    pub const fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Reads for this account.
    #[must_use]
    pub(crate) fn with_account(mut self, us: Address) -> Self {
        self.us = Some(us);
        self
    }

    /// Shows every block that is told to somebody else too.
    #[must_use]
    pub(crate) fn with_witness(mut self, witness: Arc<dyn Witness>) -> Self {
        self.witness = Some(witness);
        self
    }

    /// The endpoints it asks, which its clones share.
    #[must_use]
    pub const fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// What is being done, and how well.
    #[must_use]
    pub fn status(&self) -> ReaderStatus {
        let (switches, last_switch) = self.endpoints.switches();
        ReaderStatus {
            endpoints: self.endpoints.status(),
            switches,
            last_switch,
            follower: lock(&self.following).clone(),
            unreached: self.endpoints.unreached(),
            clock_behind: self.endpoints.clock_behind(),
        }
    }

    /// Stores the time of a block that one node gave.
    pub(crate) fn remember_time(&self, height: Height, time: BlockTime) {
        self.store_time(height, time, Some(Instant::now()));
    }

    /// Stores the time of a block on which two nodes agree.
    pub(crate) fn confirm_time(&self, height: Height, time: BlockTime) {
        self.store_time(height, time, None);
    }

    fn store_time(&self, height: Height, time: BlockTime, by_one: Option<Instant>) {
        let mut times = lock(&self.times);
        times.insert(height, (time, by_one));
        while times.len() > TIMES_MAX {
            // The lowest height: it is the one least likely to be asked for again.
            times.pop_first();
        }
    }

    /// The stored time of a block, and whether it is good without another reading.
    pub(crate) fn remembered_time(&self, height: Height) -> Option<(BlockTime, bool)> {
        let (time, by_one) = lock(&self.times).get(&height).copied()?;
        let age = self.endpoints.limits().single_age;
        Some((time, by_one.is_none_or(|at| at.elapsed() < age)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    #[test]
    fn times_of_the_newest_blocks_are_remembered_and_no_more() {
        let endpoints = Endpoints::new(&["http://127.0.0.1:1"], "local", Limits::default()).unwrap();
        let reader = Reader::new(endpoints);
        let last = Height::try_from(TIMES_MAX).unwrap() + 10;
        for height in 1..=last {
            reader.remember_time(height, BlockTime(1));
        }
        assert_eq!(lock(&reader.times).len(), TIMES_MAX);
        assert_eq!(reader.remembered_time(10), None);
        assert_eq!(reader.remembered_time(last), Some((BlockTime(1), true)));
    }
}

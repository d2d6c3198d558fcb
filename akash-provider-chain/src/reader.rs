//! Read-only part of the chain client: queries and events over a set of endpoints.

use crate::checkpoint::Checkpoint;
use crate::endpoints::{EndpointStatus, Endpoints};
use crate::events::heights::{HeightStore, MemoryHeights};
use crate::events::status::{BlockObserver, FollowerSettings, FollowerStatus};
use crate::lock::lock;
use crate::query::records::ReportedRecords;
use akash_provider_core::types::{Address, BlockTime, Height};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of cached block times. The time of the lowest height is removed first.
const TIMES_MAX: usize = 16_384;

/// Time of a block. The second value is the time of the query if only one node returned the block time, and
/// `None` if two nodes agreed.
type StoredTime = (BlockTime, Option<Instant>);

/// Client for queries and events.
///
/// Implements [`ChainQuery`](akash_provider_core::chain::ChainQuery) and
/// [`ChainEvents`](akash_provider_core::chain::ChainEvents). Clones share the endpoints.
#[derive(Debug, Clone)]
pub struct Reader {
    pub(crate) endpoints: Endpoints,
    pub(crate) settings: FollowerSettings,
    pub(crate) heights: Arc<dyn HeightStore>,
    pub(crate) following: Arc<Mutex<FollowerStatus>>,
    pub(crate) observer: Option<Arc<dyn BlockObserver>>,
    /// Chain account of this provider, if set. Every lease of this account must be decodable.
    pub(crate) us: Option<Address>,
    /// Malformed records of other accounts that were already logged.
    pub(crate) reported: Arc<ReportedRecords>,
    /// Cached block times.
    times: Arc<Mutex<BTreeMap<Height, StoredTime>>>,
}

/// Status of a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderStatus {
    /// Status of each endpoint, in the order of the addresses.
    pub endpoints: Vec<EndpointStatus>,
    /// Number of times that another endpoint was selected.
    pub switches: u64,
    /// Last switch of the endpoint: the address of the new endpoint, and the reason.
    pub last_switch: Option<String>,
    /// Status of the event follower.
    pub follower: FollowerStatus,
    /// Last processed block, if every reachable node has been below this block for five minutes. Otherwise
    /// `None`.
    ///
    /// To reset this block, run `provider-daemon state reset-height`.
    pub unreached: Option<Checkpoint>,
    /// Time by which the local clock is behind the nodes.
    pub clock_behind: Option<Duration>,
}

impl Reader {
    /// Creates a reader with default settings. The reader does not store the processed height on disk.
    #[must_use]
    pub fn new(endpoints: Endpoints) -> Self {
        Self {
            endpoints,
            settings: FollowerSettings::default(),
            heights: Arc::new(MemoryHeights::default()),
            following: Arc::default(),
            observer: None,
            us: None,
            reported: Arc::default(),
            times: Arc::default(),
        }
    }

    /// Sets the store in which the processed height is persisted.
    #[must_use]
    pub fn with_heights(mut self, heights: Arc<dyn HeightStore>) -> Self {
        self.heights = heights;
        self
    }

    /// Sets the settings of the event follower.
    #[must_use]
    pub const fn with_settings(mut self, settings: FollowerSettings) -> Self {
        self.settings = settings;
        self
    }

    pub(crate) fn with_account(mut self, us: Address) -> Self {
        self.us = Some(us);
        self
    }

    pub(crate) fn with_observer(mut self, observer: Arc<dyn BlockObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Returns the pool of endpoints, shared with clones of this reader.
    #[must_use]
    pub const fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Returns the status of the endpoints and the event follower.
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

    /// Caches a block time that only one node returned.
    pub(crate) fn cache_time(&self, height: Height, time: BlockTime) {
        self.store_time(height, time, Some(Instant::now()));
    }

    /// Caches a block time that two nodes returned.
    pub(crate) fn confirm_time(&self, height: Height, time: BlockTime) {
        self.store_time(height, time, None);
    }

    fn store_time(&self, height: Height, time: BlockTime, by_one: Option<Instant>) {
        let mut times = lock(&self.times);
        times.insert(height, (time, by_one));
        while times.len() > TIMES_MAX {
            // The lowest height is the least likely to be requested again.
            times.pop_first();
        }
    }

    /// Returns the cached time of a block. The flag is false if the caller must query the time again.
    pub(crate) fn cached_time(&self, height: Height) -> Option<(BlockTime, bool)> {
        let (time, by_one) = lock(&self.times).get(&height).copied()?;
        let age = self.endpoints.limits().single_age;
        Some((time, by_one.is_none_or(|at| at.elapsed() < age)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::EndpointLimits;

    #[test]
    fn caches_the_times_of_the_newest_blocks() {
        let endpoints = Endpoints::new(&["http://127.0.0.1:1"], "local", EndpointLimits::default()).unwrap();
        let reader = Reader::new(endpoints);
        let last = Height::try_from(TIMES_MAX).unwrap() + 10;
        for height in 1..=last {
            reader.cache_time(height, BlockTime(1));
        }
        assert_eq!(lock(&reader.times).len(), TIMES_MAX);
        assert_eq!(reader.cached_time(10), None);
        assert_eq!(reader.cached_time(last), Some((BlockTime(1), true)));
    }
}

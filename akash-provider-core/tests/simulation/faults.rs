//! Fault rates of a history and settings of its provider. Both follow from the seed.

use crate::ids::{PROVIDER, region};
use crate::random::Random;
use akash_provider_core::Config;
use akash_provider_core::error::{ErrorKind, Failure};
use std::time::Duration;

/// Rate of each fault, in percent. All rates are zero in the phase without faults.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Rate of calls that fail temporarily.
    pub(crate) failing: u64,
    /// Rate of calls that take effect but report a failure.
    pub(crate) done_and_failed: u64,
    /// Rate of query results that are older than the event stream.
    pub(crate) stale: u64,
    /// Rate of queries that return "not found" for an existing record.
    pub(crate) not_found: u64,
    /// Rate of queries for which the second endpoint returns a different result, or no result.
    pub(crate) disagreeing: u64,
    /// Rate of call responses that are delivered twice.
    pub(crate) twice: u64,
    /// Rate of transactions that never get into a block.
    pub(crate) lost_tx: u64,
    /// Rate of transactions with an unknown outcome. A block can include such a transaction.
    pub(crate) unknown_tx: u64,
    /// Rate of clock readings that are earlier than the previous reading.
    pub(crate) clocks: u64,
    /// Rate of steps in which a third party changes a record in the cluster.
    pub(crate) hands: u64,
    /// Rate of incomplete cluster lists, never two in a row.
    pub(crate) short: u64,
    /// Rate of restarts with a wrong namespace or cluster.
    pub(crate) misplaced: u64,
    /// Relative frequency of crashes, outages, halts and similar events.
    pub(crate) disasters: u64,
}

impl Faults {
    /// Returns the fault rates of a seed: low rates for a third of the seeds.
    pub(crate) fn of_seed(random: &mut Random) -> Self {
        let most = [3, 12, 30][random.index(3)];
        let mut rate = || random.below(most + 1);
        Self {
            failing: rate(),
            done_and_failed: rate(),
            stale: rate(),
            not_found: rate(),
            disagreeing: rate(),
            twice: rate(),
            lost_tx: rate(),
            unknown_tx: rate(),
            clocks: rate(),
            disasters: rate(),
            ..Self::default()
        }
    }
}

impl Faults {
    /// Sets the fault rates of the cluster at random. Uses the separate generator `hands`, so that other
    /// random choices do not change.
    pub(crate) fn in_the_cluster(mut self, hands: &mut Random) -> Self {
        let most = [0, 2, 6][hands.index(3)];
        self.hands = hands.below(most + 1);
        self.short = hands.below(5 * most + 1);
        self.misplaced = if hands.percent(30) { 60 } else { 0 };
        self
    }
}

pub(crate) fn config(random: &mut Random) -> Config {
    let s = Duration::from_secs;
    let mut config = Config::new(PROVIDER.clone(), "simulated");
    config.bid_timeout = (!random.percent(8)).then(|| s(random.between(60, 300)));
    config.manifest_timeout = (!random.percent(8)).then(|| s(random.between(60, 300)));
    config.reclamation_window = random.percent(25).then(|| s(3600));
    config.unhealthy_limit = (!random.percent(8)).then(|| s(random.between(300, 1800)));
    config.balance_check_interval = s(random.between(60, 300));
    config.withdrawal_period = (!random.percent(8)).then(|| s(random.between(300, 900)));
    config.overcommit_cpu_percent = if random.percent(30) { 50 } else { 0 };
    config.static_hosts_domain = random.percent(30).then(|| "apps.example".to_owned());
    config.scan_interval = s(random.between(60, 600));
    config.breaker_window = s(600);
    config.breaker_floor = u32::try_from(random.between(0, 3)).unwrap();
    config.witness_grace = s(random.between(0, 300));
    config.manifest_queue_limit = 2;
    config.leased_ips = true;
    if random.percent(10) {
        config.required_attributes = vec![region()];
    }
    config
}

pub(crate) fn failure(random: &mut Random) -> Failure {
    let (kind, transient) = match random.below(8) {
        0..4 => (ErrorKind::Unavailable, true),
        4..7 => (ErrorKind::Timeout, true),
        _ => (ErrorKind::Internal, false),
    };
    Failure {
        kind,
        transient,
        message: "injected failure".to_owned(),
    }
}

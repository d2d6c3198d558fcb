//! How much goes wrong in a history, and the settings its provider has: both follow from the seed.

use crate::ids::{OURS, region};
use crate::random::Random;
use akash_provider_core::Config;
use akash_provider_core::error::{ErrorKind, Failure};
use std::time::Duration;

/// Rates in percent. All are zero once faults have ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// A call fails, for a while.
    pub(crate) failing: u64,
    /// A call fails although it was done.
    pub(crate) done_and_failed: u64,
    /// A reading is older than what the stream has told.
    pub(crate) stale: u64,
    /// A reading does not find what is there.
    pub(crate) not_found: u64,
    /// The second endpoint disagrees or is away.
    pub(crate) disagreeing: u64,
    /// A completion comes twice.
    pub(crate) twice: u64,
    /// A transaction is never put into a block.
    pub(crate) lost_tx: u64,
    /// The outcome of a transaction stays unknown although it may land.
    pub(crate) unknown_tx: u64,
    /// A clock of the process shows less than before.
    pub(crate) clocks: u64,
    /// Somebody spoils or loses a record in the cluster, or puts it right.
    pub(crate) hands: u64,
    /// A list of the cluster lacks something; never twice in a row.
    pub(crate) short: u64,
    /// After a restart the provider looks in a wrong place.
    pub(crate) misplaced: u64,
    /// Weight of crashes, outages, halts and the like against all that happens.
    pub(crate) disasters: u64,
}

impl Faults {
    /// A third of the histories has few faults, so that they go far.
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
    /// What goes wrong in the cluster, by a chance of its own: the rest of the history stays what it is.
    pub(crate) fn in_the_cluster(mut self, hands: &mut Random) -> Self {
        let most = [0, 2, 6][hands.index(3)];
        self.hands = hands.below(most + 1);
        self.short = hands.below(5 * most + 1);
        self.misplaced = if hands.percent(30) { 60 } else { 0 };
        self
    }
}

/// Settings of the provider.
pub(crate) fn config(random: &mut Random) -> Config {
    let s = Duration::from_secs;
    let mut config = Config::new(OURS.clone(), "simulated");
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

/// A call that failed and may work later, or never.
pub(crate) fn failure(random: &mut Random) -> Failure {
    let (kind, transient) = match random.below(8) {
        0..4 => (ErrorKind::Unavailable, true),
        4..7 => (ErrorKind::Timeout, true),
        _ => (ErrorKind::Internal, false),
    };
    Failure {
        kind,
        transient,
        message: "made to fail".to_owned(),
    }
}

//! Uncommon features of a history, chosen by a separate random source.
//!
//! A new feature does not change the histories of existing seeds.

use crate::money::Wallet;
use crate::random::Random;
use akash_provider_core::Config;

/// Rates of the uncommon features.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Features {
    /// Share of groups with large memory and storage requests, in percent.
    pub(crate) bulky: u64,
    /// Share of steps in which a third party writes an invalid record, in percent.
    pub(crate) invalid_records: u64,
    /// Whether the cluster has persistent storage, and orders request persistent storage.
    pub(crate) classes: bool,
    /// Whether groups request external ports, which are scarce.
    pub(crate) ports: bool,
    /// Percentage of the failed deploys that leave some objects behind.
    pub(crate) half: u64,
    /// Rate of hostname and service losses, per thousand steps.
    pub(crate) losses: u64,
    /// Denominations and balances of the accounts.
    pub(crate) wallet: Wallet,
    /// Rate of changes of the market parameters, per thousand steps.
    pub(crate) votes: u64,
}

impl Features {
    pub(crate) fn of_seed(random: &mut Random) -> Self {
        let mut features = Self {
            bulky: if random.percent(30) { 60 } else { 0 },
            votes: if random.percent(30) { 20 } else { 0 },
            invalid_records: if random.percent(20) { 6 } else { 0 },
            ..Self::default()
        };
        if random.percent(30) {
            features.wallet = Wallet::any(random);
        }
        features.classes = random.percent(30);
        features.ports = random.percent(30);
        if random.percent(40) {
            (features.half, features.losses) = (70, 20);
        }
        features
    }

    pub(crate) fn settings(self, random: &mut Random, config: &mut Config) {
        self.wallet.settings(random, config);
        if self.ports {
            config.external_ports = u32::try_from(random.between(0, 8)).unwrap();
            config.leased_ips = random.percent(90);
        }
        if self.classes {
            config.overcommit_storage_percent = [0, 100][random.index(2)];
        }
        if self.bulky > 0 {
            config.overcommit_memory_percent = [0, 0, 50][random.index(3)];
            config.overcommit_storage_percent = [0, 0, 100][random.index(3)];
        }
    }
}

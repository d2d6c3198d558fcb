//! What is special in a history. It follows from the seed by a chance of its own, so that whatever is added here
//! leaves the histories of other seeds as they were.

use crate::money::Wallet;
use crate::random::Random;
use akash_provider_core::Config;

/// What is special. All of it is out of the ordinary: most histories have little of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flavour {
    /// Of a hundred groups, those that ask for much memory and storage.
    pub(crate) bulky: u64,
    /// Of a hundred steps, those in which somebody does something without sense.
    pub(crate) hostile: u64,
    /// There is persistent storage, and whoever wants it.
    pub(crate) classes: bool,
    /// External ports are few, and wanted.
    pub(crate) ports: bool,
    /// Of a hundred failed deploys that did something, those that did only half of it.
    pub(crate) half: u64,
    /// Of a thousand steps, those in which a name or a service goes.
    pub(crate) losses: u64,
    /// What accounts have, and in which denominations.
    pub(crate) wallet: Wallet,
    /// Of a thousand steps, those in which parameters of the market change.
    pub(crate) votes: u64,
}

impl Flavour {
    pub(crate) fn of_seed(random: &mut Random) -> Self {
        let mut flavour = Self {
            bulky: if random.percent(30) { 60 } else { 0 },
            votes: if random.percent(30) { 20 } else { 0 },
            hostile: if random.percent(20) { 6 } else { 0 },
            ..Self::default()
        };
        if random.percent(30) {
            flavour.wallet = Wallet::any(random);
        }
        flavour.classes = random.percent(30);
        flavour.ports = random.percent(30);
        if random.percent(40) {
            (flavour.half, flavour.losses) = (70, 20);
        }
        flavour
    }

    /// The settings that go with it.
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

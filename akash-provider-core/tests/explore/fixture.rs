//! Ids, settings and records shared by the worlds.

use akash_provider_core::Config;
use akash_provider_core::bidding::Decline;
use akash_provider_core::engine::Leadership;
use akash_provider_core::engine::machines::Cx;
use akash_provider_core::error::{ErrorKind, Failure};
use akash_provider_core::types::{
    Address, BidId, BlockTime, Cpu, Dec, DecCoin, DeploymentId, GroupSpec, Height, Mono, Now, OrderId,
    ResourceUnit, Resources,
};
use std::sync::LazyLock;
use std::time::Duration;

pub(crate) static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let mut config = Config::new(Address::from_bytes(&[7; 20]).unwrap(), "explore");
    config.unhealthy_limit = Some(Duration::from_secs(3600));
    config
});

pub(crate) fn order_id() -> OrderId {
    let owner = Address::from_bytes(&[1; 20]).unwrap();
    DeploymentId::new(owner, 1).group(1).order(1)
}

pub(crate) fn bid_id() -> BidId {
    order_id().bid(CONFIG.provider.clone())
}

pub(crate) fn price(amount: i64) -> DecCoin {
    DecCoin::new(&"uact".into(), Dec::from_int(amount))
}

pub(crate) fn spec() -> GroupSpec {
    let resources = Resources {
        id: 1,
        cpu: Cpu {
            units: 100,
            ..Cpu::default()
        },
        ..Resources::default()
    };
    GroupSpec::new("g", vec![ResourceUnit::new(resources, 1, price(10))])
}

pub(crate) fn transient() -> Failure {
    Failure::transient(ErrorKind::Unavailable, "away")
}

pub(crate) fn permanent() -> Failure {
    Failure::permanent(ErrorKind::Invalid, "never")
}

/// Clocks of the simulation, and conditions such as leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Clock {
    pub(crate) mono: Mono,
    pub(crate) block_time: BlockTime,
    pub(crate) height: Height,
    pub(crate) leader: bool,
    pub(crate) stopping: bool,
    pub(crate) cluster_known: bool,
    /// The reservation of the order is no longer large enough for a bid.
    pub(crate) displaced: bool,
}

static DISPLACED: Decline = Decline::AlreadyBid;

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            mono: Mono(1_000),
            block_time: BlockTime(1_000_000),
            height: 10,
            leader: true,
            stopping: false,
            cluster_known: true,
            displaced: false,
        }
    }

    pub(crate) fn cx(&self) -> Cx<'static> {
        Cx {
            config: &CONFIG,
            now: Now {
                mono: self.mono,
                block_time: self.block_time,
            },
            height: self.height,
            block_time: CONFIG.average_block_time,
            within_block: false,
            provider_version: 0,
            deposit: Some(&CONFIG.bid_deposit),
            leadership: if self.leader {
                Leadership::Leader { epoch: 1 }
            } else {
                Leadership::Standby
            },
            may_close: self.leader,
            cluster_known: self.cluster_known,
            stopping: self.stopping,
            bids_held: false,
            displaced: self.displaced.then_some(&DISPLACED),
        }
    }
}

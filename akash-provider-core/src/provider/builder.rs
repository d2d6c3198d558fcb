//! Puts a provider together.

use super::{Lifecycle, Provider, ProviderHandle};
use crate::bus::Bus;
use crate::chain::ChainClient;
use crate::cluster::Cluster;
use crate::config::{Config, InvalidConfig};
use crate::engine::{Engine, Leadership, Status};
use crate::inventory::InventorySource;
use crate::pricing::PricingStrategy;
use crate::record::Recorder;
use crate::runtime::asks::Desk;
use crate::runtime::keeping::Keeper;
use crate::runtime::lifecycle::Stage;
use crate::runtime::recorded::Recorded;
use crate::runtime::{Parts, Ports};
use crate::types::Now;
use std::sync::{Arc, OnceLock};

/// Why a provider cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Something that has no default was not given.
    #[error("{what} is missing: call `.{method}(…)` on the builder before `.build()`")]
    Missing {
        /// What, in a word.
        what: &'static str,
        /// The builder's method that takes it.
        method: &'static str,
    },
    /// The settings make no sense.
    #[error("the settings cannot be used")]
    Config(#[from] InvalidConfig),
}

/// Takes the settings and the five ports of a provider.
///
/// A port is given as it is, or as an `Arc` or `Box` of it, also of a `dyn` one: those are ports themselves. Keep a clone
/// of the `Arc` to go on using it.
#[derive(Debug, Default)]
pub struct ProviderBuilder {
    config: Option<Config>,
    cluster: Option<Arc<dyn Cluster>>,
    chain: Option<Arc<dyn ChainClient>>,
    bus: Option<Arc<dyn Bus>>,
    pricing: Option<Arc<dyn PricingStrategy>>,
    inventory: Option<Arc<dyn InventorySource>>,
    leadership: Option<Leadership>,
    bids_held: Option<Arc<str>>,
    recorder: Option<Box<dyn Recorder>>,
    keeper: Option<Arc<dyn Keeper>>,
}

impl ProviderBuilder {
    /// The settings. Whether IPs can be leased is taken from the cluster, whatever they say.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// The cluster that workloads run on.
    #[must_use]
    pub fn cluster(mut self, cluster: impl Cluster) -> Self {
        self.cluster = Some(Arc::new(cluster));
        self
    }

    /// The chain client: asked, told and listened to.
    #[must_use]
    pub fn chain(mut self, chain: impl ChainClient) -> Self {
        self.chain = Some(Arc::new(chain));
        self
    }

    /// Where facts and statuses go.
    #[must_use]
    pub fn bus(mut self, bus: impl Bus) -> Self {
        self.bus = Some(Arc::new(bus));
        self
    }

    /// What a lease costs.
    #[must_use]
    pub fn pricing(mut self, pricing: impl PricingStrategy) -> Self {
        self.pricing = Some(Arc::new(pricing));
        self
    }

    /// Where it is learnt what is free.
    #[must_use]
    pub fn inventory(mut self, inventory: impl InventorySource) -> Self {
        self.inventory = Some(Arc::new(inventory));
        self
    }

    /// Whether it may write from the start. Without high availability it always may, which is the default.
    #[must_use]
    pub const fn leadership(mut self, leadership: Leadership) -> Self {
        self.leadership = Some(leadership);
        self
    }

    /// Holds bids back from the start, until [`ProviderHandle::hold_bids`] lets them go: for whoever has more to do
    /// before a tenant can be served.
    #[must_use]
    pub fn bids_held(mut self, why: &str) -> Self {
        self.bids_held = Some(why.into());
        self
    }

    /// Takes down every input of the engine and what came of it, from its start.
    #[must_use]
    pub fn recorder(mut self, recorder: impl Recorder + 'static) -> Self {
        self.recorder = Some(Box::new(recorder));
        self
    }

    /// Keeps what the next start must know, before anything comes of it. Without one that is whoever reads the facts.
    #[must_use]
    pub fn keeper(mut self, keeper: impl Keeper + 'static) -> Self {
        self.keeper = Some(Arc::new(keeper));
        self
    }

    /// The provider, and a first handle to it. Handles are cloned.
    ///
    /// # Errors
    /// Names the port or setting that is missing or wrong, and the mend.
    pub fn build(self) -> Result<(Provider, ProviderHandle), BuildError> {
        let mut config = given(self.config, "the settings", "config")?;
        let cluster = given(self.cluster, "the cluster", "cluster")?;
        let chain = given(self.chain, "the chain client", "chain")?;
        let bus = given(self.bus, "the bus", "bus")?;
        let pricing = given(self.pricing, "the pricing strategy", "pricing")?;
        let inventory = given(self.inventory, "the inventory source", "inventory")?;
        // The cluster knows best what it can do, and a facet is constant over its life.
        config.leased_ips = cluster.leased_ips().is_some();
        config.hostnames = cluster.hostnames().is_some();
        let brain = Engine::new(config.clone())?;
        let (desk, asks) = Desk::new();
        let (stage, progress) = Stage::new();
        let last_status = Arc::new(OnceLock::new());
        let limit = config.manifest_request_timeout;
        let first = Status {
            lifecycle: Lifecycle::Init,
            ..brain.status(Now::default())
        };
        let handle = ProviderHandle::new(asks, progress, Arc::new(first), Arc::clone(&last_status), limit);
        let ports = Ports {
            cluster,
            chain,
            pricing,
        };
        let parts = Parts {
            brain: Recorded::new(brain, self.recorder),
            config,
            ports,
            bus,
            inventory,
            leadership: self.leadership.unwrap_or(Leadership::Leader { epoch: 0 }),
            bids_held: self.bids_held,
            keeper: self.keeper,
            desk,
            stage,
            last_status,
        };
        Ok((Provider { parts }, handle))
    }
}

fn given<T>(port: Option<T>, what: &'static str, method: &'static str) -> Result<T, BuildError> {
    port.ok_or(BuildError::Missing { what, method })
}

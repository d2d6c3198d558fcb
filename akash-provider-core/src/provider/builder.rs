//! Builder of a provider.

use super::{Lifecycle, Provider, ProviderHandle};
use crate::audit::AuditLog;
use crate::bus::Bus;
use crate::chain::ChainClient;
use crate::cluster::Cluster;
use crate::config::{Config, InvalidConfig};
use crate::engine::{Engine, Leadership, Status};
use crate::inventory::InventorySource;
use crate::pricing::PricingStrategy;
use crate::record::Recorder;
use crate::runtime::handle_requests::RequestQueue;
use crate::runtime::lifecycle::ProgressSender;
use crate::runtime::recorded_engine::RecordedEngine;
use crate::runtime::state_writer::StateStore;
use crate::runtime::{Ports, RuntimeParts};
use crate::types::Now;
use std::sync::{Arc, OnceLock};

/// Reason why a provider cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A required part is missing.
    #[error("{what} is missing: call `.{method}(…)` on the builder before `.build()`")]
    Missing {
        /// Name of the part.
        what: &'static str,
        /// Method of the builder that sets the missing port or setting.
        method: &'static str,
    },
    /// The settings are invalid.
    #[error("the settings cannot be used")]
    Config(#[from] InvalidConfig),
}

/// Builder of a provider from settings and five ports.
///
/// A port can be passed by value, as an `Arc` or as a `Box`, and can be a `dyn` port.
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
    store: Option<Arc<dyn StateStore>>,
    audit: Option<Arc<dyn AuditLog>>,
}

impl ProviderBuilder {
    /// Sets the settings. The cluster determines whether IPs can be leased: [`Config::leased_ips`] is
    /// ignored.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Sets the cluster that runs workloads.
    #[must_use]
    pub fn cluster(mut self, cluster: impl Cluster) -> Self {
        self.cluster = Some(Arc::new(cluster));
        self
    }

    /// Sets the chain client for queries, transactions and events.
    #[must_use]
    pub fn chain(mut self, chain: impl ChainClient) -> Self {
        self.chain = Some(Arc::new(chain));
        self
    }

    /// Sets the bus on which the provider publishes its events and statuses.
    #[must_use]
    pub fn bus(mut self, bus: impl Bus) -> Self {
        self.bus = Some(Arc::new(bus));
        self
    }

    /// Sets the pricing strategy.
    #[must_use]
    pub fn pricing(mut self, pricing: impl PricingStrategy) -> Self {
        self.pricing = Some(Arc::new(pricing));
        self
    }

    /// Sets the source of the free capacity.
    #[must_use]
    pub fn inventory(mut self, inventory: impl InventorySource) -> Self {
        self.inventory = Some(Arc::new(inventory));
        self
    }

    /// Sets the initial leadership. By default, the provider leads.
    #[must_use]
    pub const fn leadership(mut self, leadership: Leadership) -> Self {
        self.leadership = Some(leadership);
        self
    }

    /// Sends no bids until [`ProviderHandle::hold_bids`] is called with `None`. Use this method if the
    /// program must finish its setup first. The status shows the reason `why`.
    #[must_use]
    pub fn hold_bids(mut self, why: &str) -> Self {
        self.bids_held = Some(why.into());
        self
    }

    /// Sets a recorder of every input of the engine and the resulting effects.
    #[must_use]
    pub fn recorder(mut self, recorder: impl Recorder + 'static) -> Self {
        self.recorder = Some(Box::new(recorder));
        self
    }

    /// Sets the store for the state that the next start needs. Each change is stored before it takes effect.
    /// Without this store, a subscriber of the provider's events must store the state.
    #[must_use]
    pub fn state_store(mut self, store: impl StateStore + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets the log of acts that spend money or destroy data. While the log cannot store entries, acts that destroy data
    /// are delayed. Without a log, no act is delayed.
    #[must_use]
    pub fn audit_log(mut self, log: impl AuditLog) -> Self {
        self.audit = Some(Arc::new(log));
        self
    }

    /// Returns the provider and a first handle, which can be cloned.
    ///
    /// # Errors
    /// Returns an error that names the missing port or invalid setting, and the remedy.
    pub fn build(self) -> Result<(Provider, ProviderHandle), BuildError> {
        let mut config = given(self.config, "the settings", "config")?;
        let cluster = given(self.cluster, "the cluster", "cluster")?;
        let chain = given(self.chain, "the chain client", "chain")?;
        let bus = given(self.bus, "the bus", "bus")?;
        let pricing = given(self.pricing, "the pricing strategy", "pricing")?;
        let inventory = given(self.inventory, "the inventory source", "inventory")?;
        // The cluster determines its facets, which are constant.
        config.leased_ips = cluster.leased_ips().is_some();
        config.hostnames = cluster.hostnames().is_some();
        let brain = Engine::new(config.clone())?;
        let (desk, asks) = RequestQueue::new();
        let (stage, progress) = ProgressSender::new();
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
        let parts = RuntimeParts {
            brain: RecordedEngine::new(brain, self.recorder),
            config,
            ports,
            bus,
            inventory,
            leadership: self.leadership.unwrap_or(Leadership::Leader { epoch: 0 }),
            bids_held: self.bids_held,
            store: self.store,
            audit: self.audit,
            desk,
            stage,
            last_status,
            meter: handle.meter(),
        };
        Ok((Provider { parts }, handle))
    }
}

fn given<T>(port: Option<T>, what: &'static str, method: &'static str) -> Result<T, BuildError> {
    port.ok_or(BuildError::Missing { what, method })
}

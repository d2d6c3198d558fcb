//! Scenario with a running provider and a tenant, step by step.

use crate::{BLOCK, Failed, Tenant, cluster, config, market, prices};
use akash_provider_core::bus::{Bus, LocalBus};
use akash_provider_core::chain::{ChainClient, MemoryChain};
use akash_provider_core::cluster::{Cluster, Health, MemoryCluster};
use akash_provider_core::engine::Status;
use akash_provider_core::inventory::node_inventory::MemoryInventorySource;
use akash_provider_core::inventory::{InventorySource, InventoryUpdate, NodeInventory};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::pricing::PricingStrategy;
use akash_provider_core::provider::{Provider, ProviderHandle};
use akash_provider_core::types::{Coin, DecCoin, LeaseId};
use akash_provider_core::{Error, ErrorKind};
use async_trait::async_trait;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Real time between two blocks.
const PAUSE: Duration = Duration::from_millis(10);
/// Maximum number of blocks for one step of the scenario.
const BLOCKS_MAX: u32 = 1000;

/// Chain of the scenario. Provides the chain client of the provider, and executes tenant messages.
#[async_trait]
pub trait Network: fmt::Debug + Send + Sync {
    /// Returns the chain client of the provider.
    fn client(&self) -> Arc<dyn ChainClient>;
    /// Executes a message of the tenant. Returns after the chain accepts the message.
    ///
    /// # Errors
    /// The chain refuses the message.
    async fn tenant(&self, msg: TenantMsg) -> Result<(), Error>;
    /// Completes a block. Does nothing if the chain completes blocks automatically.
    fn block(&self);
}

#[async_trait]
impl Network for MemoryChain {
    fn client(&self) -> Arc<dyn ChainClient> {
        Arc::new(self.clone())
    }

    async fn tenant(&self, msg: TenantMsg) -> Result<(), Error> {
        let done = Self::tenant(self, msg);
        let refused = |e| Error::new(ErrorKind::Conflict, "act as the tenant", "refused").with_source(e);
        done.map(drop).map_err(refused)
    }

    fn block(&self) {
        self.advance(BLOCK);
    }
}

/// Replaceable backends of the provider.
#[derive(Debug, Clone)]
pub struct ProviderBackends {
    /// Chain that has the orders, bids and leases.
    pub network: Arc<dyn Network>,
    /// Cluster that runs the workloads.
    pub cluster: Arc<dyn Cluster>,
    /// Bus to which the provider publishes events.
    pub bus: Arc<dyn Bus>,
    /// Price strategy of the provider.
    pub pricing: Arc<dyn PricingStrategy>,
    /// Source of the cluster's free capacity.
    pub inventory: Arc<dyn InventorySource>,
}

impl ProviderBackends {
    /// Returns the in-memory backends of the core crate.
    ///
    /// # Errors
    /// This function never fails with the constants of this crate.
    pub fn memory() -> Result<Self, Failed> {
        let inventory = MemoryInventorySource::new();
        inventory.push(InventoryUpdate {
            inventory: Arc::new(NodeInventory::new(&cluster())),
            placements: Vec::new(),
            leased_ips: None,
        });
        Ok(Self {
            network: Arc::new(MemoryChain::with_market(market()?)),
            cluster: Arc::new(MemoryCluster::default()),
            bus: Arc::new(LocalBus::new()),
            pricing: Arc::new(prices()?),
            inventory: Arc::new(inventory),
        })
    }
}

/// Running provider with its chain and one tenant.
#[derive(Debug)]
pub struct Play {
    network: Arc<dyn Network>,
    tenant: Tenant,
    handle: ProviderHandle,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), Error>>,
}

impl Play {
    /// Starts a provider with the backends `ports`, and a tenant with the SDL `sdl`.
    ///
    /// # Errors
    /// The provider cannot start, or the SDL is invalid.
    pub async fn start(ports: ProviderBackends, sdl: &str) -> Result<Self, Failed> {
        let tenant = Tenant::new(sdl)?;
        let (provider, handle) = Provider::builder()
            .config(config()?)
            .chain(ports.network.client())
            .cluster(ports.cluster)
            .bus(ports.bus)
            .pricing(ports.pricing)
            .inventory(ports.inventory)
            .build()?;
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(provider.run(shutdown.clone()));
        handle.wait_ready().await?;
        println!("the provider is ready");
        Ok(Self {
            network: ports.network,
            tenant,
            handle,
            shutdown,
            running,
        })
    }

    /// Returns the handle of the running provider.
    #[must_use]
    pub const fn handle(&self) -> &ProviderHandle {
        &self.handle
    }

    /// Returns the id of the lease in the scenario.
    ///
    /// # Errors
    /// This function never fails with the constants of this crate.
    pub fn lease(&self) -> Result<LeaseId, Failed> {
        self.tenant.lease()
    }

    /// Creates the deployment of the tenant with its order. Returns the price of the provider's bid.
    ///
    /// # Errors
    /// Returns an error with the reason if the provider declines the order.
    pub async fn order(&self) -> Result<DecCoin, Failed> {
        self.network.tenant(self.tenant.create()).await?;
        let id = self.lease()?;
        let chain = self.network.client();
        // A failed query of the provider is repeated with the next block.
        let bid = self
            .until("a bid", async |_| chain.bid(&id).await.ok()?.value)
            .await?;
        println!("the provider bids {}", bid.price);
        Ok(bid.price)
    }

    /// Accepts the bid and submits the manifest. Returns when the workload is healthy.
    ///
    /// # Errors
    /// The chain refuses the lease, the provider refuses the manifest, or the workload does not become healthy.
    pub async fn run(&self) -> Result<(), Failed> {
        let lease = self.lease()?;
        self.network.tenant(Tenant::accept(lease.clone())).await?;
        self.until("the lease", async |status| {
            status.leases.iter().any(|l| l.lease == lease).then_some(())
        })
        .await?;
        println!("the tenant accepted the bid, which became the lease {lease}");
        let (manifest, hash) = (self.tenant.manifest(), self.tenant.hash());
        let deployment = self.tenant.deployment();
        self.handle.submit_manifest(deployment, manifest, hash).await?;
        println!("the provider received the manifest of the tenant");
        self.until("a healthy workload", async |status| {
            let healthy = |l: &&_| is_healthy(l, &lease);
            status.leases.iter().find(healthy).map(drop)
        })
        .await?;
        println!("the workload is healthy");
        Ok(())
    }

    /// Closes the deployment, and waits until the provider has released the lease. Returns the earnings of
    /// the provider.
    ///
    /// # Errors
    /// The provider does not release all resources of the lease.
    pub async fn close(&self) -> Result<Coin, Failed> {
        self.network.tenant(self.tenant.close()).await?;
        self.until("an end", async |status| is_empty(&status).then_some(()))
            .await?;
        let lease = self.lease()?;
        let record = self.network.client().lease(&lease).await?.value;
        let payment = record.and_then(|r| r.payment).ok_or("the lease has no payment")?;
        println!(
            "the tenant closes: everything is released, {} earned",
            payment.withdrawn
        );
        Ok(payment.withdrawn)
    }

    /// Stops the provider. Returns its last status.
    ///
    /// # Errors
    /// The provider ended with an error.
    pub async fn stop(self) -> Result<Arc<Status>, Failed> {
        self.shutdown.cancel();
        self.running.await??;
        println!("the provider has stopped");
        Ok(self.handle.status().await)
    }

    /// Completes blocks until `seen` returns a value for the status of the provider.
    async fn until<T>(&self, what: &str, seen: impl AsyncFn(Arc<Status>) -> Option<T>) -> Result<T, Failed> {
        for _ in 0..BLOCKS_MAX {
            self.network.block();
            tokio::time::sleep(PAUSE).await;
            let status = self.handle.status().await;
            if let Some(decline) = status.recent_declines.last() {
                return Err(format!("the provider declines: {}", decline.message).into());
            }
            if let Some(found) = seen(status).await {
                return Ok(found);
            }
        }
        let status = self.handle.status().await;
        Err(format!("timeout while waiting for {what}: {status:#?}").into())
    }
}

fn is_healthy(info: &akash_provider_core::engine::status::LeaseInfo, lease: &LeaseId) -> bool {
    info.lease == *lease && info.health == Health::Good
}

/// Returns true if the provider has no order, lease, hostname or reservation.
fn is_empty(status: &Status) -> bool {
    let inventory = &status.inventory;
    status.orders.is_empty()
        && status.leases.is_empty()
        && status.hostnames.is_empty()
        && inventory.active.is_empty()
        && inventory.pending.is_empty()
}

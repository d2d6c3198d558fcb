//! Scenario around a running provider, step by step.

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
/// Maximum number of blocks until a step must succeed. The limits of the chain are similar: five minutes for
/// a bid or a manifest.
const BLOCKS_MAX: u32 = 1000;

/// Chain with a client for the provider and a tenant.
#[async_trait]
pub trait Network: fmt::Debug + Send + Sync {
    /// Returns the provider's client.
    fn client(&self) -> Arc<dyn ChainClient>;
    /// Executes a message of the tenant; returns when the message is accepted.
    ///
    /// # Errors
    /// The network refuses the message.
    async fn tenant(&self, msg: TenantMsg) -> Result<(), Error>;
    /// Completes a block, on networks without automatic blocks.
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

/// Ports that an example may replace.
#[derive(Debug, Clone)]
pub struct Ports {
    /// Chain with orders, bids and leases.
    pub network: Arc<dyn Network>,
    /// Cluster of the workloads.
    pub cluster: Arc<dyn Cluster>,
    /// Bus for events.
    pub bus: Arc<dyn Bus>,
    /// Price strategy.
    pub pricing: Arc<dyn PricingStrategy>,
    /// Source of the free capacity.
    pub inventory: Arc<dyn InventorySource>,
}

impl Ports {
    /// Returns the in-memory backends of the core.
    ///
    /// # Errors
    /// None with the constants of this crate.
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
    /// Starts a provider with these ports, for a tenant with this SDL.
    ///
    /// # Errors
    /// The provider cannot start, or the SDL is invalid.
    pub async fn start(ports: Ports, sdl: &str) -> Result<Self, Failed> {
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

    /// Returns the handle of the provider.
    #[must_use]
    pub const fn handle(&self) -> &ProviderHandle {
        &self.handle
    }

    /// Returns the lease of the scenario.
    ///
    /// # Errors
    /// None with the constants of this crate.
    pub fn lease(&self) -> Result<LeaseId, Failed> {
        self.tenant.lease()
    }

    /// Creates the order of the tenant. Returns the price of the bid that the provider places.
    ///
    /// # Errors
    /// The provider declines, with the reason.
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

    /// Accepts the bid and submits the manifest; returns once the workload is healthy.
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
        println!("the tenant accepts the bid: lease {lease}");
        let (manifest, hash) = (self.tenant.manifest(), self.tenant.hash());
        let deployment = self.tenant.deployment();
        self.handle.submit_manifest(deployment, manifest, hash).await?;
        println!("the provider has the manifest");
        self.until("a healthy workload", async |status| {
            let healthy = |l: &&_| is_healthy(l, &lease);
            status.leases.iter().find(healthy).map(drop)
        })
        .await?;
        println!("the workload is healthy");
        Ok(())
    }

    /// Closes the deployment; returns the provider's earnings once the lease is released.
    ///
    /// # Errors
    /// A part of the lease is not released.
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

    /// Stops the provider; returns its last status.
    ///
    /// # Errors
    /// The provider failed.
    pub async fn stop(self) -> Result<Arc<Status>, Failed> {
        self.shutdown.cancel();
        self.running.await??;
        println!("the provider has stopped");
        Ok(self.handle.status().await)
    }

    /// Completes blocks until `seen` returns a value. `seen` gets the status of the provider and may also
    /// check other state.
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

/// Returns true if the provider holds no order, lease or reservation.
fn is_empty(status: &Status) -> bool {
    let inventory = &status.inventory;
    status.orders.is_empty()
        && status.leases.is_empty()
        && status.hostnames.is_empty()
        && inventory.active.is_empty()
        && inventory.pending.is_empty()
}

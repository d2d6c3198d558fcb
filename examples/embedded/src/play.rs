//! The play, act by act, around a provider that runs.

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
/// Blocks an act may take. The chain's own limits (five minutes for a bid or a manifest) are of this size.
const PATIENCE: u32 = 1000;

/// A chain with people on it: the provider has a client of it, and the tenant acts there.
#[async_trait]
pub trait Network: fmt::Debug + Send + Sync {
    /// The provider's client.
    fn client(&self) -> Arc<dyn ChainClient>;
    /// The tenant acts; returns once that is accepted.
    ///
    /// # Errors
    /// The network's refusal.
    async fn tenant(&self, msg: TenantMsg) -> Result<(), Error>;
    /// Completes a block; nothing where blocks come by themselves.
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

/// The ports that an example may swap.
#[derive(Debug, Clone)]
pub struct Ports {
    /// Where orders, bids and leases are.
    pub network: Arc<dyn Network>,
    /// Where workloads run.
    pub cluster: Arc<dyn Cluster>,
    /// Where facts go.
    pub bus: Arc<dyn Bus>,
    /// What a lease costs.
    pub pricing: Arc<dyn PricingStrategy>,
    /// What is free.
    pub inventory: Arc<dyn InventorySource>,
}

impl Ports {
    /// All of them as the core brings them along.
    ///
    /// # Errors
    /// None while the constants of this crate are what they are.
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

/// A provider that runs, the chain it works on, and its one tenant.
#[derive(Debug)]
pub struct Play {
    network: Arc<dyn Network>,
    tenant: Tenant,
    handle: ProviderHandle,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), Error>>,
}

impl Play {
    /// Starts a provider with these ports, for a tenant who wants this SDL.
    ///
    /// # Errors
    /// What keeps the provider from starting, or is wrong with the SDL.
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

    /// The provider's handle.
    #[must_use]
    pub const fn handle(&self) -> &ProviderHandle {
        &self.handle
    }

    /// The lease this is about.
    ///
    /// # Errors
    /// None while the constants of this crate are what they are.
    pub fn lease(&self) -> Result<LeaseId, Failed> {
        self.tenant.lease()
    }

    /// The tenant orders; the price of the provider's bid.
    ///
    /// # Errors
    /// When no bid comes, with the reason why the provider declined.
    pub async fn order(&self) -> Result<DecCoin, Failed> {
        self.network.tenant(self.tenant.create()).await?;
        let id = self.lease()?;
        let chain = self.network.client();
        // Who could not ask asks again with the next block.
        let bid = self
            .until("a bid", async |_| chain.bid(&id).await.ok()?.value)
            .await?;
        println!("the provider bids {}", bid.price);
        Ok(bid.price)
    }

    /// The tenant takes the bid and hands in the manifest; returns once the workload is healthy.
    ///
    /// # Errors
    /// When the chain refuses the lease, the provider the manifest, or the workload does not get healthy.
    pub async fn run(&self) -> Result<(), Failed> {
        let lease = self.lease()?;
        self.network.tenant(Tenant::accept(lease.clone())).await?;
        self.until("the lease", async |status| {
            status.leases.iter().any(|l| l.lease == lease).then_some(())
        })
        .await?;
        println!("the tenant takes the bid: lease {lease}");
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

    /// The tenant closes the deployment; returns what the provider earned, once nothing is left of the lease.
    ///
    /// # Errors
    /// When something is left.
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

    /// Stops the provider; its last status.
    ///
    /// # Errors
    /// What the provider ended with.
    pub async fn stop(self) -> Result<Arc<Status>, Failed> {
        self.shutdown.cancel();
        self.running.await??;
        println!("the provider has stopped");
        Ok(self.handle.status().await)
    }

    /// Lets blocks pass until the status, or what the closure looks at, shows what is waited for.
    async fn until<T>(&self, what: &str, seen: impl AsyncFn(Arc<Status>) -> Option<T>) -> Result<T, Failed> {
        for _ in 0..PATIENCE {
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
        Err(format!("{what} does not come: {status:#?}").into())
    }
}

fn is_healthy(info: &akash_provider_core::engine::status::LeaseInfo, lease: &LeaseId) -> bool {
    info.lease == *lease && info.health == Health::Good
}

/// True when the provider holds nothing for anybody.
fn is_empty(status: &Status) -> bool {
    let inventory = &status.inventory;
    status.orders.is_empty()
        && status.leases.is_empty()
        && status.hostnames.is_empty()
        && inventory.active.is_empty()
        && inventory.pending.is_empty()
}

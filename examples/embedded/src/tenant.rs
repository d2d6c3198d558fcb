//! Market, tenant and settings of the examples. This file performs no input or output.

use crate::Failed;
use akash_provider_core::Config;
use akash_provider_core::inventory::{ClusterSpec, NodeSpec};
use akash_provider_core::manifest::Manifest;
use akash_provider_core::market::{Market, MarketConfig, TenantMsg};
use akash_provider_core::pricing::{Scale, ScaleConfig};
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{BidId, BlockTime, Coin, DeploymentId, LeaseId, Msg, ProviderRecord};
use std::sync::Arc;
use std::time::Duration;

/// Id of the chain in the examples.
pub const CHAIN_ID: &str = "embedded";
/// Chain account of the provider.
pub const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
/// Chain account of the tenant. Its private key is 32 bytes with the value 7.
pub const TENANT: &str = "akash150rtrmj2f8vl9tem8qpfw36ylw5jg9j27c8wqr";
/// Denomination of all payments.
pub const DENOM: &str = "uact";
/// Time between consecutive blocks. The examples complete blocks faster than in real time.
pub const BLOCK: Duration = Duration::from_secs(6);

/// SDL of a web server with half a CPU core, for at most 50 uact per block.
pub const SDL: &str = r#"
version: "2.0"
services:
  web:
    image: web-server:1
    env: [GREETING=hello]
    expose:
      - port: 80
        accept: [web.example.com]
        to: [{global: true}]
profiles:
  compute:
    small:
      resources:
        cpu: {units: 0.5}
        memory: {size: 256Mi}
        storage: {size: 512Mi}
  placement:
    anywhere:
      pricing:
        small: {denom: uact, amount: 50}
deployment:
  web:
    anywhere: {profile: small, count: 1}
"#;

/// Creates a market with a registered provider and funded accounts.
///
/// # Errors
/// This function never fails with the constants of this file.
pub fn market() -> Result<Market, Failed> {
    let mut market = Market::new(MarketConfig::new(CHAIN_ID, BlockTime(1_700_000_000_000)));
    let coin = Coin::new(DENOM, 100_000_000);
    for account in [PROVIDER, TENANT] {
        market.fund(&account.parse()?, &coin);
    }
    market.execute(&Msg::CreateProvider(ProviderRecord {
        owner: PROVIDER.parse()?,
        host_uri: "https://provider.example.com:8443".to_owned(),
        info: Default::default(),
        attributes: Vec::new(),
    }))?;
    market.end_block(BLOCK);
    Ok(market)
}

/// Returns the default settings with the provider's account and the chain id.
///
/// # Errors
/// This function never fails with the constants of this file.
pub fn config() -> Result<Config, Failed> {
    Ok(Config::new(PROVIDER.parse()?, CHAIN_ID))
}

/// Returns a price strategy: 0.01 per millicore and per MiB of memory, 0.001 per MiB of storage.
///
/// # Errors
/// This function never fails with the constants of this file.
pub fn prices() -> Result<Scale, Failed> {
    let mut config = ScaleConfig::default();
    config.cpu = "0.01".parse()?;
    config.memory = "0.01".parse()?;
    config.storage = [("ephemeral".to_owned(), "0.001".parse()?)].into();
    Ok(Scale::new(config)?)
}

/// Returns a cluster of two nodes, each with four cores, 8 GiB of memory and 100 GiB of storage.
#[must_use]
pub fn cluster() -> ClusterSpec {
    const GIB: i64 = 1 << 30;
    let node = |name| NodeSpec::new(name, 4000, 8 * GIB, 100 * GIB);
    ClusterSpec::from_nodes([node("node-1"), node("node-2")])
}

/// Tenant with one deployment that has one group.
#[derive(Debug, Clone)]
pub struct Tenant {
    id: DeploymentId,
    sdl: Sdl,
}

impl Tenant {
    /// Creates a tenant with this SDL.
    ///
    /// # Errors
    /// The SDL is invalid. The error names the line and the field.
    pub fn new(sdl: &str) -> Result<Self, Failed> {
        Ok(Self {
            id: DeploymentId::new(TENANT.parse()?, 1),
            sdl: sdl::parse(sdl)?,
        })
    }

    /// Returns the id of the deployment.
    #[must_use]
    pub const fn deployment(&self) -> &DeploymentId {
        &self.id
    }

    /// Returns the id of the lease, which equals the id of the provider's bid.
    ///
    /// # Errors
    /// This function never fails with the constants of this file.
    pub fn lease(&self) -> Result<LeaseId, Failed> {
        let deployment = self.id.clone();
        let group = deployment.group(1);
        Ok(group.order(1).bid(PROVIDER.parse()?))
    }

    /// Returns the manifest that the tenant submits to the provider.
    #[must_use]
    pub fn manifest(&self) -> Arc<Manifest> {
        Arc::new(self.sdl.manifest.clone())
    }

    /// Returns the hash of the manifest. The deployment on the chain contains the same hash.
    #[must_use]
    pub const fn hash(&self) -> [u8; 32] {
        self.sdl.hash
    }

    /// Returns the message that creates the deployment and the order.
    #[must_use]
    pub fn create(&self) -> TenantMsg {
        TenantMsg::CreateDeployment {
            id: self.id.clone(),
            groups: self.sdl.groups.clone(),
            hash: self.sdl.hash,
            deposit: Coin::new(DENOM, 5_000_000),
            reclamation_min_window: self.sdl.reclamation_min_window,
        }
    }

    /// Returns the message that accepts a bid.
    #[must_use]
    pub const fn accept(bid: BidId) -> TenantMsg {
        TenantMsg::CreateLease { bid }
    }

    /// Returns the message that closes the deployment.
    #[must_use]
    pub fn close(&self) -> TenantMsg {
        TenantMsg::CloseDeployment { id: self.id.clone() }
    }
}

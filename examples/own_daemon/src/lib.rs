//! A daemon of one's own, small enough to be read at once.
//!
//! ```text
//!   daemon.toml ──► Settings ──► AkashClient ─┐
//!   kept.json ◄──► Kept ──────────────────────┼──► Provider, until it is told to stop
//!   your cluster, your capacity ──────────────┘
//! ```
//! What a daemon in production has besides, such as a gateway for tenants, certificates and metrics, is in the guide
//! `docs/embedding.md`.

mod kept;
mod settings;

use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_core::bus::LocalBus;
use akash_provider_core::cluster::Cluster;
use akash_provider_core::inventory::InventorySource;
use akash_provider_core::provider::{Provider, ProviderHandle};
pub use kept::{KeptFile, read};
pub use settings::{Prices, Settings};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Anything that can go wrong ends the daemon, and says what it was.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// What is yours: where workloads run, and what is free there.
#[derive(Debug, Clone)]
pub struct Backend {
    /// Where workloads run.
    pub cluster: Arc<dyn Cluster>,
    /// What is free.
    pub inventory: Arc<dyn InventorySource>,
}

/// Runs a provider until `stop` is cancelled. `started` gets its handle before it runs.
///
/// # Errors
/// Settings that cannot be used, a file that cannot be read, and how the provider itself ended.
pub async fn run(
    settings: Settings,
    backend: Backend,
    stop: CancellationToken,
    started: impl FnOnce(ProviderHandle) + Send,
) -> Result<(), Failed> {
    let mut config = settings.provider.clone();
    kept::read(&settings.kept)?.give(&mut config);

    // The chain: it is followed, and sent to, from a task of its own.
    let client = ClientSettings {
        key: Some(settings.private_key(&config.provider)?),
        ..ClientSettings::new(settings.nodes.clone(), config.chain_id.as_str())
    };
    let chain_stops = CancellationToken::new();
    let (chain, following) = AkashClient::start(client, chain_stops.clone())?;
    let following = tokio::spawn(following);

    let (provider, handle) = Provider::builder()
        .config(config)
        .cluster(backend.cluster)
        .inventory(backend.inventory)
        .chain(Arc::new(chain))
        .pricing(Arc::new(settings.prices.scale()?))
        .bus(Arc::new(LocalBus::new()))
        .keeper(KeptFile(settings.kept))
        .build()?;
    started(handle);

    let ended = provider.run(stop).await;

    chain_stops.cancel();
    following.await?;
    ended?;
    Ok(())
}

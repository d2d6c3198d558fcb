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
use akash_provider_core::bus::{Bus, LocalBus};
use akash_provider_core::cluster::Cluster;
use akash_provider_core::inventory::InventorySource;
use akash_provider_core::provider::{Provider, ProviderHandle};
use akash_provider_core::types::Topic;
pub use kept::{keep, read};
pub use settings::{Prices, Settings};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Anything that can go wrong ends the daemon, and says what it was.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// How long the last change of what is kept may take to be written at the end.
const LAST_WRITE: Duration = Duration::from_secs(5);

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
    let before = kept::read(&settings.kept)?;
    before.give(&mut config);

    // The chain: it is followed, and sent to, from a task of its own.
    let client = ClientSettings {
        key: Some(settings.private_key(&config.provider)?),
        ..ClientSettings::new(settings.nodes.clone(), config.chain_id.as_str())
    };
    let chain_stops = CancellationToken::new();
    let (chain, following) = AkashClient::start(client, chain_stops.clone())?;
    let following = tokio::spawn(following);

    let bus = LocalBus::new();
    // Subscribed before the provider runs, so that nothing is missed.
    let facts = bus.subscribe(&[Topic::Facts]).await?;
    let (provider, handle) = Provider::builder()
        .config(config)
        .cluster(backend.cluster)
        .inventory(backend.inventory)
        .chain(Arc::new(chain))
        .pricing(Arc::new(settings.prices.scale()?))
        .bus(Arc::new(bus))
        .build()?;
    let keeping = tokio::spawn(kept::keep(facts, handle.clone(), before, settings.kept));
    started(handle);

    let ended = provider.run(stop).await;

    // The provider has gone, and the bus with it: what it has said last is written now.
    let kept = tokio::time::timeout(LAST_WRITE, keeping).await;
    chain_stops.cancel();
    following.await?;
    ended?;
    kept.map_err(|_| "what is to be kept was not written in time")??
        .map_err(Into::into)
}

//! Custom daemon, small enough to read as a whole.
//!
//! ```text
//!   daemon.toml ──► Settings ──► AkashClient ─┐
//!   state.json ◄─► RestartState ──────────────┼──► Provider, until it is stopped
//!   your cluster, your capacity ──────────────┘
//! ```
//! `docs/embedding.md` describes what a daemon in production needs in addition, such as a gateway for tenants,
//! certificates and metrics.

mod settings;
mod state;

use akash_provider_chain::tx::TxSigner;
use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_core::bus::LocalBus;
use akash_provider_core::cluster::Cluster;
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::inventory::InventorySource;
use akash_provider_core::provider::{Provider, ProviderHandle};
pub use settings::{DaemonSettings, Prices};
pub use state::{StateFile, read};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Error that ends the daemon.
pub type DaemonError = Box<dyn std::error::Error + Send + Sync>;

/// Cluster of this daemon, and source of its capacity.
#[derive(Debug, Clone)]
pub struct ClusterBackend {
    /// Cluster that runs the workloads.
    pub cluster: Arc<dyn Cluster>,
    /// Source of the cluster's free capacity.
    pub inventory: Arc<dyn InventorySource>,
}

/// Runs a provider until `stop` is cancelled. First calls `started` with the handle of the provider.
///
/// # Errors
/// The settings are invalid, a file cannot be read, or the provider failed.
pub async fn run(
    settings: DaemonSettings,
    backend: ClusterBackend,
    stop: CancellationToken,
    started: impl FnOnce(ProviderHandle) + Send,
) -> Result<(), DaemonError> {
    let mut config = settings.provider.clone();
    state::read(&settings.state)?.apply_to(&mut config);

    // The chain client follows the chain and sends transactions in a separate task.
    let mut client = ClientSettings::new(settings.nodes.clone(), config.chain_id.as_str());
    // Without an election, this daemon always writes.
    client.signer = Some(TxSigner::new(
        settings.private_key(&config.provider)?,
        LeadershipGate::new(true),
    ));
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
        .state_store(StateFile(settings.state))
        .build()?;
    started(handle);

    let ended = provider.run(stop).await;

    chain_stops.cancel();
    following.await?;
    ended?;
    Ok(())
}

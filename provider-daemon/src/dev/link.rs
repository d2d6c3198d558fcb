//! How the provider of the embedded market speaks to it: directly, or over the wire.

use super::gateway::is_wanted;
use super::{Printer, names, node};
use crate::args::DevArgs;
use akash_provider_chain::tx::PlannerConfig;
use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_core::chain::{ChainClient, MemoryChain};
use akash_provider_core::types::Address;
use akash_provider_devnet::{Devnet, DevnetConfig};
use anyhow::Context;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longest time between two questions for the newest block while a transaction is under way.
const POLL_MAX: Duration = Duration::from_secs(1);

/// The provider's chain, and what keeps it.
#[derive(Debug)]
pub struct Link {
    client: Arc<dyn ChainClient>,
    /// The network between provider and market, and the client's task.
    wire: Option<(Devnet, JoinHandle<()>)>,
}

/// The provider's account: over the wire it signs, so it has a key.
///
/// # Errors
/// Never, in practice: the bytes are fixed.
pub fn account(args: &DevArgs) -> anyhow::Result<Address> {
    if args.wire {
        return Ok(names::provider_key()?.address().clone());
    }
    names::provider()
}

impl Link {
    /// Opens it.
    ///
    /// # Errors
    /// There is no free port on this machine.
    pub async fn open(
        args: &DevArgs,
        chain: &MemoryChain,
        printer: &Printer,
        stop: &CancellationToken,
    ) -> anyhow::Result<Self> {
        if !args.wire {
            return Ok(Self {
                client: Arc::new(chain.clone()),
                wire: None,
            });
        }
        // Nobody but the provider asks where no tenant is let in.
        let devnet = match is_wanted(args) {
            true => node::start(chain, printer).await?,
            false => Devnet::start(DevnetConfig::new(chain.clone())).await?,
        };
        let chain_id = chain.market(|m| m.chain_id().to_owned());
        let mut settings = ClientSettings::new(vec![devnet.rpc_url()], chain_id.clone());
        settings.key = Some(names::provider_key()?);
        settings.planner = PlannerConfig {
            // Blocks may be quicker than the network's.
            poll: args.block_time.min(POLL_MAX),
            ..PlannerConfig::new(chain_id)
        };
        let (client, task) = AkashClient::start(settings, stop.clone())?;
        Ok(Self {
            client: Arc::new(client),
            wire: Some((devnet, tokio::spawn(task))),
        })
    }

    /// The chain as the provider knows it.
    #[must_use]
    pub fn client(&self) -> Arc<dyn ChainClient> {
        Arc::clone(&self.client)
    }

    /// True when the provider sees only what is in a complete block.
    #[must_use]
    pub const fn is_wire(&self) -> bool {
        self.wire.is_some()
    }

    /// Where the network between provider and market is asked, when there is one.
    #[must_use]
    pub fn rpc_url(&self) -> Option<String> {
        self.wire.as_ref().map(|(devnet, _)| devnet.rpc_url())
    }

    /// Ends it, once it was told to stop.
    ///
    /// # Errors
    /// A part of it failed.
    pub async fn close(self) -> anyhow::Result<()> {
        if let Some((devnet, task)) = self.wire {
            // The client before its network: one that goes away under it would look like an outage.
            task.await.context("the client of the network")?;
            devnet.stop().await;
        }
        Ok(())
    }
}

//! Connection of the embedded market's provider to the chain: direct, or over the network protocols.

use crate::args::DevArgs;
use crate::gateway::is_wanted;
use crate::node;
use akash_provider_chain::tx::TxSigner;
use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_core::chain::{ChainClient, MemoryChain};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::types::Address;
use akash_provider_devnet::{Devnet, DevnetConfig};
use akash_provider_service::printer::Printer;
use akash_provider_service::trial;
use anyhow::Context;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Maximum interval of block queries during a pending transaction.
const POLL_MAX: Duration = Duration::from_secs(1);

/// Chain client of the provider, and its background tasks.
#[derive(Debug)]
pub struct Link {
    client: Arc<dyn ChainClient>,
    /// Development network between provider and market, with the task of the chain client; `None` for a
    /// direct connection.
    wire: Option<(Devnet, JoinHandle<()>)>,
}

/// Returns the account of the provider. With `--wire`, the account has a known private key, because the
/// provider signs transactions.
///
/// # Errors
/// Returns an error only for an invalid constant.
pub(crate) fn account(args: &DevArgs) -> anyhow::Result<Address> {
    if args.wire {
        return Ok(trial::provider_key()?.address().clone());
    }
    trial::provider()
}

impl Link {
    /// Opens the connection.
    ///
    /// # Errors
    /// Returns an error if there is no unused port.
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
        // Without tenants only the provider queries the node.
        let devnet = match is_wanted(args) {
            true => node::start(chain, printer).await?,
            false => Devnet::start(DevnetConfig::new(chain.clone())).await?,
        };
        let chain_id = chain.market(|m| m.chain_id().to_owned());
        let mut settings = ClientSettings::new(vec![devnet.rpc_url()], chain_id);
        settings.signer = Some(TxSigner::new(trial::provider_key()?, LeadershipGate::new(true)));
        // Blocks may be faster than on the network.
        settings.planner.poll = args.block_time.min(POLL_MAX);
        let (client, task) = AkashClient::start(settings, stop.clone())?;
        Ok(Self {
            client: Arc::new(client),
            wire: Some((devnet, tokio::spawn(task))),
        })
    }

    /// Returns the chain client of the provider.
    #[must_use]
    pub fn client(&self) -> Arc<dyn ChainClient> {
        Arc::clone(&self.client)
    }

    /// Returns true if a development network connects provider and market. The provider then receives changes
    /// with the next block.
    #[must_use]
    pub const fn is_wire(&self) -> bool {
        self.wire.is_some()
    }

    /// Returns the RPC URL of the development network, or `None` for a direct connection.
    #[must_use]
    pub fn rpc_url(&self) -> Option<String> {
        self.wire.as_ref().map(|(devnet, _)| devnet.rpc_url())
    }

    /// Waits until the chain client has stopped, then stops the development network.
    ///
    /// # Errors
    /// Returns an error if the task of the chain client failed.
    pub async fn close(self) -> anyhow::Result<()> {
        if let Some((devnet, task)) = self.wire {
            // The client ends first: a missing network would look like an outage.
            task.await.context("the chain client failed")?;
            devnet.stop().await;
        }
        Ok(())
    }
}

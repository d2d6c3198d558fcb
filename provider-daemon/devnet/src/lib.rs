//! Development network: a [`MemoryChain`] that is served through the protocols of Akash nodes.
//!
//! | port | protocol |
//! |---|---|
//! | RPC | CometBFT's JSON-RPC in bodies and URLs, and its websocket with subscriptions |
//! | gRPC | the queries of the Akash modules, transactions, queries about the node itself, discovery |
//!
//! Transactions are real: they are decoded and checked for signature, chain id, sequence or nonce, timeout, fee and gas
//! as on the Akash network. The next block executes them, with the codes, texts and events of the Akash network. Not
//! implemented: consensus, proofs, signatures other than in direct mode, transactions of several signers, grants,
//! rewards. The next block also contains changes that are made directly on the [`MemoryChain`]. The crate does not
//! depend on the daemon, so tests of any client can use it.
//!
//! ```
//! use akash_provider_core::chain::MemoryChain;
//! use akash_provider_core::market::MarketConfig;
//! use akash_provider_core::types::BlockTime;
//! use akash_provider_devnet::{Devnet, DevnetConfig};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), akash_provider_devnet::DevnetError> {
//! let chain = MemoryChain::new(MarketConfig::new("devnet", BlockTime(1_700_000_000_000)));
//! let devnet = Devnet::start(DevnetConfig::new(chain)).await?;
//! println!("{} {}", devnet.rpc_url(), devnet.grpc_url());
//! assert_eq!(devnet.make_block(), 2);
//! devnet.stop().await;
//! # Ok(()) }
//! ```

mod ante;
mod block;
mod deliver;
mod event;
mod filter;
mod gas;
mod grpc;
mod http;
pub mod keys;
mod money;
mod node;
mod query;
mod refusal;
mod rpc;
mod rpc_call;
mod rpc_params;
mod serve;
mod socket;
mod tx;
pub mod wallet;

use akash_provider_core::chain::MemoryChain;
use akash_provider_core::error::listen_text;
use akash_provider_core::types::{Dec, DecCoin, Height};
use ante::AnteParams;
use node::DevnetNode;
use serve::ServerLimits;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Time between blocks from [`Devnet::make_block`]: the block interval of the Akash network.
const BLOCK_STEP: Duration = Duration::from_secs(6);
/// 0.0025, scaled by 10^18: the default minimum gas price.
const GAS_PRICE: i128 = 2_500_000_000_000_000;

/// Settings of a development network. Start with [`DevnetConfig::new`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DevnetConfig {
    /// Chain to serve, from its newest block on.
    pub chain: MemoryChain,
    /// Time between blocks; `None` if only [`Devnet::make_block`] creates them.
    pub block_time: Option<Duration>,
    /// Listen address of the JSON-RPC server.
    pub listen_rpc: SocketAddr,
    /// Listen address of the gRPC server.
    pub listen_grpc: SocketAddr,
    /// Minimum gas price that a transaction must pay.
    pub gas_price: DecCoin,
    /// Whether unordered transactions are accepted. The Akash network accepts such transactions; older chains
    /// refuse them.
    pub takes_unordered: bool,
}

impl DevnetConfig {
    /// Creates settings with free loopback ports and without automatic blocks.
    #[must_use]
    pub fn new(chain: MemoryChain) -> Self {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            chain,
            block_time: None,
            listen_rpc: free,
            listen_grpc: free,
            gas_price: DecCoin::new(&"uakt".into(), Dec::from_scaled(GAS_PRICE)),
            takes_unordered: true,
        }
    }
}

/// Reason why a development network cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevnetError {
    /// The address cannot be bound.
    #[error("{flag} {address}: {}", listen_text(.why))]
    Listen {
        /// Name of the flag that sets the address.
        flag: &'static str,
        /// Requested address. Port 0 means any free port.
        address: SocketAddr,
        /// Cause: usually the address is in use or does not belong to this machine.
        why: io::Error,
    },
}

/// Running development network. Dropping this value stops the network.
#[derive(Debug)]
pub struct Devnet {
    chain: MemoryChain,
    rpc: SocketAddr,
    grpc: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
    stop: CancellationToken,
    _ends: DropGuard,
}

impl Devnet {
    /// Binds both addresses and starts to create blocks.
    ///
    /// # Errors
    /// Returns an error if an address is in use or does not belong to this machine.
    pub async fn start(config: DevnetConfig) -> Result<Self, DevnetError> {
        // Both ports first, so that a failure leaves the chain unchanged.
        let (rpc_listener, rpc) = listen("--listen-rpc", config.listen_rpc).await?;
        let (grpc_listener, grpc) = listen("--listen-grpc", config.listen_grpc).await?;
        let chain = config.chain;
        let node = chain.market(|market| {
            let rules = AnteParams {
                chain_id: market.chain_id().to_owned(),
                gas_price: config.gas_price,
                takes_unordered: config.takes_unordered,
            };
            DevnetNode::new(rules, market)
        });
        chain.set_block_maker(node.maker());
        let stop = CancellationToken::new();
        let limits = ServerLimits::default();
        let (of_rpc, of_grpc, ending) = (node.clone(), node, stop.clone());
        let serve_rpc = move |stream, _| http::connection(of_rpc.clone(), stream, limits, ending.clone());
        let serve_grpc = move |stream, _| grpc::connection(of_grpc.clone(), stream, limits);
        let mut tasks = vec![
            tokio::spawn(serve::listen(rpc_listener, stop.clone(), serve_rpc)),
            tokio::spawn(serve::listen(grpc_listener, stop.clone(), serve_grpc)),
        ];
        if let Some(block_time) = config.block_time {
            tasks.push(tokio::spawn(make_blocks(chain.clone(), block_time, stop.clone())));
        }
        Ok(Self {
            chain,
            rpc,
            grpc,
            tasks,
            _ends: stop.clone().drop_guard(),
            stop,
        })
    }

    /// Returns the URL of JSON-RPC.
    #[must_use]
    pub fn rpc_url(&self) -> String {
        format!("http://{}", self.rpc)
    }

    /// Returns the URL of gRPC.
    #[must_use]
    pub fn grpc_url(&self) -> String {
        format!("grpc://{}", self.grpc)
    }

    /// Returns the chain. The caller can change the chain directly: the next block contains these changes.
    #[must_use]
    pub const fn chain(&self) -> &MemoryChain {
        &self.chain
    }

    /// Completes a block and returns its height. The block time advances by 6 s, or by less (at least 1 ms)
    /// to stay behind the local clock. Clients refuse blocks from the future.
    pub fn make_block(&self) -> Height {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let before = self.chain.market(|market| market.time());
        let before = Duration::from_millis(u64::try_from(before.0).unwrap_or_default());
        let left = now.saturating_sub(before).max(Duration::from_millis(1));
        self.chain.advance(BLOCK_STEP.min(left))
    }

    /// Stops the development network and closes every connection.
    pub async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "background task of the devnet panicked; report this as a bug");
            }
        }
    }
}

async fn listen(flag: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), DevnetError> {
    let listening = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listening
        .await
        .map_err(|why| DevnetError::Listen { flag, address, why })
}

/// Creates one block per interval. The block time follows the local clock.
async fn make_blocks(chain: MemoryChain, every: Duration, stop: CancellationToken) {
    // An interval ticks at once, but the first block must come a whole block time after the start.
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
    // After a suspend of the machine one block is enough: its time comes from the clock.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut last = Instant::now();
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let now = Instant::now();
        chain.advance(now.duration_since(last));
        last = now;
    }
}

/// Doc tests of the page `docs/devnet.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/devnet.md")]
pub struct DevnetGuide;

//! A chain client that consists of two clients: one reads, the other sends transactions.

use super::{
    Account, BidFilter, Certificate, ChainEvents, ChainQuery, ChainTx, LeaseFilter, OrderFilter, Page,
    PageRequest, SyncInfo,
};
use crate::error::Error;
use crate::types::{
    Address, AuditedAttributes, Bid, BidId, BlockTime, ChainEvent, Coin, DeploymentId, DeploymentRecord,
    Group, GroupId, Height, LeaseId, LeaseRecord, MarketParams, Msg, Observed, Order, OrderId,
    ProviderRecord, Snapshot, TxOutcome, TxReceipt,
};
use async_trait::async_trait;
use futures::stream::BoxStream;

/// Reads events and queries from one client and sends transactions through another. Examples: a custom
/// signer, transactions that an operator approves, an observer that sends nothing.
///
/// ```
/// use akash_provider_core::chain::{ChainClient, ChainTx, SplitChain};
/// use akash_provider_core::error::{Error, ErrorKind};
/// use akash_provider_core::types::{Msg, TxOutcome};
/// # use akash_provider_core::chain::MemoryChain;
/// # use akash_provider_core::market::MarketConfig;
/// # use akash_provider_core::types::BlockTime;
///
/// /// Sends nothing.
/// #[derive(Debug)]
/// struct ReadOnly;
///
/// #[async_trait::async_trait]
/// impl ChainTx for ReadOnly {
///     async fn broadcast_msgs(&self, _: Vec<Msg>) -> Result<TxOutcome, Error> {
///         Err(Error::new(ErrorKind::Denied, "broadcast", "this provider is read-only"))
///     }
/// }
///
/// # let node = MemoryChain::new(MarketConfig::new("test", BlockTime(0)));
/// let chain: Box<dyn ChainClient> = Box::new(SplitChain::new(node, ReadOnly));
/// ```
///
/// Both parts must use the same chain. After the sending part returned a committed outcome, the reading part
/// must see its changes, as required by [`ChainQuery`].
#[derive(Debug, Clone)]
pub struct SplitChain<R, T> {
    reads: R,
    sends: T,
}

impl<R, T> SplitChain<R, T> {
    /// Creates a client that reads from `reads` and sends through `sends`.
    pub const fn new(reads: R, sends: T) -> Self {
        Self { reads, sends }
    }
}

macro_rules! read {
    ($(async fn $call:ident($($arg:ident: $of:ty),*) -> $out:ty;)*) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<R: ChainQuery, T: ChainTx> ChainQuery for SplitChain<R, T> {
            $(async fn $call(&self, $($arg: $of),*) -> Result<$out, Error> {
                self.reads.$call($($arg),*).await
            })*
        }
    };
}

read! {
    async fn provider(owner: &Address) -> Option<ProviderRecord>;
    async fn orders(filter: &OrderFilter, page: PageRequest) -> Page<Order>;
    async fn order(id: &OrderId) -> Option<Order>;
    async fn bid(id: &BidId) -> Observed<Bid>;
    async fn bids(filter: &BidFilter, page: PageRequest) -> Page<Bid>;
    async fn group(id: &GroupId) -> Option<Group>;
    async fn deployment(id: &DeploymentId) -> Option<DeploymentRecord>;
    async fn lease(id: &LeaseId) -> Observed<LeaseRecord>;
    async fn leases(filter: &LeaseFilter, page: PageRequest) -> Page<LeaseRecord>;
    async fn auditor_attributes(auditor: &str, owner: &Address) -> Option<AuditedAttributes>;
    async fn certificates(owner: &Address, serial: Option<&str>) -> Vec<Certificate>;
    async fn account(address: &Address) -> Option<Account>;
    async fn params() -> MarketParams;
    async fn balance(address: &Address, denom: &str) -> Coin;
    async fn block_time(height: Height) -> Option<BlockTime>;
    async fn sync_info() -> SyncInfo;
    async fn snapshot(provider: &Address) -> Snapshot;
}

#[async_trait]
// Every method is forwarded explicitly. Otherwise a new method with a default implementation would not reach
// the reading part.
#[deny(clippy::missing_trait_methods)]
impl<R: ChainQuery, T: ChainTx> ChainTx for SplitChain<R, T> {
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error> {
        self.sends.broadcast_msgs(msgs).await
    }
    fn receipt_of(&self, message: &Msg) -> Option<TxReceipt> {
        self.sends.receipt_of(message)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<R: ChainEvents, T: ChainTx> ChainEvents for SplitChain<R, T> {
    fn subscribe(&self, provider: &Address) -> BoxStream<'static, Result<ChainEvent, Error>> {
        self.reads.subscribe(provider)
    }
}

#[cfg(all(test, feature = "conformance"))]
mod tests {
    use super::*;
    use crate::chain::conformance::{self, Driver, MemoryDriver};
    use crate::chain::{ChainClient, MemoryChain};
    use crate::error::ErrorKind;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Sender for the tests: counts the sent transactions, or never responds.
    #[derive(Debug, Default)]
    struct Sender {
        chain: Option<MemoryChain>,
        sent: Arc<AtomicU64>,
    }

    #[async_trait]
    impl ChainTx for Sender {
        async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error> {
            self.sent.fetch_add(1, Ordering::Relaxed);
            match &self.chain {
                Some(chain) => chain.broadcast_msgs(msgs).await,
                None => std::future::pending().await,
            }
        }
    }

    #[tokio::test]
    async fn a_split_chain_conforms() {
        let driver = MemoryDriver::new();
        let sent = Arc::new(AtomicU64::new(0));
        let sends = Sender {
            chain: Some(driver.client()),
            sent: Arc::clone(&sent),
        };
        let reads: Arc<dyn ChainClient> = Arc::new(driver.client());
        conformance::suite(&SplitChain::new(reads, sends), &driver).await;
        assert!(
            sent.load(Ordering::Relaxed) > 5,
            "every transaction goes through the second part"
        );
    }

    #[tokio::test]
    async fn a_refusal_of_the_sending_part_is_returned() {
        #[derive(Debug)]
        struct Closed;
        #[async_trait]
        impl ChainTx for Closed {
            async fn broadcast_msgs(&self, _: Vec<Msg>) -> Result<TxOutcome, Error> {
                Err(Error::new(ErrorKind::Denied, "broadcast", "read-only"))
            }
        }
        let driver = MemoryDriver::new();
        let client = SplitChain::new(driver.client(), Closed);
        let withdraw = client.broadcast_msgs(Vec::new()).await.unwrap_err();
        assert_eq!(withdraw.kind(), ErrorKind::Denied);
        assert_eq!(driver.client().waiting(), 0);
        assert!(client.provider(&driver.provider()).await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_without_a_response_fails_the_suite_by_name() {
        let driver = MemoryDriver::new();
        let client = SplitChain::new(driver.client(), Sender::default());
        let failure = crate::conformance::verdict(conformance::suite(&client, &driver)).await;
        let expected = "an order accepts one bid: `broadcast_msgs` was expected to respond within 60s";
        assert!(
            failure.as_ref().is_some_and(|failure| failure.contains(expected)),
            "{failure:?}"
        );
    }
}

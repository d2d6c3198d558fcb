//! Chain clients with one mistake each. The suite detects every mistake and names the violated rule.

use super::*;
use crate::chain::{
    Account, BidFilter, Certificate, ChainEvents, ChainQuery, ChainTx, LeaseFilter, OrderFilter, Page,
    PageRequest, SyncInfo,
};
use crate::conformance::verdict;
use crate::error::{Error, ErrorKind};
use crate::types::{
    Address, Agreement, AuditedAttributes, Bid, BidId, BidState, BlockTime, ChainEvent, Coin, DeploymentId,
    DeploymentRecord, Group, GroupId, Height, LeaseId, LeaseRecord, MarketParams, Msg, Observed, Order,
    OrderId, ProviderRecord, Snapshot, TxOutcome,
};
use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    AbsentIsAnError,
    AbsentOnFailure,
    FailsForGood,
    NeverResyncs,
    LosesAnEvent,
    RepeatsAnEvent,
    BlockBeforeItsEvents,
    BeginsWithoutResync,
    HeightStandsStill,
    OtherBlockTime,
    ClaimsSuccess,
    SplitsTransactions,
    NeverReturns,
    ReadsOldState,
    OtherDenomination,
    DropsInfo,
    RepeatsPages,
    IgnoresLimit,
    LostIsOpen,
    ReportsLostBids,
    ForgetsReason,
    IgnoresFilter,
    IgnoresProvider,
}

use Mistake as M;

/// Each mistake, with the rule that it violates and a part of the failure message.
const CAUGHT: [(Mistake, &str, &str); 23] = [
    (
        M::AbsentIsAnError,
        "missing records are empty results",
        "`order` was expected to succeed",
    ),
    (
        M::AbsentOnFailure,
        "a failed query is never an absence",
        "`bid` was expected to fail",
    ),
    (
        M::FailsForGood,
        "a failed query is never an absence",
        "Unavailable or Timeout",
    ),
    (
        M::NeverResyncs,
        "a failed query is never an absence",
        "a `Resync` with the open bid was expected",
    ),
    (M::LosesAnEvent, "events come block by block", "DeploymentCreated"),
    (
        M::RepeatsAnEvent,
        "events come block by block",
        "DeploymentCreated",
    ),
    (
        M::BlockBeforeItsEvents,
        "events come block by block",
        "nothing came in time",
    ),
    (
        M::BeginsWithoutResync,
        "events come block by block",
        "start with a `Resync`",
    ),
    (M::HeightStandsStill, "events come block by block", "after"),
    (
        M::OtherBlockTime,
        "events come block by block",
        "query and event report the same time",
    ),
    (M::ClaimsSuccess, "an order accepts one bid", "Committed"),
    (
        M::NeverReturns,
        "an order accepts one bid",
        "`broadcast_msgs` was expected to respond within",
    ),
    (M::ReadsOldState, "an order accepts one bid", "read at"),
    (M::OtherDenomination, "an order accepts one bid", "uakt"),
    (M::SplitsTransactions, "a transaction is all or nothing", "Closed"),
    (
        M::DropsInfo,
        "a provider's record equals the sent record",
        "people@provider.example",
    ),
    (M::RepeatsPages, "pages cover everything once", "pages end"),
    (
        M::IgnoresLimit,
        "pages cover everything once",
        "a page does not exceed its limit",
    ),
    (M::LostIsOpen, "a lost bid is visible without an event", "Lost"),
    (
        M::ReportsLostBids,
        "a lost bid is visible without an event",
        "BidClosed",
    ),
    (M::ForgetsReason, "leases follow their life cycle", "None"),
    (
        M::IgnoresFilter,
        "a snapshot equals the queries",
        "no other bids are listed",
    ),
    (
        M::IgnoresProvider,
        "a snapshot equals the queries",
        "of other providers are not in the snapshot",
    ),
];

#[derive(Debug, Clone)]
struct FaultyClient {
    truth: MemoryChain,
    competitor: Address,
    mistake: Mistake,
}

impl FaultyClient {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == mistake
    }

    fn failed<T>(&self, result: Result<T, Error>, absent: T) -> Result<T, Error> {
        match self.mistake {
            M::AbsentOnFailure if result.is_err() => Ok(absent),
            M::FailsForGood => result.map_err(|_| Error::new(ErrorKind::Invalid, "query", "no node")),
            _ => result,
        }
    }

    /// Applies the mistake to the events of one block. The last event of the block is [`ChainEvent::Block`].
    fn block(&self, mut block: Vec<ChainEvent>) -> Vec<ChainEvent> {
        let created = |event: &ChainEvent| matches!(event, ChainEvent::DeploymentCreated { .. });
        match self.mistake {
            M::LosesAnEvent => block.retain(|event| !created(event)),
            M::RepeatsAnEvent => {
                let again = block.iter().find(|event| created(event)).cloned();
                block.splice(0..0, again);
            }
            M::BlockBeforeItsEvents => block.rotate_right(1),
            M::HeightStandsStill => {
                if let Some(ChainEvent::Block { height, .. }) = block.last_mut() {
                    *height = 1;
                }
            }
            M::ReportsLostBids => {
                let won = block.iter().find_map(|event| match event {
                    ChainEvent::LeaseCreated { id, .. } if id.provider == self.competitor => Some(id.clone()),
                    _ => None,
                });
                let lost = won.map(|id| ChainEvent::BidClosed { id });
                block.splice(0..0, lost);
            }
            _ => {}
        }
        block
    }
}

#[async_trait]
impl ChainQuery for FaultyClient {
    async fn provider(&self, owner: &Address) -> Result<Option<ProviderRecord>, Error> {
        let mut record = self.truth.provider(owner).await?;
        if let Some(record) = record.as_mut().filter(|_| self.is(M::DropsInfo)) {
            record.info = Default::default();
        }
        Ok(record)
    }

    async fn orders(&self, filter: &OrderFilter, mut page: PageRequest) -> Result<Page<Order>, Error> {
        match self.mistake {
            M::RepeatsPages => page.key = None,
            M::IgnoresLimit => page.limit = 0,
            _ => {}
        }
        self.truth.orders(filter, page).await
    }

    async fn order(&self, id: &OrderId) -> Result<Option<Order>, Error> {
        let order = self.truth.order(id).await;
        if self.is(M::AbsentIsAnError) {
            let absent = || Error::new(ErrorKind::NotFound, "order", "the order does not exist");
            return order?.ok_or_else(absent).map(Some);
        }
        order
    }

    async fn bid(&self, id: &BidId) -> Result<Observed<Bid>, Error> {
        let absent = Observed::new(None, 1, Agreement::Single);
        let mut bid = self.failed(self.truth.bid(id).await, absent)?;
        if self.is(M::ReadsOldState) {
            bid.height = 1;
        }
        if let Some(bid) = &mut bid.value {
            if self.is(M::OtherDenomination) {
                bid.price.denom = "uakt".into();
            }
            if self.is(M::LostIsOpen) && bid.state == BidState::Lost {
                bid.state = BidState::Open;
            }
        }
        Ok(bid)
    }

    async fn bids(&self, filter: &BidFilter, page: PageRequest) -> Result<Page<Bid>, Error> {
        let mut filter = filter.clone();
        if self.is(M::IgnoresFilter) {
            filter.state = None;
        }
        self.truth.bids(&filter, page).await
    }

    async fn group(&self, id: &GroupId) -> Result<Option<Group>, Error> {
        self.truth.group(id).await
    }

    async fn deployment(&self, id: &DeploymentId) -> Result<Option<DeploymentRecord>, Error> {
        self.truth.deployment(id).await
    }

    async fn lease(&self, id: &LeaseId) -> Result<Observed<LeaseRecord>, Error> {
        let mut lease = self.truth.lease(id).await?;
        if let Some(record) = lease.value.as_mut().filter(|_| self.is(M::ForgetsReason)) {
            record.lease.reason = None;
        }
        Ok(lease)
    }

    async fn leases(&self, filter: &LeaseFilter, page: PageRequest) -> Result<Page<LeaseRecord>, Error> {
        self.truth.leases(filter, page).await
    }

    async fn auditor_attributes(
        &self,
        auditor: &str,
        owner: &Address,
    ) -> Result<Option<AuditedAttributes>, Error> {
        self.truth.auditor_attributes(auditor, owner).await
    }

    async fn certificates(&self, owner: &Address, serial: Option<&str>) -> Result<Vec<Certificate>, Error> {
        self.truth.certificates(owner, serial).await
    }

    async fn account(&self, address: &Address) -> Result<Option<Account>, Error> {
        self.truth.account(address).await
    }

    async fn params(&self) -> Result<MarketParams, Error> {
        self.truth.params().await
    }

    async fn balance(&self, address: &Address, denom: &str) -> Result<Coin, Error> {
        self.truth.balance(address, denom).await
    }

    async fn block_time(&self, height: Height) -> Result<Option<BlockTime>, Error> {
        let time = self.truth.block_time(height).await?;
        let late = i64::from(self.is(M::OtherBlockTime));
        Ok(time.map(|time| BlockTime(time.0 + late)))
    }

    async fn sync_info(&self) -> Result<SyncInfo, Error> {
        self.truth.sync_info().await
    }

    async fn snapshot(&self, provider: &Address) -> Result<Snapshot, Error> {
        let mut snapshot = self.truth.snapshot(provider).await?;
        if self.is(M::IgnoresProvider) {
            snapshot
                .bids
                .extend(self.truth.snapshot(&self.competitor).await?.bids);
        }
        Ok(snapshot)
    }
}

#[async_trait]
impl ChainTx for FaultyClient {
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error> {
        let outcome = match self.mistake {
            M::NeverReturns => std::future::pending().await,
            M::SplitsTransactions => {
                let sends = msgs.into_iter().map(|msg| self.truth.broadcast_msgs(vec![msg]));
                let all = futures::future::try_join_all(sends).await?;
                let rejected = |outcome: &&TxOutcome| matches!(outcome, TxOutcome::Rejected { .. });
                all.iter().find(rejected).unwrap_or(&all[0]).clone()
            }
            _ => self.truth.broadcast_msgs(msgs).await?,
        };
        Ok(match outcome {
            TxOutcome::Rejected { .. } if self.is(M::ClaimsSuccess) => TxOutcome::Committed { height: 1 },
            outcome => outcome,
        })
    }
}

impl ChainEvents for FaultyClient {
    fn subscribe(&self, provider: &Address) -> BoxStream<'static, Result<ChainEvent, Error>> {
        let (liar, mut waiting, mut begun) = (self.clone(), Vec::new(), false);
        let events = self.truth.subscribe(provider).flat_map(move |event| {
            let events = match event {
                Ok(ChainEvent::Resync(snapshot)) if liar.is(M::BeginsWithoutResync) => {
                    let (height, time) = (snapshot.height, snapshot.time);
                    vec![Ok(ChainEvent::Block { height, time })]
                }
                Ok(ChainEvent::Resync(_)) if begun && liar.is(M::NeverResyncs) => Vec::new(),
                Ok(block @ ChainEvent::Block { .. }) => {
                    waiting.push(block);
                    let block = liar.block(std::mem::take(&mut waiting));
                    block.into_iter().map(Ok).collect()
                }
                Ok(event @ ChainEvent::Resync(_)) => vec![Ok(event)],
                Ok(event) => {
                    waiting.push(event);
                    Vec::new()
                }
                Err(error) => vec![Err(error)],
            };
            begun = true;
            stream::iter(events)
        });
        events.boxed()
    }
}

/// Runs the suite and the outage check on a client with this mistake. Returns the message of the failure.
async fn found(mistake: Mistake) -> Option<String> {
    let driver = MemoryDriver::new();
    let client = FaultyClient {
        truth: driver.client(),
        competitor: driver.competitor(),
        mistake,
    };
    let all = async {
        suite(&client, &driver).await;
        a_failed_query_is_never_an_absence(&client, &driver, &driver.outage()).await;
    };
    verdict(all).await
}

#[tokio::test(start_paused = true)]
async fn every_mistake_is_detected_by_its_rule() {
    assert_eq!(found(M::None).await, None, "a client without a mistake passes");
    for (mistake, rule, message) in CAUGHT {
        let failure = found(mistake).await;
        let failure = failure.unwrap_or_else(|| panic!("{mistake:?} is not detected"));
        let is_named = failure.contains(rule) && failure.contains(message);
        assert!(
            is_named,
            "{mistake:?} is detected with another message: {failure}"
        );
    }
}

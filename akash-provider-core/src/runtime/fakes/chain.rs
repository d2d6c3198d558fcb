//! A scripted chain.

use super::*;

#[derive(Debug, Default)]
pub(crate) struct FakeChain {
    pub(crate) script: Arc<Script>,
    pub(crate) events: Takes<ChainEvent>,
    /// Whether endless blocks follow the scripted events.
    pub(crate) flood: bool,
}

#[async_trait]
impl ChainTx for FakeChain {
    async fn broadcast_msgs(&self, msgs: Vec<Msg>) -> Result<TxOutcome, Error> {
        self.script.call("broadcast", msgs.len()).await?;
        Ok(TxOutcome::Committed { height: 7 })
    }
}

impl ChainEvents for FakeChain {
    fn subscribe(&self, _: &Address) -> BoxStream<'static, Result<ChainEvent, Error>> {
        if self.flood {
            return stream::repeat_with(|| Ok(block(1))).boxed();
        }
        take(&self.events)
    }
}

#[async_trait]
impl ChainQuery for FakeChain {
    async fn provider(&self, owner: &Address) -> Result<Option<ProviderRecord>, Error> {
        self.script.call("provider", owner).await?;
        Ok(None)
    }
    async fn orders(&self, _: &OrderFilter, _: PageRequest) -> Result<Page<Order>, Error> {
        unreachable!()
    }
    async fn order(&self, id: &OrderId) -> Result<Option<Order>, Error> {
        self.script.call("order", id).await?;
        Ok(None)
    }
    async fn bid(&self, id: &BidId) -> Result<Observed<Bid>, Error> {
        self.script.call("bid", id).await?;
        Ok(nothing())
    }
    async fn bids(&self, filter: &BidFilter, _: PageRequest) -> Result<Page<Bid>, Error> {
        let order = filter.order.as_ref().map(ToString::to_string);
        self.script.call("bids", &order.unwrap_or_default()).await?;
        Ok(Page {
            items: Vec::new(),
            next: None,
        })
    }
    async fn group(&self, _: &GroupId) -> Result<Option<G>, Error> {
        unreachable!()
    }
    async fn deployment(&self, id: &DeploymentId) -> Result<Option<DeploymentRecord>, Error> {
        self.script.call("deployment", id).await?;
        Ok(None)
    }
    async fn lease(&self, id: &LeaseId) -> Result<Observed<LeaseRecord>, Error> {
        self.script.call("lease", id).await?;
        Ok(nothing())
    }
    async fn leases(&self, _: &LeaseFilter, _: PageRequest) -> Result<Page<LeaseRecord>, Error> {
        unreachable!()
    }
    async fn auditor_attributes(&self, who: &str, of: &Address) -> Result<Option<AuditedAttributes>, Error> {
        self.script.call("audit", format!("{who} {of}")).await?;
        Ok(None)
    }
    async fn certificates(&self, _: &Address, _: Option<&str>) -> Result<Vec<Certificate>, Error> {
        unreachable!()
    }
    async fn account(&self, _: &Address) -> Result<Option<Account>, Error> {
        unreachable!()
    }
    async fn params(&self) -> Result<MarketParams, Error> {
        unreachable!()
    }
    async fn balance(&self, of: &Address, denom: &str) -> Result<Coin, Error> {
        self.script.call("balance", format!("{of} {denom}")).await?;
        Ok(Coin::new(denom, 1 << 60))
    }
    async fn block_time(&self, _: Height) -> Result<Option<BlockTime>, Error> {
        unreachable!()
    }
    async fn sync_info(&self) -> Result<SyncInfo, Error> {
        unreachable!()
    }
    async fn snapshot(&self, provider: &Address) -> Result<Snapshot, Error> {
        self.script.call("snapshot", provider).await?;
        Ok(snapshot(5))
    }
}

fn nothing<T>() -> Observed<T> {
    Observed::new(None, 1, crate::types::Agreement::Single)
}

pub(crate) fn snapshot(time: i64) -> Snapshot {
    Snapshot {
        chain_id: CHAIN_ID.into(),
        height: 1,
        time: BlockTime(time),
        provider: None,
        params: MarketParams {
            bid_min_deposits: Vec::new(),
            order_max_bids: 20,
            min_reclamation_window: Duration::ZERO,
            max_reclamation_window: Duration::ZERO,
        },
        orders: Vec::new(),
        bids: Vec::new(),
        leases: Vec::new(),
        deployments: Vec::new(),
        block_times: BTreeMap::new(),
    }
}

pub(crate) fn block(time: i64) -> ChainEvent {
    ChainEvent::Block {
        height: 1,
        time: BlockTime(time),
    }
}

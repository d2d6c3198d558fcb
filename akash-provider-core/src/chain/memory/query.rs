//! Queries of a chain in memory.

use super::{MemoryChain, MemoryChainState, QueryOutage, chain_dropped};
use crate::chain::{
    Account, BidFilter, Certificate, ChainQuery, LeaseFilter, OrderFilter, Page, PageRequest, SyncInfo,
};
use crate::error::{Error, ErrorKind};
use crate::feed::lock;
use crate::market::Market;
use crate::types::{
    Address, AuditedAttributes, Bid, BidId, BlockTime, Coin, DeploymentId, DeploymentRecord, Group, GroupId,
    Height, LeaseId, LeaseRecord, MarketParams, Observed, Order, OrderId, ProviderRecord, Snapshot,
};
use async_trait::async_trait;
use tokio::sync::oneshot;

impl MemoryChainState {
    fn answering(&mut self, operation: &'static str) -> Result<&Market, Error> {
        let fails = match &mut self.outage {
            None => false,
            Some(QueryOutage::UntilRestored) => true,
            Some(QueryOutage::Next(left)) => {
                let fails = *left > 0;
                *left = left.saturating_sub(1);
                fails
            }
        };
        if fails {
            return Err(Error::new(ErrorKind::Unavailable, operation, "no node responds"));
        }
        Ok(self.stale.as_deref().unwrap_or(&self.market))
    }
}

impl MemoryChain {
    fn ask<R>(&self, operation: &'static str, answer: impl FnOnce(&Market) -> R) -> Result<R, Error> {
        lock(&self.state).answering(operation).map(answer)
    }

    fn observe<T>(
        &self,
        operation: &'static str,
        answer: impl FnOnce(&Market) -> Option<T>,
    ) -> Result<Observed<T>, Error> {
        let mut state = lock(&self.state);
        let agreement = state.agreement;
        let market = state.answering(operation)?;
        Ok(Observed::new(answer(market), market.height(), agreement))
    }
}

#[async_trait]
impl ChainQuery for MemoryChain {
    async fn provider(&self, owner: &Address) -> Result<Option<ProviderRecord>, Error> {
        self.ask("provider", |m| m.provider(owner).cloned())
    }

    async fn orders(&self, filter: &OrderFilter, request: PageRequest) -> Result<Page<Order>, Error> {
        self.ask("orders", |m| {
            let records = m.orders().filter(|order| filter.matches(order)).cloned();
            Page::from_sorted("orders", records, |o| o.id.clone(), &request)
        })?
    }

    async fn order(&self, id: &OrderId) -> Result<Option<Order>, Error> {
        self.ask("order", |m| m.order(id).cloned())
    }

    async fn bid(&self, id: &BidId) -> Result<Observed<Bid>, Error> {
        self.observe("bid", |m| m.bid(id).cloned())
    }

    async fn bids(&self, filter: &BidFilter, request: PageRequest) -> Result<Page<Bid>, Error> {
        self.ask("bids", |m| {
            // Reads the bids of the order if the filter names one, because a walk over all bids grows with
            // the market.
            let of_order = filter.order.iter().flat_map(|order| m.bids_of(order));
            let all = m.bids().filter(|_| filter.order.is_none());
            let records = of_order.chain(all).filter(|bid| filter.matches(bid)).cloned();
            Page::from_sorted("bids", records, |b| b.id.clone(), &request)
        })?
    }

    async fn group(&self, id: &GroupId) -> Result<Option<Group>, Error> {
        self.ask("group", |m| m.group(id).cloned())
    }

    async fn deployment(&self, id: &DeploymentId) -> Result<Option<DeploymentRecord>, Error> {
        self.ask("deployment", |m| m.deployment(id))
    }

    async fn lease(&self, id: &LeaseId) -> Result<Observed<LeaseRecord>, Error> {
        self.observe("lease", |m| m.lease(id))
    }

    async fn leases(&self, filter: &LeaseFilter, request: PageRequest) -> Result<Page<LeaseRecord>, Error> {
        self.ask("leases", |m| {
            let records = m.leases().filter(|lease| filter.matches(lease));
            Page::from_sorted("leases", records, |r| r.lease.id.clone(), &request)
        })?
    }

    async fn auditor_attributes(
        &self,
        auditor: &str,
        owner: &Address,
    ) -> Result<Option<AuditedAttributes>, Error> {
        self.ask("auditor_attributes", |m| m.auditor_attributes(auditor, owner))
    }

    async fn certificates(&self, owner: &Address, serial: Option<&str>) -> Result<Vec<Certificate>, Error> {
        self.ask("certificates", |m| {
            let of_owner = m.certificates(owner).iter();
            let wanted = of_owner.filter(|c| serial.is_none_or(|s| s == c.serial));
            wanted.cloned().collect()
        })
    }

    async fn account(&self, address: &Address) -> Result<Option<Account>, Error> {
        self.ask("account", |m| {
            m.account(address).map(|a| Account {
                address: address.clone(),
                pubkey: a.pubkey.clone(),
                number: a.number,
                sequence: a.sequence,
            })
        })
    }

    async fn params(&self) -> Result<MarketParams, Error> {
        self.ask("params", |m| m.params().clone())
    }

    async fn balance(&self, address: &Address, denom: &str) -> Result<Coin, Error> {
        self.ask("balance", |m| m.balance(address, denom))
    }

    async fn block_time(&self, height: Height) -> Result<Option<BlockTime>, Error> {
        self.ask("block_time", |m| m.block_time(height))
    }

    async fn sync_info(&self) -> Result<SyncInfo, Error> {
        // Read before `ask`, which takes the same lock.
        let catching_up = lock(&self.state).catching_up;
        self.ask("sync_info", |m| SyncInfo {
            chain_id: m.chain_id().to_owned(),
            height: m.height(),
            time: m.time(),
            catching_up,
        })
    }

    async fn snapshot(&self, provider: &Address) -> Result<Snapshot, Error> {
        let at_block_end = {
            let mut state = lock(&self.state);
            let is_within_block = !state.facts.is_empty() && state.stale.is_none();
            let waits = state.waits_for_block_end && is_within_block;
            let market = state.answering("snapshot")?;
            if !waits {
                // Within a block, the snapshot also contains the first facts of that block. It has the height of the
                // complete block nevertheless: a snapshot without the later facts of a block must not count as one of
                // that block.
                return Ok(market.snapshot(provider));
            }
            let (reply, at_block_end) = oneshot::channel();
            state.snapshots.push((provider.clone(), reply));
            at_block_end
        };
        at_block_end
            .await
            .map_err(|error| chain_dropped("snapshot", error))
    }
}

//! Queries, based on the market that is computed from the file.

use crate::{LedgerState, OwnChain, lock};
use akash_provider_core::Error;
use akash_provider_core::chain::{
    Account, BidFilter, Certificate, ChainQuery, LeaseFilter, OrderFilter, Page, PageRequest, SyncInfo,
};
use akash_provider_core::market::Market;
use akash_provider_core::types::{
    Address, Agreement, AuditedAttributes, Bid, BidId, BlockTime, Coin, DeploymentId, DeploymentRecord,
    Group, GroupId, Height, LeaseId, LeaseRecord, MarketParams, Observed, Order, OrderId, ProviderRecord,
    Snapshot,
};
use async_trait::async_trait;

impl OwnChain {
    fn ask<R>(&self, answer: impl FnOnce(&Market) -> R) -> R {
        answer(&lock(&self.0.state).market)
    }

    /// Returns the record that `answer` finds in the market. After lost lines, the result is
    /// [`Agreement::Disputed`], so that a missing record does not cause the close of a lease.
    fn observe<T>(&self, answer: impl FnOnce(&Market) -> Option<T>) -> Observed<T> {
        let state: &LedgerState = &lock(&self.0.state);
        Observed {
            value: answer(&state.market),
            height: state.market.height(),
            agreement: if state.has_gap {
                Agreement::Disputed
            } else {
                Agreement::Single
            },
        }
    }
}

#[async_trait]
impl ChainQuery for OwnChain {
    async fn provider(&self, owner: &Address) -> Result<Option<ProviderRecord>, Error> {
        Ok(self.ask(|m| m.provider(owner).cloned()))
    }

    async fn orders(&self, filter: &OrderFilter, page: PageRequest) -> Result<Page<Order>, Error> {
        self.ask(|m| {
            let records = m.orders().filter(|order| filter.matches(order)).cloned();
            Page::from_sorted("orders", records, |o| o.id.clone(), &page)
        })
    }

    async fn order(&self, id: &OrderId) -> Result<Option<Order>, Error> {
        Ok(self.ask(|m| m.order(id).cloned()))
    }

    async fn bid(&self, id: &BidId) -> Result<Observed<Bid>, Error> {
        Ok(self.observe(|m| m.bid(id).cloned()))
    }

    async fn bids(&self, filter: &BidFilter, page: PageRequest) -> Result<Page<Bid>, Error> {
        self.ask(|m| {
            let records = m.bids().filter(|bid| filter.matches(bid)).cloned();
            Page::from_sorted("bids", records, |b| b.id.clone(), &page)
        })
    }

    async fn group(&self, id: &GroupId) -> Result<Option<Group>, Error> {
        Ok(self.ask(|m| m.group(id).cloned()))
    }

    async fn deployment(&self, id: &DeploymentId) -> Result<Option<DeploymentRecord>, Error> {
        Ok(self.ask(|m| m.deployment(id)))
    }

    async fn lease(&self, id: &LeaseId) -> Result<Observed<LeaseRecord>, Error> {
        Ok(self.observe(|m| m.lease(id)))
    }

    async fn leases(&self, filter: &LeaseFilter, page: PageRequest) -> Result<Page<LeaseRecord>, Error> {
        self.ask(|m| {
            let records = m.leases().filter(|lease| filter.matches(lease));
            Page::from_sorted("leases", records, |r| r.lease.id.clone(), &page)
        })
    }

    async fn auditor_attributes(
        &self,
        auditor: &str,
        owner: &Address,
    ) -> Result<Option<AuditedAttributes>, Error> {
        Ok(self.ask(|m| m.auditor_attributes(auditor, owner)))
    }

    async fn certificates(&self, owner: &Address, serial: Option<&str>) -> Result<Vec<Certificate>, Error> {
        let published = self.ask(|m| m.certificates(owner).to_vec()).into_iter();
        let wanted = published.filter(|c| serial.is_none_or(|wanted| wanted == c.serial));
        Ok(wanted.collect())
    }

    async fn account(&self, address: &Address) -> Result<Option<Account>, Error> {
        let account = self.ask(|m| m.account(address).cloned());
        Ok(account.map(|account| Account {
            address: address.clone(),
            pubkey: account.pubkey,
            number: account.number,
            sequence: account.sequence,
        }))
    }

    async fn params(&self) -> Result<MarketParams, Error> {
        Ok(self.ask(|m| m.params().clone()))
    }

    async fn balance(&self, address: &Address, denom: &str) -> Result<Coin, Error> {
        Ok(self.ask(|m| m.balance(address, denom)))
    }

    async fn block_time(&self, height: Height) -> Result<Option<BlockTime>, Error> {
        let state = lock(&self.0.state);
        // The market needs a time for each block; that of a lost one is unknown.
        let readable = (!state.lost.contains(&height)).then_some(height);
        Ok(readable.and_then(|height| state.market.block_time(height)))
    }

    async fn sync_info(&self) -> Result<SyncInfo, Error> {
        Ok(self.ask(|m| SyncInfo {
            chain_id: m.chain_id().to_owned(),
            height: m.height(),
            time: m.time(),
            catching_up: false,
        }))
    }

    async fn snapshot(&self, provider: &Address) -> Result<Snapshot, Error> {
        Ok(self.ask(|m| m.snapshot(provider)))
    }
}

//! What can be asked, and the snapshot a provider starts from.

use super::book::{DeploymentBook, Index, LeaseBook, OrderBook};
use super::{AccountRecord, EscrowDetails, Market};
use crate::types::{
    Address, AuditedAttributes, Bid, BidId, BlockTime, Certificate, CloseReason, Coin, Dec, DeploymentId,
    DeploymentRecord, Group, GroupId, Height, LeaseId, LeaseRecord, MarketParams, Order, OrderId,
    ProviderRecord, Snapshot,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a node shows of a bid's deposit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BidDeposit {
    /// Deposit as it was paid, in whole units.
    pub coin: Coin,
    /// Height it went back at; `None` while it is held.
    pub returned_at: Option<Height>,
}

/// What a node shows of a lease besides the record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseDetails {
    /// Earned and never paid.
    pub unsettled: Dec,
    /// Height and reason of the announcement that it is taken back.
    pub reclaim: Option<(Height, CloseReason)>,
}

impl Market {
    /// Id of the chain that the market plays.
    #[must_use]
    pub fn chain_id(&self) -> &str {
        &self.chain_id
    }

    /// Height of the newest complete block.
    #[must_use]
    pub fn height(&self) -> Height {
        // Every block has its time in the list, from height 1.
        self.block_times.len() as Height
    }

    /// Time of the newest complete block.
    #[must_use]
    pub fn time(&self) -> BlockTime {
        self.block_times.last().copied().unwrap_or_default()
    }

    /// Time of a complete block.
    #[must_use]
    pub fn block_time(&self, height: Height) -> Option<BlockTime> {
        let at = usize::try_from(height.checked_sub(1)?).ok()?;
        self.block_times.get(at).copied()
    }

    /// Parameters in force, as they were set last.
    #[must_use]
    pub fn params(&self) -> &MarketParams {
        &self.params
    }

    /// Changes the parameters; what is there already stays.
    pub fn set_params(&mut self, params: MarketParams) {
        self.params = params;
    }

    /// The record of a provider; `None` when it is not registered.
    #[must_use]
    pub fn provider(&self, owner: &Address) -> Option<&ProviderRecord> {
        self.providers.get(owner)
    }

    /// What an auditor has signed about a provider.
    #[must_use]
    pub fn auditor_attributes(&self, auditor: &str, owner: &Address) -> Option<AuditedAttributes> {
        let key = (owner.clone(), auditor.to_owned());
        self.audits.get(&key).map(|attributes| AuditedAttributes {
            auditor: auditor.to_owned(),
            attributes: attributes.clone(),
        })
    }

    /// Everything auditors have signed about a provider.
    #[must_use]
    pub fn audits(&self, owner: &Address) -> Vec<AuditedAttributes> {
        let of_owner = self.audits.iter().filter(|((o, _), _)| o == owner);
        let audit = |((_, auditor), attributes): (&(Address, String), &Vec<_>)| AuditedAttributes {
            auditor: auditor.clone(),
            attributes: attributes.clone(),
        };
        of_owner.map(audit).collect()
    }

    /// Certificates of an account, oldest first.
    #[must_use]
    pub fn certificates(&self, owner: &Address) -> &[Certificate] {
        self.certificates.get(owner).map_or(&[], Vec::as_slice)
    }

    /// An account; `None` when it never had money or sent anything.
    #[must_use]
    pub fn account(&self, address: &Address) -> Option<&AccountRecord> {
        self.ledger.get(address)
    }

    /// Sets an account's public key (on a real chain its first transaction does).
    pub fn set_pubkey(&mut self, address: &Address, pubkey: Vec<u8>) {
        self.ledger.account(address).pubkey = Some(pubkey);
    }

    /// An account, to be changed by who takes fees and counts sequences; it is made when it is not there.
    pub fn account_mut(&mut self, address: &Address) -> &mut AccountRecord {
        self.ledger.account(address)
    }

    /// Balance of an account in one denomination.
    #[must_use]
    pub fn balance(&self, address: &Address, denom: &str) -> Coin {
        Coin {
            denom: denom.into(),
            amount: self.ledger.balance(address, denom),
        }
    }

    /// One order, whatever its state.
    #[must_use]
    pub fn order(&self, id: &OrderId) -> Option<&Order> {
        self.order_book(id).map(|o| &o.order)
    }

    /// All orders, by id.
    pub fn orders(&self) -> impl Iterator<Item = &Order> {
        self.order_books().map(|o| &o.order)
    }

    /// One bid, whatever its state.
    #[must_use]
    pub fn bid(&self, id: &BidId) -> Option<&Bid> {
        let order = self.order_book(&id.order)?;
        order.bids.get(&id.provider).map(|b| &b.bid)
    }

    /// The deposit of a bid.
    #[must_use]
    pub fn bid_deposit(&self, id: &BidId) -> Option<BidDeposit> {
        let book = self.order_book(&id.order)?.bids.get(&id.provider)?;
        Some(BidDeposit {
            coin: book.deposit.clone(),
            returned_at: (book.ended_at > 0).then_some(book.ended_at),
        })
    }

    /// All bids, by id.
    pub fn bids(&self) -> impl Iterator<Item = &Bid> {
        self.order_books().flat_map(|o| o.bids.values().map(|b| &b.bid))
    }

    /// The bids on one order, by provider.
    pub fn bids_of(&self, order: &OrderId) -> impl Iterator<Item = &Bid> {
        let books = self.order_book(order).into_iter();
        books.flat_map(|o| o.bids.values().map(|b| &b.bid))
    }

    /// One lease with its payment, as of the last settlement.
    #[must_use]
    pub fn lease(&self, id: &LeaseId) -> Option<LeaseRecord> {
        let order = self.order_book(&id.order)?;
        order.lease_of(&id.provider).map(lease_record)
    }

    /// What is known of a lease besides its record.
    #[must_use]
    pub fn lease_details(&self, id: &LeaseId) -> Option<LeaseDetails> {
        let book = self.order_book(&id.order)?.lease_of(&id.provider)?;
        Some(LeaseDetails {
            unsettled: book.unsettled,
            reclaim: book.reclaim,
        })
    }

    /// All leases, by id.
    pub fn leases(&self) -> impl Iterator<Item = LeaseRecord> {
        self.order_books()
            .filter_map(|o| o.lease.as_ref().map(lease_record))
    }

    /// One group, whatever its state.
    #[must_use]
    pub fn group(&self, id: &GroupId) -> Option<&Group> {
        self.deployments.get(&id.deployment)?.group(id).map(|g| &g.group)
    }

    /// A deployment with its groups, money and live leases.
    #[must_use]
    pub fn deployment(&self, id: &DeploymentId) -> Option<DeploymentRecord> {
        self.deployments.get(id).map(deployment_record)
    }

    /// What is known of a deployment's account besides its funds.
    #[must_use]
    pub fn escrow_details(&self, id: &DeploymentId) -> Option<&EscrowDetails> {
        self.deployments.get(id).map(|d| &d.escrow.details)
    }

    /// All providers, by account.
    pub fn providers(&self) -> impl Iterator<Item = &ProviderRecord> {
        self.providers.values()
    }

    /// Everything auditors have signed about anybody, by provider and auditor.
    pub fn all_audits(&self) -> impl Iterator<Item = (&Address, &str, &[crate::types::Attribute])> {
        let audits = self.audits.iter();
        audits.map(|((owner, auditor), attributes)| (owner, auditor.as_str(), attributes.as_slice()))
    }

    /// All deployments, by id.
    pub fn deployments(&self) -> impl Iterator<Item = DeploymentRecord> {
        self.deployments.values().map(deployment_record)
    }

    /// The whole present as far as it concerns `provider`.
    ///
    /// Its height is that of the newest complete block; transactions of the block under construction are in it
    /// already.
    #[must_use]
    pub fn snapshot(&self, provider: &Address) -> Snapshot {
        let index = &self.index;
        let open = index.open_orders.iter().filter_map(|id| self.order_book(id));
        let orders: Vec<Order> = open.clone().map(|o| o.order.clone()).collect();
        // Bids on open orders come with those orders.
        let live = Index::of(&index.bids, provider).filter(|id| !index.open_orders.contains(id));
        let live = live.filter_map(|id| self.order_book(id));
        let bids = open.chain(live).filter_map(|o| o.bids.get(provider));
        let bids: Vec<Bid> = bids.map(|b| b.bid.clone()).collect();
        let leased = Index::of(&index.leases, provider).filter_map(|id| self.order_book(id));
        let leases: Vec<LeaseRecord> = leased
            .filter_map(|o| o.live_lease_of(provider))
            .map(lease_record)
            .collect();
        // A deployment with several leases of this provider is told once.
        let ids: BTreeSet<&DeploymentId> = leases.iter().map(|l| l.lease.id.deployment()).collect();
        let books = ids.into_iter().filter_map(|id| self.deployments.get(id));
        let deployments: Vec<DeploymentRecord> = books.map(deployment_record).collect();
        let heights = orders
            .iter()
            .map(|o| o.created_at)
            .chain(bids.iter().map(|b| b.created_at))
            .chain(leases.iter().map(|l| l.lease.created_at))
            .chain(deployments.iter().map(|d| d.deployment.created_at));
        let block_times: BTreeMap<Height, BlockTime> = heights
            .filter_map(|h| self.block_time(h).map(|time| (h, time)))
            .collect();
        Snapshot {
            chain_id: self.chain_id.clone(),
            height: self.height(),
            time: self.time(),
            provider: self.provider(provider).cloned(),
            params: self.params.clone(),
            orders,
            bids,
            leases,
            deployments,
            block_times,
        }
    }

    fn order_books(&self) -> impl Iterator<Item = &OrderBook> {
        let groups = self.deployments.values().flat_map(|d| &d.groups);
        groups.flat_map(|g| &g.orders)
    }
}

fn lease_record(book: &LeaseBook) -> LeaseRecord {
    LeaseRecord {
        lease: book.lease.clone(),
        payment: Some(book.payment.clone()),
    }
}

fn deployment_record(book: &DeploymentBook) -> DeploymentRecord {
    DeploymentRecord {
        deployment: book.record.clone(),
        groups: book.groups.iter().map(|g| g.group.clone()).collect(),
        escrow: book.escrow.account.clone(),
        leases: book.live_leases().map(|l| l.lease.clone()).collect(),
    }
}

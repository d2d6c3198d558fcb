//! Queries of the market, and the snapshot for a provider.

use super::book::{ActiveRecords, DeploymentBook, LeaseBook, OrderBook};
use super::{AccountRecord, EscrowDetails, Market};
use crate::types::{
    Address, AuditedAttributes, Bid, BidId, BlockTime, Certificate, CloseReason, Coin, Dec, DeploymentId,
    DeploymentRecord, Group, GroupId, Height, LeaseId, LeaseRecord, MarketParams, Order, OrderId,
    ProviderRecord, Snapshot,
};
use std::collections::{BTreeMap, BTreeSet};

/// Deposit of a bid, in the form that nodes report.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BidDeposit {
    /// Paid deposit, in whole units.
    pub coin: Coin,
    /// Height at which the chain returned the deposit; `None` while the chain holds the deposit.
    pub returned_at: Option<Height>,
}

/// Values of a lease for a query response. The values of the [`LeaseRecord`] are not included.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseDetails {
    /// Earnings that are not paid, because the funds were insufficient.
    pub unsettled: Dec,
    /// Height and reason of the start of a reclamation.
    pub reclaim: Option<(Height, CloseReason)>,
}

impl Market {
    /// Returns the chain id.
    #[must_use]
    pub fn chain_id(&self) -> &str {
        &self.chain_id
    }

    /// Returns the height of the newest complete block.
    #[must_use]
    pub fn height(&self) -> Height {
        // The list has one entry per block, from height 1.
        self.block_times.len() as Height
    }

    /// Returns the time of the newest complete block.
    #[must_use]
    pub fn time(&self) -> BlockTime {
        self.block_times.last().copied().unwrap_or_default()
    }

    /// Returns the time of a complete block.
    #[must_use]
    pub fn block_time(&self, height: Height) -> Option<BlockTime> {
        let at = usize::try_from(height.checked_sub(1)?).ok()?;
        self.block_times.get(at).copied()
    }

    /// Returns the current market parameters.
    #[must_use]
    pub fn params(&self) -> &MarketParams {
        &self.params
    }

    /// Sets the parameters. Existing records stay unchanged.
    pub fn set_params(&mut self, params: MarketParams) {
        self.params = params;
    }

    /// Returns the record of a provider, or `None` if the provider is not registered.
    #[must_use]
    pub fn provider(&self, owner: &Address) -> Option<&ProviderRecord> {
        self.providers.get(owner)
    }

    /// Returns the attributes that one auditor signed for a provider.
    #[must_use]
    pub fn auditor_attributes(&self, auditor: &str, owner: &Address) -> Option<AuditedAttributes> {
        let key = (owner.clone(), auditor.to_owned());
        self.audits
            .get(&key)
            .map(|attributes| AuditedAttributes::new(auditor, attributes.clone()))
    }

    /// Returns the attributes that auditors signed for a provider, one entry for each auditor.
    #[must_use]
    pub fn audits(&self, owner: &Address) -> Vec<AuditedAttributes> {
        let of_owner = self.audits.iter().filter(|((o, _), _)| o == owner);
        let audit = |((_, auditor), attributes): (&(Address, String), &Vec<_>)| {
            AuditedAttributes::new(auditor.clone(), attributes.clone())
        };
        of_owner.map(audit).collect()
    }

    /// Returns the certificates of an account, oldest first.
    #[must_use]
    pub fn certificates(&self, owner: &Address) -> &[Certificate] {
        self.certificates.get(owner).map_or(&[], Vec::as_slice)
    }

    /// Returns an account, or `None` if the account never had funds and never sent a transaction.
    #[must_use]
    pub fn account(&self, address: &Address) -> Option<&AccountRecord> {
        self.ledger.get(address)
    }

    /// Sets the public key of an account. On a real chain, the first transaction sets the key.
    pub fn set_pubkey(&mut self, address: &Address, pubkey: Vec<u8>) {
        self.ledger.account(address).pubkey = Some(pubkey);
    }

    /// Returns an account, or creates the account if it does not exist.
    pub fn account_mut(&mut self, address: &Address) -> &mut AccountRecord {
        self.ledger.account(address)
    }

    /// Returns the balance of an account in one denomination.
    #[must_use]
    pub fn balance(&self, address: &Address, denom: &str) -> Coin {
        Coin::new(denom, self.ledger.balance(address, denom))
    }

    /// Returns an order in any state.
    #[must_use]
    pub fn order(&self, id: &OrderId) -> Option<&Order> {
        self.order_book(id).map(|o| &o.order)
    }

    /// Returns all orders, sorted by id.
    pub fn orders(&self) -> impl Iterator<Item = &Order> {
        self.order_books().map(|o| &o.order)
    }

    /// Returns a bid in any state.
    #[must_use]
    pub fn bid(&self, id: &BidId) -> Option<&Bid> {
        let order = self.order_book(&id.order)?;
        order.bids.get(&id.provider).map(|b| &b.bid)
    }

    /// Returns the deposit of a bid.
    #[must_use]
    pub fn bid_deposit(&self, id: &BidId) -> Option<BidDeposit> {
        let book = self.order_book(&id.order)?.bids.get(&id.provider)?;
        Some(BidDeposit {
            coin: book.deposit.clone(),
            returned_at: (book.ended_at > 0).then_some(book.ended_at),
        })
    }

    /// Returns all bids, sorted by order and provider.
    pub fn bids(&self) -> impl Iterator<Item = &Bid> {
        self.order_books().flat_map(|o| o.bids.values().map(|b| &b.bid))
    }

    /// Returns the bids on one order, sorted by provider.
    pub fn bids_of(&self, order: &OrderId) -> impl Iterator<Item = &Bid> {
        let books = self.order_book(order).into_iter();
        books.flat_map(|o| o.bids.values().map(|b| &b.bid))
    }

    /// Returns the record of a lease. The payment amounts are those of the last settlement.
    #[must_use]
    pub fn lease(&self, id: &LeaseId) -> Option<LeaseRecord> {
        let order = self.order_book(&id.order)?;
        order.lease_of(&id.provider).map(lease_record)
    }

    /// Returns the details of a lease that are not in its `LeaseRecord`.
    #[must_use]
    pub fn lease_details(&self, id: &LeaseId) -> Option<LeaseDetails> {
        let book = self.order_book(&id.order)?.lease_of(&id.provider)?;
        Some(LeaseDetails {
            unsettled: book.unsettled,
            reclaim: book.reclaim,
        })
    }

    /// Returns all leases, sorted by order and provider.
    pub fn leases(&self) -> impl Iterator<Item = LeaseRecord> {
        self.order_books()
            .filter_map(|o| o.lease.as_ref().map(lease_record))
    }

    /// Returns a group in any state.
    #[must_use]
    pub fn group(&self, id: &GroupId) -> Option<&Group> {
        self.deployments.get(&id.deployment)?.group(id).map(|g| &g.group)
    }

    /// Returns a deployment with its groups, its funds, and its active and reclaiming leases.
    #[must_use]
    pub fn deployment(&self, id: &DeploymentId) -> Option<DeploymentRecord> {
        self.deployments.get(id).map(deployment_record)
    }

    /// Returns the details of an escrow account, except its funds.
    #[must_use]
    pub fn escrow_details(&self, id: &DeploymentId) -> Option<&EscrowDetails> {
        self.deployments.get(id).map(|d| &d.escrow.details)
    }

    /// Returns all providers, sorted by account.
    pub fn providers(&self) -> impl Iterator<Item = &ProviderRecord> {
        self.providers.values()
    }

    /// Returns the attributes that auditors have signed, sorted by provider and auditor.
    pub fn all_audits(&self) -> impl Iterator<Item = (&Address, &str, &[crate::types::Attribute])> {
        let audits = self.audits.iter();
        audits.map(|((owner, auditor), attributes)| (owner, auditor.as_str(), attributes.as_slice()))
    }

    /// Returns all deployments, sorted by id.
    pub fn deployments(&self) -> impl Iterator<Item = DeploymentRecord> {
        self.deployments.values().map(deployment_record)
    }

    /// Returns the current state of the records that concern `provider`, and all open orders.
    ///
    /// The height of the snapshot is the height of the newest complete block. The snapshot also contains the
    /// transactions of the block under construction.
    #[must_use]
    pub fn snapshot(&self, provider: &Address) -> Snapshot {
        let index = &self.index;
        let open = index.open_orders.iter().filter_map(|id| self.order_book(id));
        let orders: Vec<Order> = open.clone().map(|o| o.order.clone()).collect();
        // Bids on open orders are added with those orders.
        let live = ActiveRecords::of(&index.bids, provider).filter(|id| !index.open_orders.contains(id));
        let live = live.filter_map(|id| self.order_book(id));
        let bids = open.chain(live).filter_map(|o| o.bids.get(provider));
        let bids: Vec<Bid> = bids.map(|b| b.bid.clone()).collect();
        let leased = ActiveRecords::of(&index.leases, provider).filter_map(|id| self.order_book(id));
        let leases: Vec<LeaseRecord> = leased
            .filter_map(|o| o.live_lease_of(provider))
            .map(lease_record)
            .collect();
        // A deployment with several leases of this provider occurs once.
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

//! Events of the transfers of money that a message causes. The transfers are derived from the records before
//! and after the message. The events of the transfers are merged with the other events of the message.
//!
//! The order is the same as on the Akash network: a deposit is returned before the event of its bid; payouts follow the
//! end of a lease and precede a new order; the end of a deployment first causes all payouts and refunds.

use super::event::{DevnetEvent, ESCROW, EventContext, transfer, typed};
use super::tx::{Act, deployment};
use akash_provider_core::market::{Market, TenantMsg};
use akash_provider_core::types::{
    BidId, BidState, ChainEvent, Coin, DecCoin, Denom, DeploymentId, Height, LeaseId, Msg,
};
use std::collections::BTreeMap;

/// 10^18, the scale of a decimal.
const DEC_ONE: i128 = 1_000_000_000_000_000_000;

/// Balances in market records, read before a message is executed. [`MoneyBefore::events`] compares them with
/// the new balances.
#[derive(Debug, Default)]
pub(super) struct MoneyBefore {
    deployment: Option<DeploymentId>,
    withdrawn: Vec<(LeaseId, u128)>,
    deposits: Vec<DecCoin>,
    transferred: BTreeMap<Denom, i128>,
    /// True if the message creates the provider's record.
    is_new: bool,
}

impl MoneyBefore {
    pub(super) fn new(market: &Market, act: &Act) -> Self {
        let is_new = match act {
            Act::Provider(Msg::CreateProvider(record)) => market.provider(&record.owner).is_none(),
            Act::Provider(_) | Act::Tenant(_) | Act::Send { .. } => false,
        };
        let mut before = Self {
            is_new,
            deployment: deployment(act).cloned(),
            ..Self::default()
        };
        // A bid moves only its own deposit.
        let is_bid = matches!(act, Act::Provider(Msg::CreateBid { .. }));
        let id = before.deployment.as_ref().filter(|_| !is_bid);
        if let Some(record) = id.and_then(|id| market.deployment(id)) {
            let withdrawn = record.leases.iter().map(|lease| {
                let amount = withdrawn(market, &lease.id);
                (lease.id.clone(), amount)
            });
            before.withdrawn = withdrawn.collect();
        }
        if let Some(details) = id.and_then(|id| market.escrow_details(id)) {
            before.deposits = details.deposits.iter().map(|(_, coin)| coin.clone()).collect();
            let transferred = details.transferred.iter();
            before.transferred = transferred
                .map(|(d, amount)| (d.clone(), amount.scaled()))
                .collect();
        }
        before
    }

    pub(super) fn events(
        &self,
        market: &Market,
        act: &Act,
        facts: &[ChainEvent],
        height: Height,
    ) -> Vec<DevnetEvent> {
        let mut events = Vec::new();
        let mut payouts = self.payouts(market);
        if facts
            .iter()
            .any(|f| matches!(f, ChainEvent::DeploymentClosed { .. }))
        {
            events.append(&mut payouts);
            events.extend(self.refunds(market));
        }
        for fact in facts {
            match fact {
                ChainEvent::OrderCreated { .. } => events.append(&mut payouts),
                ChainEvent::BidClosed { id } => events.extend(returned(market, id)),
                _ => {}
            }
            let hash = self.deployment.as_ref().and_then(|id| market.deployment(id));
            let hash = hash.map(|d| d.deployment.hash);
            let context = EventContext {
                hash: hash.as_ref(),
                is_new: self.is_new,
            };
            events.extend(typed(fact, context));
            if let ChainEvent::LeaseCreated { id, .. } = fact {
                events.extend(lost(market, id, height));
            }
        }
        events.append(&mut payouts);
        events.extend(paid(act));
        events
    }

    fn payouts(&self, market: &Market) -> Vec<DevnetEvent> {
        let mut events = Vec::new();
        for (id, before) in &self.withdrawn {
            let amount = withdrawn(market, id).saturating_sub(*before);
            let denom = market.lease(id).map(|l| l.lease.price.denom);
            if let Some(denom) = denom.filter(|_| amount > 0) {
                let coin = Coin::new(denom, amount);
                events.extend(transfer(ESCROW, id.provider.as_str(), &coin));
            }
        }
        events
    }

    /// Returns the transfer events of refunds, one for each deposit with an unspent part.
    fn refunds(&self, market: &Market) -> Vec<DevnetEvent> {
        let Some(id) = &self.deployment else {
            return Vec::new();
        };
        let transferred = market.escrow_details(id).map(|d| &d.transferred);
        let mut events = Vec::new();
        let mut spent: BTreeMap<&Denom, i128> = BTreeMap::new();
        for (denom, amount) in transferred.into_iter().flatten() {
            let before = self.transferred.get(denom).copied().unwrap_or(0);
            spent.insert(denom, amount.scaled() - before);
        }
        for deposit in &self.deposits {
            let spent = spent.entry(&deposit.denom).or_default();
            let part = deposit.amount.scaled().min(*spent);
            *spent -= part;
            let amount = u128::try_from((deposit.amount.scaled() - part) / DEC_ONE).unwrap_or(0);
            if amount > 0 {
                let denom = deposit.denom.clone();
                events.extend(transfer(ESCROW, id.owner.as_str(), &Coin::new(denom, amount)));
            }
        }
        events
    }
}

fn withdrawn(market: &Market, id: &LeaseId) -> u128 {
    let payment = market.lease(id).and_then(|l| l.payment);
    payment.map_or(0, |p| p.withdrawn.amount)
}

/// Returns the transfer events for the return of a bid deposit. The provider of the bid receives the deposit.
fn returned(market: &Market, id: &BidId) -> Vec<DevnetEvent> {
    let deposit = market.bid_deposit(id);
    deposit.map_or_else(Vec::new, |d| {
        transfer(ESCROW, id.provider.as_str(), &d.coin).to_vec()
    })
}

/// Returns the transfer events for the refunded deposits of losing bids.
fn lost(market: &Market, winner: &LeaseId, height: Height) -> Vec<DevnetEvent> {
    let mut events = Vec::new();
    for bid in market.bids_of(&winner.order) {
        let deposit = market
            .bid_deposit(&bid.id)
            .filter(|_| bid.state == BidState::Lost);
        if deposit.is_some_and(|d| d.returned_at == Some(height)) {
            events.extend(returned(market, &bid.id));
        }
    }
    events
}

/// Returns the transfer events of the amounts that the signer pays.
fn paid(act: &Act) -> Vec<DevnetEvent> {
    match act {
        Act::Provider(Msg::CreateBid { id, deposit, .. }) => {
            transfer(id.provider.as_str(), ESCROW, deposit).to_vec()
        }
        Act::Tenant(TenantMsg::CreateDeployment { id, deposit, .. }) => {
            transfer(id.owner.as_str(), ESCROW, deposit).to_vec()
        }
        Act::Tenant(TenantMsg::Deposit { deployment, coin }) => {
            transfer(deployment.owner.as_str(), ESCROW, coin).to_vec()
        }
        Act::Send { from, to, coins } => {
            let moved = coins
                .iter()
                .flat_map(|coin| transfer(from.as_str(), to.as_str(), coin));
            moved.collect()
        }
        Act::Provider(_) | Act::Tenant(_) => Vec::new(),
    }
}

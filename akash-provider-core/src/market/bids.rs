//! Messages of a provider: bid, close, reclaim, withdraw.

use super::book::{ActiveRecords, BidBook, OrderBook};
use super::{Market, Rejection};
use crate::bidding::{Capabilities, attributes};
use crate::types::{
    AuditedAttributes, Bid, BidId, BidState, ChainEvent, CloseReason, Coin, DecCoin, GroupSpec, GroupState,
    LeaseId, LeaseState, MarketParams, OrderState, ProviderRecord, ResourceUnit, TxError,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// Returns the number of bids that count against the limit of the order: all except lost bids.
fn counted_bids(order: &OrderBook) -> usize {
    let states = order.bids.values().map(|b| b.bid.state);
    states.filter(|s| *s != BidState::Lost).count()
}

/// Creates the rejection for an invalid deposit. The code is always 1, as on the Akash network.
fn deposit_invalid(log: &str) -> Rejection {
    Rejection {
        error: TxError::InsufficientFunds,
        code: "undefined/1".to_owned(),
        log: format!("deposit invalid: {log}"),
    }
}

fn check_deposit(params: &MarketParams, deposit: &Coin) -> Result<(), Rejection> {
    let least = params
        .bid_min_deposits
        .iter()
        .find(|c| c.denom == deposit.denom)
        .ok_or_else(|| deposit_invalid(&format!("unsupported denom {}", deposit.denom)))?;
    if deposit.amount < least.amount {
        let log = format!("minimum:{least} received:{{{deposit} [balance]}}");
        return Err(deposit_invalid(&log));
    }
    Ok(())
}

fn check_open(order: &OrderBook) -> Result<(), Rejection> {
    match order.order.state {
        OrderState::Open => Ok(()),
        OrderState::Active => Err(Rejection::market(TxError::OrderNotOpen, 23, "order active")),
        OrderState::Closed => Err(Rejection::market(TxError::OrderNotOpen, 24, "order closed")),
    }
}

fn check_price(spec: &GroupSpec, price: &DecCoin) -> Result<(), Rejection> {
    let too_high = |log: String| Rejection::market(TxError::PriceTooHigh, 22, log);
    let most = spec
        .max_price()
        .ok_or_else(|| too_high("bid price is invalid: the order has no price".to_owned()))?;
    if most.denom != price.denom {
        let log = format!("invalid coin denominations; {}, {}", most.denom, price.denom);
        return Err(Rejection::other("undefined/111222", log));
    }
    if price.amount.is_negative() || price.amount.is_zero() {
        return Err(Rejection::market(
            TxError::Other,
            19,
            format!("zero price: {price}"),
        ));
    }
    if price.amount > most.amount {
        return Err(too_high(format!("bid price is invalid: {price} is above {most}")));
    }
    Ok(())
}

/// Checks the offer of a bid. Each offered unit must be a unit of the group with an equal count, and must
/// occur only once. The amounts are not compared.
fn check_offer(spec: &GroupSpec, offer: &[ResourceUnit]) -> Result<(), Rejection> {
    let mut seen = BTreeSet::new();
    for unit in offer {
        let id = unit.resources.id;
        let asked = spec.resources.iter().find(|u| u.resources.id == id);
        if asked.is_none_or(|u| u.count != unit.count) || !seen.insert(id) {
            let log = format!("capabilities mismatch: offer of unit {id}");
            return Err(Rejection::market(TxError::CapabilitiesMismatch, 32, log));
        }
    }
    Ok(())
}

fn check_window(
    params: &MarketParams,
    least: Option<Duration>,
    window: Option<Duration>,
) -> Result<(), Rejection> {
    let refuse = |code, log: &str| Err(Rejection::market(TxError::Reclamation, code, log));
    match (least, window) {
        (Some(_), None) => refuse(40, "order requires reclamation but bid does not offer it"),
        (Some(least), Some(offered)) if offered < least => {
            refuse(41, "reclamation window shorter than order minimum")
        }
        (_, Some(offered))
            if offered < params.min_reclamation_window || offered > params.max_reclamation_window =>
        {
            refuse(39, "reclamation window outside the parameters")
        }
        (None | Some(_), Some(_)) | (None, None) => Ok(()),
    }
}

/// Checks whether a provider meets the requirements of a group. The sequence of checks is the same as on the
/// Akash network.
fn check_placement(
    spec: &GroupSpec,
    provider: &ProviderRecord,
    audits: &[AuditedAttributes],
) -> Result<(), Rejection> {
    let mismatch = |log: &str| Err(Rejection::market(TxError::AttributeMismatch, 5, log));
    let required = &spec.requirements.attributes;
    if !attributes::is_subset(required, &provider.attributes) {
        return mismatch("attribute mismatch: the provider does not declare them");
    }
    let signed_by = &spec.requirements.signed_by;
    let has_signed = |auditor: &String| {
        let mut of_auditor = audits.iter().filter(|a| a.auditor == *auditor);
        of_auditor.any(|a| attributes::is_subset(required, &a.attributes))
    };
    let any = signed_by.any_of.is_empty() || signed_by.any_of.iter().any(has_signed);
    if !any || !signed_by.all_of.iter().all(has_signed) {
        return mismatch("attribute mismatch: an auditor has not signed them");
    }
    let capabilities = Capabilities::from_attributes(&provider.attributes);
    capabilities.check(&spec.resources).map_err(|decline| {
        let log = format!("capabilities mismatch: {decline}");
        Rejection::market(TxError::CapabilitiesMismatch, 32, log)
    })
}

fn check_reason(reason: CloseReason) -> Result<(), Rejection> {
    if reason.is_providers() {
        return Ok(());
    }
    let log = format!("invalid close reason {}", reason.code());
    Err(Rejection::market(TxError::Other, 33, log))
}

impl Market {
    fn check_bid(
        &self,
        id: &BidId,
        price: &DecCoin,
        deposit: &Coin,
        offer: &[ResourceUnit],
        window: Option<Duration>,
    ) -> Result<(), Rejection> {
        // In the order of the network, so that a bid with two faults gets the same refusal as from a node.
        if id.owner() == &id.provider {
            let log = "owner and provider are the same account";
            return Err(Rejection::market(TxError::Other, 2, log));
        }
        check_deposit(&self.params, deposit)?;
        let order = self
            .order_book(&id.order)
            .ok_or_else(|| Rejection::market(TxError::OrderNotOpen, 15, "order not found"))?;
        // The network compares with "greater than", so one bid more than the limit is accepted.
        if counted_bids(order) > usize::try_from(self.params.order_max_bids).unwrap_or(usize::MAX) {
            let limit = self.params.order_max_bids;
            let log = format!("invalid bid: too many existing bids ({limit})");
            return Err(Rejection::market(TxError::InvalidBid, 31, log));
        }
        check_open(order)?;
        check_price(&order.order.spec, price)?;
        check_offer(&order.order.spec, offer)?;
        let provider = self.providers.get(&id.provider);
        let provider = provider.ok_or_else(|| Rejection::market(TxError::Other, 30, "unknown provider"))?;
        // The search walks over all signatures, so it runs only if the order requires one.
        let audits = if order.order.spec.requirements.signed_by.is_empty() {
            Vec::new()
        } else {
            self.audits(&id.provider)
        };
        check_placement(&order.order.spec, provider, &audits)?;
        if !self.ledger.can_pay(&id.provider, deposit) {
            return Err(deposit_invalid("insufficient balance"));
        }
        check_window(&self.params, order.order.reclamation_min_window, window)?;
        // The chain accepts one bid of a provider per order, in any state.
        if order.bids.contains_key(&id.provider) {
            let log = "invalid bid: bid exists from provider";
            return Err(Rejection::market(TxError::BidExists, 21, log));
        }
        Ok(())
    }

    pub(super) fn create_bid(
        &mut self,
        id: &BidId,
        price: &DecCoin,
        deposit: &Coin,
        offer: &[ResourceUnit],
        window: Option<Duration>,
    ) -> Result<Vec<ChainEvent>, Rejection> {
        self.check_bid(id, price, deposit, offer, window)?;
        let Some((book, mut cx)) = self.open(id.deployment()) else {
            return Err(Rejection::market(TxError::OrderNotOpen, 15, "order not found"));
        };
        let Some(order) = book.order_mut(&id.order) else {
            return Err(Rejection::market(TxError::OrderNotOpen, 15, "order not found"));
        };
        cx.ledger.debit(&id.provider, deposit);
        ActiveRecords::add(&mut cx.index.bids, id);
        let bid = Bid {
            id: id.clone(),
            state: BidState::Open,
            price: price.clone(),
            created_at: cx.height,
            resources_offer: offer.to_vec(),
            reclamation_window: window,
        };
        let deposit = deposit.clone();
        order.bids.insert(
            id.provider.clone(),
            BidBook {
                bid,
                deposit,
                ended_at: 0,
            },
        );
        cx.events.push(ChainEvent::BidCreated {
            id: id.clone(),
            price: price.clone(),
        });
        Ok(cx.events)
    }

    pub(super) fn close_bid(
        &mut self,
        id: &BidId,
        reason: CloseReason,
    ) -> Result<Vec<ChainEvent>, Rejection> {
        check_reason(reason)?;
        let unknown = || Rejection::market(TxError::UnknownBid, 6, "unknown bid");
        let (book, mut cx) = self.open(id.deployment()).ok_or_else(unknown)?;
        let order = book.order_mut(&id.order).ok_or_else(unknown)?;
        let bid = order.bids.get_mut(&id.provider).ok_or_else(unknown)?;
        // An open bid has no lease, so there is nothing to settle.
        if bid.bid.state == BidState::Open {
            bid.close(&mut cx);
            return Ok(cx.events);
        }
        let Some(lease) = order.live_lease_of(&id.provider) else {
            return Err(Rejection::market(TxError::UnknownBid, 8, "unknown lease for bid"));
        };
        match lease.lease.reclamation.as_ref().map(|r| r.deadline) {
            None => {}
            Some(None) => {
                let log = "reclamation not started; call MsgLeaseStartReclaim first";
                return Err(Rejection::market(TxError::ReclaimNotStarted, 37, log));
            }
            Some(Some(deadline)) if cx.time < deadline => {
                let log = "reclamation window has not elapsed";
                return Err(Rejection::market(TxError::WindowNotElapsed, 38, log));
            }
            Some(Some(_)) => {}
        }
        // Settled before anything ends, so that the lease is paid up to this block.
        let overdrawn = book.settle(cx.height);
        // Paused instead of closed, because the tenant can start the group again.
        if let Some(group) = book.group_mut(&id.order.group) {
            group.group.state = GroupState::Paused;
            let id = group.group.id.clone();
            cx.events.push(ChainEvent::GroupPaused { id });
        }
        if let Some(order) = book.order_mut(&id.order) {
            order.end_by_lease(&mut cx, reason);
        }
        // The transaction that detects exhausted funds closes the whole deployment.
        if overdrawn {
            book.close_overdrawn(&mut cx);
        }
        Ok(cx.events)
    }

    pub(super) fn start_reclaim(
        &mut self,
        id: &LeaseId,
        reason: CloseReason,
    ) -> Result<Vec<ChainEvent>, Rejection> {
        check_reason(reason)?;
        let unknown = || Rejection::market(TxError::LeaseNotActive, 20, "lease not found");
        let (book, mut cx) = self.open(id.deployment()).ok_or_else(unknown)?;
        let order = book.order_mut(&id.order).ok_or_else(unknown)?;
        let lease = order.lease.as_mut().filter(|l| l.lease.id == *id);
        let book = lease.ok_or_else(unknown)?;
        let lease = &mut book.lease;
        match lease.state {
            LeaseState::Active => {}
            LeaseState::Reclaiming => {
                let log = "reclamation has been started";
                return Err(Rejection::market(TxError::AlreadyReclaiming, 36, log));
            }
            LeaseState::InsufficientFunds | LeaseState::Closed => {
                return Err(Rejection::market(TxError::LeaseNotActive, 10, "lease not active"));
            }
        }
        let Some(terms) = &mut lease.reclamation else {
            return Err(Rejection::market(TxError::Other, 35, "lease is not reclamable"));
        };
        let deadline = cx.time.plus(terms.window);
        terms.deadline = Some(deadline);
        terms.reason = Some(reason);
        lease.state = LeaseState::Reclaiming;
        book.reclaim = Some((cx.height, reason));
        cx.events.push(ChainEvent::LeaseReclaimStarted {
            id: id.clone(),
            reason,
            deadline,
        });
        Ok(cx.events)
    }

    pub(super) fn withdraw(&mut self, id: &LeaseId) -> Result<Vec<ChainEvent>, Rejection> {
        let unknown = || Rejection::market(TxError::LeaseNotActive, 20, "lease not found");
        let (book, mut cx) = self.open(id.deployment()).ok_or_else(unknown)?;
        let order = book.order(&id.order).ok_or_else(unknown)?;
        let lease = order.lease_of(&id.provider).ok_or_else(unknown)?;
        if !lease.lease.state.is_live() {
            return Err(Rejection::market(TxError::LeaseNotActive, 10, "lease not active"));
        }
        if book.escrow.withdrawn_at == cx.height {
            let (deployment, order) = (id.deployment(), &id.order);
            let payment = format!("{}/{}/{}", order.group.gseq, order.oseq, id.provider);
            let log = format!(
                "couldn't find payment aid:<scope:deployment xid:\"{deployment}\" > xid:\"{payment}\" "
            );
            return Err(Rejection::other("undefined/111222", log));
        }
        book.escrow.withdrawn_at = cx.height;
        if book.settle(cx.height) {
            book.close_overdrawn(&mut cx);
            return Ok(cx.events);
        }
        let order = book.order_mut(&id.order);
        if let Some(lease) = order.and_then(|o| o.lease.as_mut()) {
            lease.pay_out(cx.ledger);
        }
        Ok(cx.events)
    }
}

//! Records below a deployment, and their life cycle.
//!
//! Orders of a group and their bids are never removed. Only the newest order of a group can be open or have
//! an active lease.

use super::escrow::Escrow;
use super::ledger::Ledger;
use crate::types::{
    Address, Bid, BidId, BidState, BlockTime, ChainEvent, CloseReason, Coin, Dec, Deployment, Group, GroupId,
    GroupState, Height, Lease, LeaseState, Order, OrderId, OrderState, Payment,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A deployment with its groups, orders, bids and leases.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DeploymentBook {
    pub(super) record: Deployment,
    pub(super) escrow: Escrow,
    /// Groups by gseq, from 1.
    pub(super) groups: Vec<GroupBook>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct GroupBook {
    pub(super) group: Group,
    /// Orders by oseq, from 1.
    pub(super) orders: Vec<OrderBook>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct OrderBook {
    pub(super) order: Order,
    pub(super) bids: BTreeMap<Address, BidBook>,
    pub(super) lease: Option<LeaseBook>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BidBook {
    pub(super) bid: Bid,
    pub(super) deposit: Coin,
    /// Height at which the deposit was returned; 0 before the return.
    #[serde(default)]
    pub(super) ended_at: Height,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LeaseBook {
    pub(super) lease: Lease,
    pub(super) payment: Payment,
    /// Earnings that are not paid, because the funds were insufficient.
    #[serde(default)]
    pub(super) unsettled: Dec,
    /// Start height and reason of the reclamation; `None` before the reclamation starts.
    #[serde(default)]
    pub(super) reclaim: Option<(Height, CloseReason)>,
}

/// State that one transaction reads and changes. The deployment is passed separately.
#[derive(Debug)]
pub(super) struct TxContext<'a> {
    /// Height of the block under construction.
    pub(super) height: Height,
    /// Time of the block under construction, if set. Otherwise the time of the newest complete block.
    pub(super) time: BlockTime,
    pub(super) ledger: &'a mut Ledger,
    pub(super) index: &'a mut ActiveRecords,
    pub(super) events: Vec<ChainEvent>,
}

/// Index of active records, so that lookups do not iterate over all deployments.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ActiveRecords {
    pub(super) open_orders: BTreeSet<OrderId>,
    /// Orders with an open or active bid, by provider.
    pub(super) bids: BTreeMap<Address, BTreeSet<OrderId>>,
    /// Orders with a lease in the state `Active` or `Reclaiming`, by provider.
    pub(super) leases: BTreeMap<Address, BTreeSet<OrderId>>,
}

impl ActiveRecords {
    pub(super) fn add(books: &mut BTreeMap<Address, BTreeSet<OrderId>>, id: &BidId) {
        let of_provider = books.entry(id.provider.clone()).or_default();
        of_provider.insert(id.order.clone());
    }

    fn remove(books: &mut BTreeMap<Address, BTreeSet<OrderId>>, id: &BidId) {
        if let Some(of_provider) = books.get_mut(&id.provider) {
            of_provider.remove(&id.order);
        }
    }

    pub(super) fn of<'a>(
        books: &'a BTreeMap<Address, BTreeSet<OrderId>>,
        provider: &Address,
    ) -> impl Iterator<Item = &'a OrderId> {
        books.get(provider).into_iter().flatten()
    }
}

fn slot(sequence: u32) -> Option<usize> {
    // Sequences start at 1.
    usize::try_from(sequence.checked_sub(1)?).ok()
}

impl DeploymentBook {
    pub(super) fn group(&self, id: &GroupId) -> Option<&GroupBook> {
        self.groups.get(slot(id.gseq)?)
    }

    pub(super) fn group_mut(&mut self, id: &GroupId) -> Option<&mut GroupBook> {
        self.groups.get_mut(slot(id.gseq)?)
    }

    pub(super) fn order(&self, id: &OrderId) -> Option<&OrderBook> {
        self.group(&id.group)?.orders.get(slot(id.oseq)?)
    }

    pub(super) fn order_mut(&mut self, id: &OrderId) -> Option<&mut OrderBook> {
        self.group_mut(&id.group)?.orders.get_mut(slot(id.oseq)?)
    }

    /// Returns the active and reclaiming leases of all providers, sorted by gseq.
    pub(super) fn live_leases(&self) -> impl Iterator<Item = &LeaseBook> {
        let newest = self.groups.iter().filter_map(|g| g.orders.last());
        newest.filter_map(|o| o.lease.as_ref().filter(|l| l.lease.state.is_live()))
    }

    pub(super) fn live_leases_mut(&mut self) -> impl Iterator<Item = &mut LeaseBook> {
        let newest = self.groups.iter_mut().filter_map(|g| g.orders.last_mut());
        newest.filter_map(|o| o.lease.as_mut().filter(|l| l.lease.state.is_live()))
    }

    /// Closes the deployment with all its records.
    pub(super) fn end(&mut self, cx: &mut TxContext<'_>, ending: CloseCause) {
        self.record.active = false;
        let id = self.record.id.clone();
        // The deployment first, in the event order of the network.
        cx.events.push(ChainEvent::DeploymentClosed { id });
        for group in &mut self.groups {
            // Closed groups keep their state.
            if !matches!(
                group.group.state,
                GroupState::Closed | GroupState::InsufficientFunds
            ) {
                group.end(cx, ending);
            }
        }
        self.escrow.refund(cx.ledger, &self.record.id.owner);
    }
}

/// Reason of a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseCause {
    /// The tenant requested the close.
    Owner,
    /// The funds of the escrow account are exhausted.
    InsufficientFunds,
}

impl GroupBook {
    pub(super) fn end(&mut self, cx: &mut TxContext<'_>, ending: CloseCause) {
        self.group.state = match ending {
            CloseCause::Owner => GroupState::Closed,
            CloseCause::InsufficientFunds => GroupState::InsufficientFunds,
        };
        let id = self.group.id.clone();
        cx.events.push(ChainEvent::GroupClosed { id });
        self.end_order(cx, ending);
    }

    /// Closes the newest order with its bids and its lease. Emits the events in the same order as the
    /// chain.
    pub(super) fn end_order(&mut self, cx: &mut TxContext<'_>, ending: CloseCause) {
        let Some(order) = self.orders.last_mut() else {
            return;
        };
        // Each close has one event, so a closed order has no further event.
        if order.order.state == OrderState::Closed {
            return;
        }
        order.close_order(cx);
        order.close_bids(cx);
        match ending {
            CloseCause::Owner => order.close_lease(cx, LeaseState::Closed, CloseReason::Owner),
            CloseCause::InsufficientFunds => {
                order.close_lease(cx, LeaseState::InsufficientFunds, CloseReason::InsufficientFunds);
            }
        }
    }

    pub(super) fn new_order(&mut self, cx: &mut TxContext<'_>, deployment: &Deployment) {
        // Orders are never removed, so their number is the newest sequence.
        let oseq = u32::try_from(self.orders.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let id = self.group.id.clone().order(oseq);
        self.orders.push(OrderBook {
            order: Order {
                id: id.clone(),
                state: OrderState::Open,
                spec: self.group.spec.clone(),
                created_at: cx.height,
                reclamation_min_window: deployment.reclamation_min_window,
            },
            bids: BTreeMap::new(),
            lease: None,
        });
        cx.index.open_orders.insert(id.clone());
        cx.events.push(ChainEvent::OrderCreated { id });
    }
}

impl OrderBook {
    /// Returns the lease of `provider`. The lease can have any state.
    pub(super) fn lease_of(&self, provider: &Address) -> Option<&LeaseBook> {
        self.lease.as_ref().filter(|l| l.lease.id.provider == *provider)
    }

    /// Returns the active or reclaiming lease of `provider`.
    pub(super) fn live_lease_of(&self, provider: &Address) -> Option<&LeaseBook> {
        self.lease_of(provider).filter(|l| l.lease.state.is_live())
    }

    pub(super) fn close_order(&mut self, cx: &mut TxContext<'_>) {
        self.order.state = OrderState::Closed;
        cx.index.open_orders.remove(&self.order.id);
        let id = self.order.id.clone();
        cx.events.push(ChainEvent::OrderClosed { id });
    }

    pub(super) fn close_bids(&mut self, cx: &mut TxContext<'_>) {
        for bid in self.bids.values_mut() {
            bid.close(cx);
        }
    }

    /// Closes the active lease, if any, and pays its earnings.
    pub(super) fn close_lease(&mut self, cx: &mut TxContext<'_>, state: LeaseState, reason: CloseReason) {
        let Some(book) = self.lease.as_mut().filter(|l| l.lease.state.is_live()) else {
            return;
        };
        book.lease.state = state;
        book.lease.closed_on = cx.height;
        book.lease.reason = Some(reason);
        book.pay_out(cx.ledger);
        ActiveRecords::remove(&mut cx.index.leases, &book.lease.id);
        let id = book.lease.id.clone();
        cx.events.push(ChainEvent::LeaseClosed { id, reason });
    }

    /// Closes the lease, its bid and the order. Emits the events in the same order as the chain.
    pub(super) fn end_by_lease(&mut self, cx: &mut TxContext<'_>, reason: CloseReason) {
        self.close_lease(cx, LeaseState::Closed, reason);
        self.close_bids(cx);
        self.close_order(cx);
    }
}

impl BidBook {
    /// Closes an open or active bid and returns its deposit.
    pub(super) fn close(&mut self, cx: &mut TxContext<'_>) {
        match self.bid.state {
            BidState::Open | BidState::Active => {}
            BidState::Lost | BidState::Closed => return,
        }
        self.end(cx, BidState::Closed);
        let id = self.bid.id.clone();
        cx.events.push(ChainEvent::BidClosed { id });
    }

    /// Marks an open bid as lost and returns its deposit. The Akash network has no event for this change.
    pub(super) fn lose(&mut self, cx: &mut TxContext<'_>) {
        if self.bid.state == BidState::Open {
            self.end(cx, BidState::Lost);
        }
    }

    fn end(&mut self, cx: &mut TxContext<'_>, state: BidState) {
        self.bid.state = state;
        self.ended_at = cx.height;
        let deposit = &self.deposit;
        cx.ledger
            .credit(&self.bid.id.provider, &deposit.denom, deposit.amount);
        ActiveRecords::remove(&mut cx.index.bids, &self.bid.id);
    }
}

//! Messages of tenants and auditors.

use super::book::{ActiveRecords, CloseCause, DeploymentBook, GroupBook, LeaseBook, TxContext};
use super::escrow::{Escrow, to_dec};
use super::{MIN_DEPLOYMENT_DEPOSIT, Market, Rejection};
use crate::types::{
    Address, Attribute, BidId, BidState, ChainEvent, CloseReason, Coin, Dec, DecCoin, Deployment,
    DeploymentId, Group, GroupId, GroupSpec, GroupState, Lease, LeaseId, LeaseState, OrderState, Payment,
    Reclamation, TxError,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of groups of a deployment on the Akash network.
const GROUPS_MAX: usize = 20;

fn no_deployment() -> Rejection {
    refuse(4, "Deployment not found")
}

/// Creates a rejection with a code of the Akash network's module `deployment`.
fn refuse(code: u32, log: impl Into<String>) -> Rejection {
    Rejection::other(&format!("deployment/{code}"), log)
}

fn invalid_groups(why: String) -> Rejection {
    refuse(7, format!("{why}: Invalid groups"))
}

fn invalid_deposit(why: String) -> Rejection {
    refuse(20, format!("{why}: Deposit invalid"))
}

fn wrong_state(state: GroupState) -> Rejection {
    match state {
        GroupState::Open => refuse(16, "Group open"),
        GroupState::Paused => refuse(17, "Group paused"),
        GroupState::InsufficientFunds | GroupState::Closed => refuse(15, "Group already closed"),
    }
}

fn check_groups(groups: &[GroupSpec]) -> Result<(), Rejection> {
    if groups.is_empty() || groups.len() > GROUPS_MAX {
        let n = groups.len();
        return Err(invalid_groups(format!(
            "a deployment has 1 to {GROUPS_MAX} groups, not {n}"
        )));
    }
    let mut names = BTreeSet::new();
    for group in groups {
        let name = &group.name;
        if !names.insert(name) {
            return Err(invalid_groups(format!("two groups are named `{name}`")));
        }
        if group.max_price().is_none_or(|p| p.amount <= Dec::ZERO) {
            return Err(invalid_groups(format!(
                "group `{name}` needs units with one price denomination"
            )));
        }
        let mut ids = BTreeSet::new();
        if let Some(unit) = group.resources.iter().find(|u| !ids.insert(u.resources.id)) {
            return Err(invalid_groups(format!(
                "group `{name}` has unit {} twice",
                unit.resources.id
            )));
        }
    }
    Ok(())
}

impl Market {
    fn check_tenant_pays(&self, owner: &Address, coin: &Coin) -> Result<(), Rejection> {
        if to_dec(coin.amount).is_none() {
            return Err(invalid_deposit(format!(
                "{coin} is more than an account can hold"
            )));
        }
        if self.ledger.can_pay(owner, coin) {
            return Ok(());
        }
        Err(Rejection {
            error: TxError::InsufficientFunds,
            code: "sdk/5".to_owned(),
            log: format!("{owner} cannot pay {coin}"),
        })
    }

    fn open_active(&mut self, id: &DeploymentId) -> Result<(&mut DeploymentBook, TxContext<'_>), Rejection> {
        let (book, cx) = self.open(id).ok_or_else(no_deployment)?;
        if !book.record.active {
            return Err(refuse(5, "Deployment closed"));
        }
        Ok((book, cx))
    }

    pub(super) fn create_deployment(
        &mut self,
        id: DeploymentId,
        mut groups: Vec<GroupSpec>,
        hash: [u8; 32],
        deposit: &Coin,
        reclamation_min_window: Option<Duration>,
    ) -> Result<Vec<ChainEvent>, Rejection> {
        check_groups(&groups)?;
        if self.deployments.contains_key(&id) {
            return Err(refuse(3, "Deployment exists"));
        }
        if deposit.amount < MIN_DEPLOYMENT_DEPOSIT {
            return Err(invalid_deposit(format!(
                "deposit {deposit} is below {MIN_DEPLOYMENT_DEPOSIT}"
            )));
        }
        self.check_tenant_pays(&id.owner, deposit)?;
        // Groups are numbered in the order of their names.
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        let height = self.building();
        let mut escrow = Escrow::new(height);
        if !escrow.add(height, deposit) {
            return Err(invalid_deposit(format!(
                "{deposit} is more than an account can hold"
            )));
        }
        self.ledger.debit(&id.owner, deposit);
        let record = Deployment {
            id: id.clone(),
            active: true,
            hash,
            created_at: height,
            reclamation_min_window,
        };
        let empty = DeploymentBook {
            record,
            escrow,
            groups: Vec::new(),
        };
        // Inserted first, because the rules open the deployment from the map.
        self.deployments.insert(id.clone(), empty);
        self.ledger.count_transaction(&id.owner);
        let (book, mut cx) = self.open_active(&id)?;
        cx.events.push(ChainEvent::DeploymentCreated { id: id.clone() });
        for (gseq, spec) in (1..).zip(groups) {
            let group = Group {
                id: id.clone().group(gseq),
                state: GroupState::Open,
                spec: Arc::new(spec),
            };
            let mut group = GroupBook {
                group,
                orders: Vec::new(),
            };
            group.new_order(&mut cx, &book.record);
            book.groups.push(group);
        }
        Ok(cx.events)
    }

    pub(super) fn update_deployment(
        &mut self,
        id: &DeploymentId,
        hash: [u8; 32],
    ) -> Result<Vec<ChainEvent>, Rejection> {
        let (book, mut cx) = self.open_active(id)?;
        // The network refuses an update without a change.
        if book.record.hash == hash {
            return Err(refuse(10, "Invalid: deployment hash"));
        }
        book.record.hash = hash;
        cx.events
            .push(ChainEvent::DeploymentUpdated { id: id.clone(), hash });
        Ok(cx.events)
    }

    pub(super) fn close_deployment(&mut self, id: &DeploymentId) -> Result<Vec<ChainEvent>, Rejection> {
        let (book, mut cx) = self.open_active(id)?;
        // Settled first, because the remaining funds determine the reason of the close.
        let ending = if book.settle(cx.height) {
            CloseCause::InsufficientFunds
        } else {
            CloseCause::Owner
        };
        book.end(&mut cx, ending);
        Ok(cx.events)
    }

    fn open_group(
        &mut self,
        id: &GroupId,
    ) -> Result<(&mut DeploymentBook, TxContext<'_>, GroupState), Rejection> {
        let (book, cx) = self.open_active(&id.deployment)?;
        let group = book.group(id);
        let state = group.ok_or_else(|| refuse(14, "Group not found"))?.group.state;
        Ok((book, cx, state))
    }

    pub(super) fn pause_group(&mut self, id: &GroupId) -> Result<Vec<ChainEvent>, Rejection> {
        let (book, mut cx, state) = self.open_group(id)?;
        if state != GroupState::Open {
            return Err(wrong_state(state));
        }
        // Settled before the lease ends, so that the lease is paid up to this block.
        let overdrawn = book.settle(cx.height);
        if let Some(group) = book.group_mut(id) {
            group.group.state = GroupState::Paused;
            cx.events.push(ChainEvent::GroupPaused { id: id.clone() });
            group.end_order(&mut cx, CloseCause::Owner);
        }
        if overdrawn {
            book.close_overdrawn(&mut cx);
        }
        Ok(cx.events)
    }

    pub(super) fn start_group(&mut self, id: &GroupId) -> Result<Vec<ChainEvent>, Rejection> {
        let (book, mut cx, state) = self.open_group(id)?;
        if state != GroupState::Paused {
            return Err(wrong_state(state));
        }
        let record = book.record.clone();
        if let Some(group) = book.group_mut(id) {
            group.group.state = GroupState::Open;
            cx.events.push(ChainEvent::GroupStarted { id: id.clone() });
            group.new_order(&mut cx, &record);
        }
        Ok(cx.events)
    }

    pub(super) fn close_group(&mut self, id: &GroupId) -> Result<Vec<ChainEvent>, Rejection> {
        let (book, mut cx, state) = self.open_group(id)?;
        if matches!(state, GroupState::Closed | GroupState::InsufficientFunds) {
            return Err(wrong_state(state));
        }
        // Settled first, because a closed lease earns nothing for these blocks.
        let overdrawn = book.settle(cx.height);
        if let Some(group) = book.group_mut(id) {
            group.end(&mut cx, CloseCause::Owner);
        }
        if overdrawn {
            book.close_overdrawn(&mut cx);
        }
        Ok(cx.events)
    }

    fn check_winner(&self, id: &BidId) -> Result<(), Rejection> {
        let unknown = || Rejection::market(TxError::UnknownBid, 18, "bid not found");
        let order = self.order_book(&id.order).ok_or_else(unknown)?;
        let bid = order.bids.get(&id.provider).ok_or_else(unknown)?;
        if bid.bid.state != BidState::Open {
            return Err(Rejection::market(TxError::Other, 12, "bid not open"));
        }
        if order.order.state != OrderState::Open {
            return Err(Rejection::market(TxError::OrderNotOpen, 13, "order not open"));
        }
        Ok(())
    }

    pub(super) fn create_lease(&mut self, id: &BidId) -> Result<Vec<ChainEvent>, Rejection> {
        self.check_winner(id)?;
        let (book, mut cx) = self.open_active(id.deployment())?;
        if book.settle(cx.height) {
            // Leases of other groups can have exhausted the funds; the transaction then closes the
            // deployment.
            book.close_overdrawn(&mut cx);
            return Ok(cx.events);
        }
        let Some(order) = book.order_mut(&id.order) else {
            return Err(Rejection::market(TxError::UnknownBid, 18, "bid not found"));
        };
        order.order.state = OrderState::Active;
        cx.index.open_orders.remove(&id.order);
        for (provider, bid) in &mut order.bids {
            if *provider != id.provider {
                bid.lose(&mut cx);
                continue;
            }
            bid.bid.state = BidState::Active;
            let price = bid.bid.price.clone();
            let reclamation = bid.bid.reclamation_window.map(|window| Reclamation {
                window,
                deadline: None,
                reason: None,
            });
            order.lease = Some(new_lease(id, &price, reclamation, cx.height));
            ActiveRecords::add(&mut cx.index.leases, id);
            cx.events.push(ChainEvent::LeaseCreated {
                id: id.clone(),
                price,
            });
        }
        Ok(cx.events)
    }

    pub(super) fn close_lease(&mut self, id: &LeaseId) -> Result<Vec<ChainEvent>, Rejection> {
        let (book, mut cx) = self.open_active(id.deployment())?;
        let live = book.order(&id.order).and_then(|o| o.live_lease_of(&id.provider));
        if live.is_none() {
            return Err(Rejection::market(TxError::LeaseNotActive, 10, "lease not active"));
        }
        // Settled while the lease is active, so that its last blocks are paid.
        let overdrawn = book.settle(cx.height);
        if let Some(order) = book.order_mut(&id.order) {
            order.end_by_lease(&mut cx, CloseReason::Owner);
        }
        if overdrawn {
            book.close_overdrawn(&mut cx);
        }
        let record = book.record.clone();
        let group = book.group_mut(&id.order.group);
        // A group that was just closed for insufficient funds gets no new order.
        if let Some(group) = group.filter(|g| g.group.state == GroupState::Open) {
            group.new_order(&mut cx, &record);
        }
        Ok(cx.events)
    }

    pub(super) fn deposit(&mut self, id: &DeploymentId, coin: &Coin) -> Result<Vec<ChainEvent>, Rejection> {
        self.check_tenant_pays(&id.owner, coin)?;
        let (book, mut cx) = self.open_active(id)?;
        if !book.escrow.add(cx.height, coin) {
            return Err(invalid_deposit(format!(
                "{coin} is more than an account can hold"
            )));
        }
        cx.ledger.debit(&id.owner, coin);
        // Settled with the new funds, which saves an account that has run dry since the last settlement.
        if book.settle(cx.height) {
            book.close_overdrawn(&mut cx);
        }
        Ok(cx.events)
    }

    pub(super) fn sign(
        &mut self,
        auditor: Address,
        owner: Address,
        attributes: Vec<Attribute>,
    ) -> Result<Vec<ChainEvent>, Rejection> {
        if !self.providers.contains_key(&owner) {
            return Err(Rejection::other("audit/1", "invalid provider: address not found"));
        }
        let key = (owner.clone(), auditor.to_string());
        self.audits.insert(key, attributes);
        Ok(vec![ChainEvent::AuditChanged { auditor, owner }])
    }

    /// Signs the attributes of a provider in the name of an auditor. The name can be any text, because groups
    /// may name auditors that are not addresses.
    pub fn sign_as(&mut self, auditor: &str, owner: &Address, attributes: Vec<Attribute>) {
        self.audits
            .insert((owner.clone(), auditor.to_owned()), attributes);
    }

    pub(super) fn unsign(&mut self, auditor: Address, owner: Address) -> Result<Vec<ChainEvent>, Rejection> {
        let key = (owner.clone(), auditor.to_string());
        if self.audits.remove(&key).is_none() {
            let log = "invalid provider: address not found";
            return Err(Rejection::other("audit/1", log));
        }
        Ok(vec![ChainEvent::AuditChanged { auditor, owner }])
    }
}

fn new_lease(id: &BidId, price: &DecCoin, reclamation: Option<Reclamation>, height: u64) -> LeaseBook {
    LeaseBook {
        lease: Lease {
            id: id.clone(),
            state: LeaseState::Active,
            price: price.clone(),
            created_at: height,
            closed_on: 0,
            reason: None,
            reclamation,
        },
        payment: Payment {
            rate: price.clone(),
            balance: DecCoin::new(&price.denom, Dec::ZERO),
            withdrawn: Coin::new(price.denom.clone(), 0),
        },
        unsettled: Dec::ZERO,
        reclaim: None,
    }
}

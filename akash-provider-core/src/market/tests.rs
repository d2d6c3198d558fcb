//! The rules of the chain, one test each.
//!
//! Length: the rules share the setup of tenants and providers.

use super::*;
use crate::types::{
    BidState, ChainEvent as E, CloseReason, Dec, DecCoin, GroupState, LeaseState, OrderState, ResourceUnit,
    Resources,
};

const TENANT: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
pub(super) const ONE: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
pub(super) const TWO: &str = "akash1xx0apw5qnpmrt34fd6666yteny73nnm0j8k723";
pub(super) const BLOCK: Duration = Duration::from_secs(6);
const HOUR: Duration = Duration::from_secs(3600);
const START: u128 = 1_000_000_000;

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

fn uact(amount: u128) -> Coin {
    Coin::new("uact", amount)
}

fn price(text: &str) -> DecCoin {
    DecCoin::new(&"uact".into(), text.parse().unwrap())
}

pub(super) fn spec(name: &str, most: &str) -> GroupSpec {
    GroupSpec {
        name: name.to_owned(),
        requirements: crate::types::PlacementRequirements::default(),
        resources: vec![ResourceUnit {
            resources: Resources {
                id: 1,
                ..Resources::default()
            },
            count: 2,
            price: price(most),
        }],
    }
}

pub(super) fn deployment(dseq: u64) -> DeploymentId {
    DeploymentId::new(address(TENANT), dseq)
}

pub(super) fn group(dseq: u64, gseq: u32) -> GroupId {
    deployment(dseq).group(gseq)
}

pub(super) fn order(dseq: u64, gseq: u32, oseq: u32) -> OrderId {
    group(dseq, gseq).order(oseq)
}

pub(super) fn bid(order: &OrderId, provider: &str) -> BidId {
    order.clone().bid(address(provider))
}

pub(super) fn create_bid(id: &BidId, most: &str) -> Msg {
    Msg::CreateBid {
        id: id.clone(),
        price: price(most),
        deposit: uact(500_000),
        resources_offer: Vec::new(),
        reclamation_window: None,
    }
}

pub(super) fn create(
    dseq: u64,
    groups: Vec<GroupSpec>,
    deposit: u128,
    window: Option<Duration>,
) -> TenantMsg {
    TenantMsg::CreateDeployment {
        id: deployment(dseq),
        groups,
        hash: [1; 32],
        deposit: uact(deposit),
        reclamation_min_window: window,
    }
}

pub(super) fn market() -> Market {
    let mut market = Market::new(MarketConfig::new("local", BlockTime(0)));
    for account in [TENANT, ONE, TWO] {
        market.fund(&address(account), &uact(START));
    }
    for owner in [ONE, TWO] {
        let record = ProviderRecord {
            owner: address(owner),
            host_uri: "https://provider.example:8443".to_owned(),
            info: Default::default(),
            attributes: Vec::new(),
        };
        market.execute(&Msg::CreateProvider(record)).unwrap();
    }
    market
}

/// Creates a lease of the provider `ONE` for 40 uact per block, and completes the block.
pub(super) fn leased(market: &mut Market, dseq: u64, deposit: u128) -> LeaseId {
    let id = bid(&order(dseq, 1, 1), ONE);
    market
        .tenant(create(dseq, vec![spec("web", "50")], deposit, None))
        .unwrap();
    market.execute(&create_bid(&id, "40")).unwrap();
    market.tenant(TenantMsg::CreateLease { bid: id.clone() }).unwrap();
    market.end_block(BLOCK);
    id
}

pub(super) fn close(id: &BidId, reason: CloseReason) -> Msg {
    let id = id.clone();
    Msg::CloseBid { id, reason }
}

fn error(result: Result<Vec<E>, Rejection>) -> (TxError, String) {
    let rejection = result.unwrap_err();
    (rejection.error, rejection.code)
}

fn balance(market: &Market, account: &str) -> u128 {
    market.balance(&address(account), "uact").amount
}

/// Returns the sum of all balances, bid deposits, escrow funds and unpaid earnings.
fn all_money(market: &Market) -> Dec {
    let mut sum = Dec::ZERO;
    let mut add = |d: Dec| sum = sum.checked_add(d).unwrap();
    for account in [TENANT, ONE, TWO] {
        add(escrow::to_dec(balance(market, account)).unwrap());
    }
    let live = |b: &&crate::types::Bid| matches!(b.state, BidState::Open | BidState::Active);
    for _ in market.bids().filter(live) {
        add(Dec::from_int(500_000));
    }
    for record in market.deployments() {
        let funds = record.escrow.funds.values().filter(|f| !f.is_negative());
        funds.for_each(|f| add(*f));
    }
    for lease in market.leases() {
        add(lease.payment.unwrap().balance.amount);
    }
    sum
}

#[test]
fn a_deployment_makes_an_order_for_each_group_sorted_by_name() {
    let mut market = market();
    let groups = vec![spec("zeta", "5"), spec("alpha", "6")];
    let events = market.tenant(create(7, groups, 500_000, None)).unwrap();
    let created = |gseq| E::OrderCreated {
        id: order(7, gseq, 1),
    };
    let id = deployment(7);
    assert_eq!(events, [E::DeploymentCreated { id }, created(1), created(2)]);
    assert_eq!(market.group(&group(7, 1)).unwrap().spec.name, "alpha");
    assert_eq!(balance(&market, TENANT), START - 500_000);
    assert!(
        market
            .tenant(create(7, vec![spec("a", "5")], 500_000, None))
            .is_err()
    );
}

#[test]
fn a_bid_takes_its_deposit_and_a_close_gives_it_back() {
    let mut market = market();
    let id = bid(&order(1, 1, 1), ONE);
    market
        .tenant(create(1, vec![spec("web", "50")], 500_000, None))
        .unwrap();
    let events = market.execute(&create_bid(&id, "100")).unwrap();
    let (at, cost) = (id.clone(), price("100"));
    assert_eq!(events, [E::BidCreated { id: at, price: cost }]);
    assert_eq!(balance(&market, ONE), START - 500_000);
    let events = market.execute(&close(&id, CloseReason::Unspecified)).unwrap();
    assert_eq!(events, [E::BidClosed { id: id.clone() }]);
    assert_eq!(balance(&market, ONE), START);
    assert_eq!(market.order(&id.order).unwrap().state, OrderState::Open);
    // A closed bid stays closed, and the order accepts no further bid of this provider.
    let again = market.execute(&close(&id, CloseReason::Unspecified));
    assert_eq!(error(again), (TxError::UnknownBid, "market/8".to_owned()));
    let again = market.execute(&create_bid(&id, "100"));
    assert_eq!(error(again), (TxError::BidExists, "market/21".to_owned()));
}

#[test]
fn wrong_bids_are_refused_with_the_networks_codes_and_change_nothing() {
    let mut market = market();
    let id = bid(&order(1, 1, 1), ONE);
    market
        .tenant(create(1, vec![spec("web", "50")], 500_000, None))
        .unwrap();
    let base = || {
        (
            price("100"),
            uact(500_000),
            Vec::<ResourceUnit>::new(),
            id.clone(),
        )
    };
    type Change = fn(&mut (DecCoin, Coin, Vec<ResourceUnit>, BidId));
    let unit = |count| ResourceUnit {
        count,
        ..spec("web", "50").resources.remove(0)
    };
    let offer = [unit(1), unit(2), unit(2)];
    let (unpaid, other) = (TxError::InsufficientFunds, TxError::Other);
    let cases: [(Change, TxError, &str); 8] = [
        (|b| b.1.amount = 499_999, unpaid, "undefined/1"),
        (|b| b.1.denom = "uusd".into(), unpaid, "undefined/1"),
        (|b| b.1.denom = "uakt".into(), unpaid, "undefined/1"),
        (
            |b| b.0 = price("100.000000000000000001"),
            TxError::PriceTooHigh,
            "market/22",
        ),
        (|b| b.0.denom = "uakt".into(), other, "undefined/111222"),
        (|b| b.0 = price("0"), other, "market/19"),
        (|b| b.3.order.oseq = 2, TxError::OrderNotOpen, "market/15"),
        (
            |b| b.3.provider = b.3.order.group.deployment.owner.clone(),
            other,
            "market/2",
        ),
    ];
    let send = |market: &mut Market, (price, deposit, resources_offer, id): (_, _, _, BidId)| {
        market.execute(&Msg::CreateBid {
            id,
            price,
            deposit,
            resources_offer,
            reclamation_window: None,
        })
    };
    for (change, kind, code) in cases {
        let mut msg = base();
        change(&mut msg);
        assert_eq!(error(send(&mut market, msg)), (kind, code.to_owned()));
    }
    for bad in [&offer[..1], &offer[1..]] {
        let mut msg = base();
        msg.2 = bad.to_vec();
        let refused = (TxError::CapabilitiesMismatch, "market/32".to_owned());
        assert_eq!(error(send(&mut market, msg)), refused);
    }
    assert_eq!(market.bids().count(), 0);
    assert_eq!(balance(&market, ONE), START);
    let mut msg = base();
    msg.2 = vec![unit(2)];
    send(&mut market, msg).unwrap();
}

#[test]
fn only_registered_providers_bid() {
    let mut market = Market::new(MarketConfig::new("local", BlockTime(0)));
    market.fund(&address(TENANT), &uact(START));
    market.fund(&address(ONE), &uact(START));
    market
        .tenant(create(1, vec![spec("web", "50")], 500_000, None))
        .unwrap();
    let result = market.execute(&create_bid(&bid(&order(1, 1, 1), ONE), "1"));
    assert_eq!(error(result), (TxError::Other, "market/30".to_owned()));
}

#[test]
fn only_providers_that_match_the_order_bid() {
    let mut market = market();
    let mut wanted = spec("web", "50");
    wanted.requirements.attributes = vec![Attribute::new("region", "us-west")];
    wanted.requirements.signed_by.all_of = vec![TWO.to_owned()];
    let class = vec![
        Attribute::new("class", "beta3"),
        Attribute::new("persistent", "true"),
    ];
    wanted.resources[0].resources.storage = vec![crate::types::Storage::new("data", 1, class)];
    market.tenant(create(1, vec![wanted], 500_000, None)).unwrap();
    let bid = create_bid(&bid(&order(1, 1, 1), ONE), "1");
    let mut record = market.provider(&address(ONE)).unwrap().clone();
    let mismatch = (TxError::AttributeMismatch, "market/5".to_owned());
    assert_eq!(error(market.execute(&bid)), mismatch);
    record.attributes.push(Attribute::new("region", "us-west"));
    market.execute(&Msg::UpdateProvider(record.clone())).unwrap();
    assert_eq!(error(market.execute(&bid)), mismatch);
    let sign = TenantMsg::SignProvider {
        auditor: address(TWO),
        owner: address(ONE),
        attributes: record.attributes.clone(),
    };
    market.tenant(sign).unwrap();
    let mismatch = (TxError::CapabilitiesMismatch, "market/32".to_owned());
    assert_eq!(error(market.execute(&bid)), mismatch);
    for (key, value) in [("class", "beta3"), ("persistent", "true")] {
        let key = format!("capabilities/storage/1/{key}");
        record.attributes.push(Attribute::new(key, value));
    }
    market.execute(&Msg::UpdateProvider(record)).unwrap();
    market.execute(&bid).unwrap();
}

#[test]
fn an_order_takes_one_bid_more_than_the_limit_says() {
    let mut market = market();
    let mut params = network_params();
    params.order_max_bids = 0;
    market.set_params(params);
    market
        .tenant(create(1, vec![spec("web", "50")], 500_000, None))
        .unwrap();
    market
        .execute(&create_bid(&bid(&order(1, 1, 1), ONE), "1"))
        .unwrap();
    let second = market.execute(&create_bid(&bid(&order(1, 1, 1), TWO), "1"));
    assert_eq!(error(second).1, "market/31");
}

#[test]
fn w31_lost_bids_are_refunded_without_an_event_and_cannot_be_closed() {
    let mut market = market();
    let (won, lost) = (bid(&order(1, 1, 1), ONE), bid(&order(1, 1, 1), TWO));
    market
        .tenant(create(1, vec![spec("web", "50")], 500_000, None))
        .unwrap();
    market.execute(&create_bid(&won, "40")).unwrap();
    market.execute(&create_bid(&lost, "41.5")).unwrap();
    let events = market
        .tenant(TenantMsg::CreateLease { bid: won.clone() })
        .unwrap();
    let created = E::LeaseCreated {
        id: won.clone(),
        price: price("40"),
    };
    assert_eq!(events, [created]);
    assert_eq!(market.bid(&lost).unwrap().state, BidState::Lost);
    assert_eq!(balance(&market, TWO), START);
    assert_eq!(market.bid(&won).unwrap().state, BidState::Active);
    assert_eq!(market.order(&won.order).unwrap().state, OrderState::Active);
    let refused = market.execute(&close(&lost, CloseReason::Unspecified));
    assert_eq!(error(refused), (TxError::UnknownBid, "market/8".to_owned()));
    let late = market.tenant(TenantMsg::CreateLease { bid: lost });
    assert_eq!(error(late).1, "market/12");
    let third = bid(&won.order, TENANT);
    assert_eq!(error(market.execute(&create_bid(&third, "1"))).1, "market/2");
}

#[test]
fn a_tenants_close_of_a_lease_makes_a_new_order_at_once() {
    let mut market = market();
    let id = leased(&mut market, 1, 500_000);
    let events = market.tenant(TenantMsg::CloseLease { id: id.clone() }).unwrap();
    let reason = CloseReason::Owner;
    let expected = [
        E::LeaseClosed {
            id: id.clone(),
            reason,
        },
        E::BidClosed { id: id.clone() },
        E::OrderClosed { id: id.order.clone() },
        E::OrderCreated { id: order(1, 1, 2) },
    ];
    assert_eq!(events, expected);
    let lease = market.lease(&id).unwrap().lease;
    assert_eq!((lease.state, lease.closed_on), (LeaseState::Closed, 3));
    assert_eq!(balance(&market, ONE), START + 40);
    market
        .execute(&create_bid(&bid(&order(1, 1, 2), ONE), "40"))
        .unwrap();
}

#[test]
fn a_providers_close_of_a_lease_pauses_the_group() {
    let mut market = market();
    let id = leased(&mut market, 1, 500_000);
    let reason = CloseReason::Unstable;
    for not_ours in [CloseReason::Owner, CloseReason::InsufficientFunds] {
        assert_eq!(error(market.execute(&close(&id, not_ours))).1, "market/33");
    }
    let events = market.execute(&close(&id, reason)).unwrap();
    let expected = [
        E::GroupPaused { id: group(1, 1) },
        E::LeaseClosed {
            id: id.clone(),
            reason,
        },
        E::BidClosed { id: id.clone() },
        E::OrderClosed { id: id.order.clone() },
    ];
    assert_eq!(events, expected);
    let events = market.tenant(TenantMsg::StartGroup { id: group(1, 1) }).unwrap();
    let expected = [
        E::GroupStarted { id: group(1, 1) },
        E::OrderCreated { id: order(1, 1, 2) },
    ];
    assert_eq!(events, expected);
}

#[test]
fn pause_and_close_of_a_group_report_order_bid_and_lease() {
    for pause in [true, false] {
        let mut market = market();
        let id = leased(&mut market, 1, 500_000);
        let at = group(1, 1);
        let (msg, first, state) = if pause {
            let first = E::GroupPaused { id: at.clone() };
            (
                TenantMsg::PauseGroup { id: at.clone() },
                first,
                GroupState::Paused,
            )
        } else {
            let first = E::GroupClosed { id: at.clone() };
            (
                TenantMsg::CloseGroup { id: at.clone() },
                first,
                GroupState::Closed,
            )
        };
        let expected = [
            first,
            E::OrderClosed { id: id.order.clone() },
            E::BidClosed { id: id.clone() },
            E::LeaseClosed {
                id,
                reason: CloseReason::Owner,
            },
        ];
        assert_eq!(market.tenant(msg.clone()).unwrap(), expected);
        assert_eq!(market.group(&at).unwrap().state, state);
        assert!(market.tenant(msg).is_err());
        let start = market.tenant(TenantMsg::StartGroup { id: at });
        assert_eq!(start.is_ok(), pause);
    }
}

#[test]
fn closing_a_deployment_closes_open_bids_and_returns_the_rest() {
    let mut market = market();
    let groups = vec![spec("a", "50"), spec("b", "50")];
    let (first, second) = (bid(&order(2, 1, 1), ONE), bid(&order(2, 2, 1), TWO));
    market.tenant(create(2, groups, 500_000, None)).unwrap();
    market.execute(&create_bid(&first, "10")).unwrap();
    market.execute(&create_bid(&second, "20")).unwrap();
    market
        .tenant(TenantMsg::CreateLease { bid: first.clone() })
        .unwrap();
    market.end_block(BLOCK);
    let id = deployment(2);
    let events = market
        .tenant(TenantMsg::CloseDeployment { id: id.clone() })
        .unwrap();
    let reason = CloseReason::Owner;
    let expected = [
        E::DeploymentClosed { id: id.clone() },
        E::GroupClosed { id: group(2, 1) },
        E::OrderClosed { id: order(2, 1, 1) },
        E::BidClosed { id: first.clone() },
        E::LeaseClosed { id: first, reason },
        E::GroupClosed { id: group(2, 2) },
        E::OrderClosed { id: order(2, 2, 1) },
        E::BidClosed { id: second },
    ];
    assert_eq!(events, expected);
    assert_eq!(balance(&market, ONE), START + 10);
    assert_eq!(balance(&market, TENANT), START - 10);
    let snapshot = market.snapshot(&address(ONE));
    assert!(snapshot.orders.is_empty() && snapshot.bids.is_empty() && snapshot.leases.is_empty());
    assert!(
        market
            .tenant(TenantMsg::UpdateDeployment { id, hash: [2; 32] })
            .is_err()
    );
}

#[test]
fn an_overdrawn_account_closes_everything_in_the_transaction_that_notices_it() {
    let mut market = market();
    let id = bid(&order(1, 1, 1), ONE);
    let most = "99999.999999999991611392";
    market
        .tenant(create(1, vec![spec("web", "99999")], 500_000, None))
        .unwrap();
    market.execute(&create_bid(&id, most)).unwrap();
    market.tenant(TenantMsg::CreateLease { bid: id.clone() }).unwrap();
    for _ in 0..10 {
        market.end_block(BLOCK);
    }
    // The funds are exhausted without an event until a transaction detects it.
    let before = market.deployment(id.deployment()).unwrap();
    assert!(before.deployment.active);
    assert_eq!(before.escrow.settled_at, 2);
    let events = market.execute(&Msg::WithdrawLease { id: id.clone() }).unwrap();
    let reason = CloseReason::InsufficientFunds;
    let expected = [
        E::DeploymentClosed { id: deployment(1) },
        E::GroupClosed { id: group(1, 1) },
        E::OrderClosed { id: id.order.clone() },
        E::BidClosed { id: id.clone() },
        E::LeaseClosed {
            id: id.clone(),
            reason,
        },
    ];
    assert_eq!(events, expected);
    let record = market.lease(&id).unwrap();
    assert_eq!(record.lease.state, LeaseState::InsufficientFunds);
    assert_eq!(record.lease.closed_on, 12);
    assert_eq!(record.payment.unwrap().withdrawn.amount, 500_000);
    assert_eq!(
        market.group(&group(1, 1)).unwrap().state,
        GroupState::InsufficientFunds
    );
    let escrow = market.deployment(id.deployment()).unwrap().escrow;
    // Missing funds are counted in whole units, as recorded.
    assert_eq!(escrow.funds["uact"].to_plain(), "-499999");
    assert_eq!(balance(&market, ONE), START + 500_000);
}

#[test]
fn remaining_funds_are_split_by_rate() {
    let mut market = market();
    let groups = vec![spec("a", "200000"), spec("b", "200000")];
    market.tenant(create(1, groups, 500_000, None)).unwrap();
    let (one, two) = (bid(&order(1, 1, 1), ONE), bid(&order(1, 2, 1), TWO));
    for (id, most) in [(&one, "100000"), (&two, "300000")] {
        market.execute(&create_bid(id, most)).unwrap();
        market.tenant(TenantMsg::CreateLease { bid: id.clone() }).unwrap();
    }
    market.end_block(BLOCK);
    market.end_block(BLOCK);
    market.execute(&Msg::WithdrawLease { id: one }).unwrap();
    // One block for both (400000), then 25000 and 75000 of the rest.
    assert_eq!(balance(&market, ONE), START + 125_000);
    assert_eq!(balance(&market, TWO), START + 375_000);
    assert_eq!(balance(&market, TENANT), START - 500_000);
}

#[test]
fn the_second_withdrawal_of_a_deployment_in_a_block_fails_with_its_whole_transaction() {
    let mut market = market();
    let groups = vec![spec("a", "50"), spec("b", "50")];
    market.tenant(create(1, groups, 500_000, None)).unwrap();
    let ids = [1, 2].map(|gseq| bid(&order(1, gseq, 1), ONE));
    for id in &ids {
        market.execute(&create_bid(id, "40")).unwrap();
        market.tenant(TenantMsg::CreateLease { bid: id.clone() }).unwrap();
    }
    market.end_block(BLOCK);
    let [first, second] = ids.map(|id| Msg::WithdrawLease { id });
    let paid_in = START - 1_000_000;
    let both = market.transaction(&[first.clone(), second.clone()]);
    assert_eq!(error(both).1, "undefined/111222");
    assert_eq!(balance(&market, ONE), paid_in);
    assert_eq!(market.execute(&first), Ok(vec![]));
    assert_eq!(balance(&market, ONE), paid_in + 40);
    assert_eq!(error(market.execute(&second)).1, "undefined/111222");
    market.end_block(BLOCK);
    market.execute(&second).unwrap();
    assert_eq!(balance(&market, ONE), paid_in + 40 + 80);
}

#[test]
fn reclamation_is_announced_and_closes_only_after_its_deadline() {
    let mut market = market();
    let id = bid(&order(3, 1, 1), ONE);
    market
        .tenant(create(3, vec![spec("web", "50")], 500_000, Some(2 * HOUR)))
        .unwrap();
    let with = |window| Msg::CreateBid {
        id: id.clone(),
        price: price("40"),
        deposit: uact(500_000),
        resources_offer: Vec::new(),
        reclamation_window: window,
    };
    for (window, code) in [
        (None, "market/40"),
        (Some(HOUR), "market/41"),
        (Some(721 * HOUR), "market/39"),
    ] {
        let refused = (TxError::Reclamation, code.to_owned());
        assert_eq!(error(market.execute(&with(window))), refused);
    }
    market.execute(&with(Some(2 * HOUR))).unwrap();
    market.tenant(TenantMsg::CreateLease { bid: id.clone() }).unwrap();
    let reason = CloseReason::Decommission;
    let early = market.execute(&close(&id, reason));
    assert_eq!(error(early), (TxError::ReclaimNotStarted, "market/37".to_owned()));
    let start = Msg::StartReclaim {
        id: id.clone(),
        reason,
    };
    let deadline = market.time().plus(2 * HOUR);
    let started = E::LeaseReclaimStarted {
        id: id.clone(),
        reason,
        deadline,
    };
    assert_eq!(market.execute(&start).unwrap(), [started]);
    assert_eq!(error(market.execute(&start)).0, TxError::AlreadyReclaiming);
    market.end_block(2 * HOUR - Duration::from_millis(1));
    market.execute(&Msg::WithdrawLease { id: id.clone() }).unwrap();
    let early = market.execute(&close(&id, reason));
    assert_eq!(error(early), (TxError::WindowNotElapsed, "market/38".to_owned()));
    assert_eq!(
        market.snapshot(&address(ONE)).leases[0].lease.state,
        LeaseState::Reclaiming
    );
    market.end_block(Duration::from_millis(1));
    assert_eq!(market.execute(&close(&id, reason)).unwrap().len(), 4);
}

#[test]
fn a_lease_without_terms_cannot_be_reclaimed() {
    let mut market = market();
    let id = leased(&mut market, 1, 500_000);
    let reason = CloseReason::Decommission;
    let start = market.execute(&Msg::StartReclaim { id, reason });
    assert_eq!(error(start).1, "market/35");
}

#[test]
fn a_deposit_in_time_saves_a_deployment() {
    let mut market = market();
    let id = leased(&mut market, 1, 500_000);
    for _ in 0..20_000 {
        market.end_block(BLOCK);
    }
    let coin = uact(1_000_000);
    let deployment = id.deployment().clone();
    let events = market.tenant(TenantMsg::Deposit { deployment, coin }).unwrap();
    assert_eq!(events, []);
    assert!(market.lease(&id).unwrap().lease.state.is_live());
}

#[test]
fn snapshots_hold_old_bids_on_open_orders_and_live_ones() {
    let mut market = market();
    let active = leased(&mut market, 1, 500_000);
    market
        .tenant(create(2, vec![spec("web", "50")], 500_000, None))
        .unwrap();
    let closed = bid(&order(2, 1, 1), ONE);
    market.execute(&create_bid(&closed, "1")).unwrap();
    market.execute(&close(&closed, CloseReason::Unspecified)).unwrap();
    market.end_block(BLOCK);
    let snapshot = market.snapshot(&address(ONE));
    assert_eq!((snapshot.height, snapshot.time), (3, BlockTime(12_000)));
    let ids: Vec<_> = snapshot.bids.iter().map(|b| (&b.id, b.state)).collect();
    assert_eq!(ids, [(&closed, BidState::Closed), (&active, BidState::Active)]);
    assert_eq!(snapshot.orders.len(), 1);
    assert_eq!(snapshot.deployments[0].leases[0].id, active);
    assert_eq!(snapshot.block_time(2), BlockTime(6_000));
    assert!(market.snapshot(&address(TWO)).bids.is_empty());
}

#[test]
fn no_funds_are_created_or_lost() {
    let mut market = market();
    let total = all_money(&market);
    let check = |market: &Market, what: &str| assert_eq!(all_money(market), total, "{what}");
    let a = leased(&mut market, 1, 500_000);
    check(&market, "leased");
    let b = leased(&mut market, 2, 600_000);
    for _ in 0..7 {
        market.end_block(BLOCK);
    }
    market.execute(&Msg::WithdrawLease { id: a.clone() }).unwrap();
    check(&market, "withdrawn");
    market.execute(&close(&a, CloseReason::Unstable)).unwrap();
    check(&market, "closed by the provider");
    let id = deployment(1);
    market.tenant(TenantMsg::CloseDeployment { id }).unwrap();
    check(&market, "deployment closed");
    for _ in 0..20_000 {
        market.end_block(BLOCK);
    }
    market.tenant(TenantMsg::CloseLease { id: b }).unwrap();
    check(&market, "overdrawn");
    assert!(market.snapshot(&address(ONE)).orders.is_empty());
}

#[test]
fn audits_are_added_and_removed() {
    let mut market = market();
    let (auditor, owner) = (address(TWO), address(ONE));
    let attributes = vec![Attribute::new("region", "us-west")];
    let sign = TenantMsg::SignProvider {
        auditor: auditor.clone(),
        owner: owner.clone(),
        attributes: attributes.clone(),
    };
    let changed = || E::AuditChanged {
        auditor: auditor.clone(),
        owner: owner.clone(),
    };
    assert_eq!(market.tenant(sign).unwrap(), [changed()]);
    let audit = market.auditor_attributes(TWO, &owner).unwrap();
    assert_eq!(audit.attributes, attributes);
    let unsign = TenantMsg::UnsignProvider {
        auditor: auditor.clone(),
        owner: owner.clone(),
    };
    assert_eq!(market.tenant(unsign.clone()).unwrap(), [changed()]);
    assert_eq!(market.audits(&owner), []);
    assert!(market.tenant(unsign).is_err());
}

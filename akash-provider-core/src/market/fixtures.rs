//! Compares the events of the market with events recorded from a real chain, per transaction.

use super::tests::{BLOCK, ONE, TWO};
use super::tests::{bid, close, create, create_bid, deployment, group, leased, market, order, spec};
use super::{Market, TenantMsg};
use crate::types::{ChainEvent, CloseReason, Msg};
use testbed::recordings;

/// Returns the name that the chain uses for an event.
fn name(event: &ChainEvent) -> String {
    let variant = format!("{event:?}");
    let end = variant.find(|letter: char| !letter.is_alphanumeric());
    variant[..end.unwrap_or(variant.len())].to_owned()
}

fn leased_then(act: impl FnOnce(&mut Market) -> Vec<ChainEvent>) -> Vec<ChainEvent> {
    let mut market = market();
    leased(&mut market, 1, 500_000);
    act(&mut market)
}

fn tenant(msg: TenantMsg) -> Vec<ChainEvent> {
    leased_then(|m| m.tenant(msg).unwrap())
}

fn two_bids(won: bool) -> Vec<ChainEvent> {
    let mut market = market();
    market
        .tenant(create(1, vec![spec("web", "50")], 500_000, None))
        .unwrap();
    let ids = [ONE, TWO].map(|provider| bid(&order(1, 1, 1), provider));
    market.execute(&create_bid(&ids[0], "40")).unwrap();
    if !won {
        let id = deployment(1);
        return market.tenant(TenantMsg::CloseDeployment { id }).unwrap();
    }
    market.execute(&create_bid(&ids[1], "41.5")).unwrap();
    let [bid, _] = ids;
    market.tenant(TenantMsg::CreateLease { bid }).unwrap()
}

fn overdrawn() -> Vec<ChainEvent> {
    leased_then(|market| {
        for _ in 0..20_000 {
            market.end_block(BLOCK);
        }
        let id = bid(&order(1, 1, 1), ONE);
        market.execute(&Msg::WithdrawLease { id }).unwrap()
    })
}

fn scenarios() -> Vec<(&'static str, Vec<ChainEvent>)> {
    let lease = bid(&order(1, 1, 1), ONE);
    let at = group(1, 1);
    let unstable = close(&lease, CloseReason::Unstable);
    let paused = leased_then(|m| {
        m.tenant(TenantMsg::PauseGroup { id: at.clone() }).unwrap();
        m.tenant(TenantMsg::StartGroup { id: at.clone() }).unwrap()
    });
    let two = vec![spec("a", "5"), spec("b", "5")];
    vec![
        (
            "deployment-create-two-groups",
            market().tenant(create(1, two, 500_000, None)).unwrap(),
        ),
        ("lease-create", two_bids(true)),
        ("deployment-close-open-bids", two_bids(false)),
        ("group-pause", tenant(TenantMsg::PauseGroup { id: at.clone() })),
        ("group-start", paused),
        ("group-close", tenant(TenantMsg::CloseGroup { id: at })),
        (
            "lease-close-by-owner",
            tenant(TenantMsg::CloseLease { id: lease }),
        ),
        (
            "bid-close-active-unstable",
            leased_then(|m| m.execute(&unstable).unwrap()),
        ),
        (
            "deployment-close-active-lease",
            tenant(TenantMsg::CloseDeployment { id: deployment(1) }),
        ),
        ("lease-withdraw-overdrawn", overdrawn()),
    ]
}

#[test]
fn events_have_the_order_of_a_real_chain() {
    let folder = recordings::folder("chain/rpc");
    for (transaction, events) in scenarios() {
        let block = recordings::json(&folder.join(format!("block_results-{transaction}.json")));
        let block = block.get("result").unwrap_or(&block);
        let results = block["txs_results"].as_array().unwrap();
        let recorded = results.iter().flat_map(|r| r["events"].as_array().unwrap());
        let types = recorded.filter_map(|e| e["type"].as_str());
        let akash = types.filter(|t| t.starts_with("akash."));
        let recorded: Vec<_> = akash.filter_map(|t| t.split(".Event").nth(1)).collect();
        let ours: Vec<_> = events.iter().map(name).collect();
        assert!(!ours.is_empty(), "{transaction}");
        assert_eq!(ours, recorded, "{transaction}");
    }
}

//! The order history: a won, a lost and two declined orders, read from the running and from the stopped provider.

use crate::run::served::Served;
use crate::stage::{ADDRESS, Stage, TENANT, until};
use akash_provider_core::types::{
    Address, BidId, BidState, DecCoin, DeploymentId, MarketParams, Msg, ProviderRecord,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::time::Duration;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
const WEB: &str = include_str!("../../../samples/web.yaml");
const STORAGE: &str = "storage: { size: 1Gi }";
/// GPU request to insert after `STORAGE` in the SDL.
const GPU: &str = "\n        gpu: { units: 1, attributes: { vendor: { nvidia: [{ model: a100 }] } } }";
/// Price of the other provider, below the price of the tested provider.
const OTHER_PRICE: &str = "0.5";

fn object(stage: &Stage, words: &[&str]) -> Value {
    let (code, stdout, problem) = stage.ran(&[words, &["-o", "json"]].concat());
    assert_eq!(code, 0, "{stdout}{problem}");
    serde_json::from_str(&stdout).unwrap()
}

/// Bids as another provider.
fn other_bid(stage: &Stage, deployment: &DeploymentId) -> BidId {
    let provider = Address::from_bytes(&[9; 20]).unwrap();
    stage.chain.market(|market| {
        market.fund(&provider, &"900000000uact".parse().unwrap());
        let record = ProviderRecord {
            owner: provider.clone(),
            host_uri: "https://provider.example:8443".to_owned(),
            attributes: Vec::new(),
            info: Default::default(),
        };
        market.execute(&Msg::CreateProvider(record)).unwrap();
        let order = market
            .orders()
            .find(|o| o.id.deployment() == deployment)
            .unwrap()
            .clone();
        let id = order.id.clone().bid(provider);
        let bid = Msg::CreateBid {
            id: id.clone(),
            price: DecCoin::new(&"uact".into(), OTHER_PRICE.parse().unwrap()),
            deposit: "500000uact".parse().unwrap(),
            resources_offer: order.spec.resources.clone(),
            reclamation_window: None,
        };
        market.execute(&bid).unwrap();
        id
    })
}

/// Waits for the provider's bid on a new order, then lets the other provider win.
fn lose(served: &Served, dseq: u64) {
    let stage = &served.stage;
    let id = stage.order_of(&TENANT.parse().unwrap(), dseq);
    let is_open = || stage.bids(&id).iter().any(|bid| bid.state == BidState::Open);
    until("a bid", || served.provider.dump(), is_open);
    served.until("the bid is recorded", || {
        let orders = object(stage, &["order", &dseq.to_string()]);
        orders["orders"][0]["steps"].to_string().contains("bid_placed")
    });
    let bid = other_bid(stage, &id);
    stage.accept(bid);
}

fn outcomes(stage: &Stage) -> Vec<(u64, String)> {
    let listed = object(stage, &["orders"]);
    assert_eq!(listed["dropped"], json!(0));
    let orders = listed["orders"].as_array().unwrap().iter();
    let mut outcomes: Vec<(u64, String)> = orders
        .map(|order| {
            let dseq = order["order"]
                .as_str()
                .unwrap()
                .split('/')
                .nth(1)
                .unwrap()
                .parse()
                .unwrap();
            (dseq, order["outcome"].as_str().unwrap().to_owned())
        })
        .collect();
    outcomes.sort();
    outcomes
}

fn expected() -> Vec<(u64, String)> {
    [(9, "won"), (20, "lost"), (21, "declined"), (22, "declined")]
        .map(|(dseq, outcome)| (dseq, outcome.to_owned()))
        .into()
}

/// Returns the reduction from `price` to `OTHER_PRICE`, in percent.
fn percent(price: &str) -> String {
    let lower: f64 = OTHER_PRICE.parse().unwrap();
    let price: f64 = price.parse().unwrap();
    // Rounded up to hundredths, so that the named reduction suffices.
    let percent = ((price - lower) / price * 10_000.0).ceil() / 100.0;
    format!("{percent} %")
}

fn check(stage: &Stage) {
    let lost = object(stage, &["order", "20"])["orders"][0].clone();
    let winner: f64 = lost["winner"]["price"]["amount"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(Some(winner), OTHER_PRICE.parse().ok());
    let (_, timeline, _) = stage.ran(&["order", "20"]);
    let provider = Address::from_bytes(&[9; 20]).unwrap();
    assert!(
        timeline.contains(&format!("winner:    {OTHER_PRICE}uact per block, {provider}")),
        "{timeline}"
    );
    let summary = object(stage, &["summary"])["summary"].clone();
    let counts = ["won", "lost", "declined"].map(|outcome| summary["outcomes"][outcome].as_u64());
    assert_eq!(counts, [Some(1), Some(1), Some(2)], "{summary}");
    let changes = summary["changes"].as_array().unwrap();
    let texts: Vec<&str> = changes
        .iter()
        .map(|change| change["text"].as_str().unwrap())
        .collect();
    // One order for each cause: a lower winner, a lower maximum of the tenant, and a GPU.
    assert_eq!(texts.len(), 3, "{texts:?}");
    let reduction = percent(lost["price"]["amount"].as_str().unwrap());
    assert!(
        texts.iter().any(|text| text.contains(&reduction)),
        "{reduction} {texts:?}"
    );
    let (code, text, _) = stage.ran(&["order", "12345"]);
    assert!(code == 1 && text.contains("no record of this order"), "{text}");
}

#[test]
fn history_shows_each_order_while_the_provider_runs_and_after_it_stopped() {
    let mut served = Served::start("orders", FAST, &[]);
    let tenant: Address = TENANT.parse().unwrap();
    lose(&served, 20);
    served
        .stage
        .order_from(&tenant, 21, &WEB.replace("amount: 100 ", "amount: 0.1 "));
    served
        .stage
        .order_from(&tenant, 22, &WEB.replace(STORAGE, &format!("{STORAGE}{GPU}")));
    served.until("all outcomes", || outcomes(&served.stage) == expected());
    check(&served.stage);
    served.provider.signal(Signal::SIGTERM);
    assert_eq!(served.provider.ended(), Some(0), "{}", served.provider.dump());
    assert_eq!(outcomes(&served.stage), expected());
    check(&served.stage);
}

#[test]
fn order_with_more_bids_than_the_chain_accepts_is_declined() {
    let stage = Stage::new("full", true);
    stage.chain.market(|market| {
        let params = MarketParams {
            order_max_bids: 0,
            ..market.params().clone()
        };
        market.set_params(params);
    });
    let served = Served::on(stage, None, &[]);
    let stage = &served.stage;
    // No block is created until both exist, so the provider sees the order together with the bid.
    let id = stage.order_of(&TENANT.parse().unwrap(), 30);
    other_bid(stage, &id);
    let listed = || object(stage, &["orders", "--code", "order_full"])["orders"].clone();
    served.until("the decline is recorded", || listed() != json!([]));
    let text = listed().to_string();
    assert!(text.contains("the order already has 1 bids or more"), "{text}");
    let own = stage
        .bids(&id)
        .iter()
        .filter(|bid| bid.id.provider.as_str() == ADDRESS)
        .count();
    assert_eq!(own, 0);
}

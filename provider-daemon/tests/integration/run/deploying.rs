//! Deployments with transactions only: order, lease, deposit, update, close.

use crate::stage::{ADDRESS, Stage, TENANT, until};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl;
use akash_provider_core::types::{
    Address, BidId, BidState, CloseReason, Dec, DeploymentId, LeaseState, Msg, OrderId, ProviderRecord,
};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

const SDL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");
const FAST: Option<Duration> = Some(Duration::from_millis(100));

fn order(dseq: u64, gseq: u32) -> OrderId {
    let owner = ADDRESS.parse().unwrap();
    let deployment = DeploymentId::new(owner, dseq);
    deployment.group(gseq).order(1)
}

/// Registers the provider and bids `percent` percent of the order's maximum price.
fn bid(stage: &Stage, provider: &Address, order: &OrderId, percent: i128) -> BidId {
    let id = order.clone().bid(provider.clone());
    stage.chain.market(|market| {
        if market.provider(provider).is_none() {
            let coin = "900000000uact".parse().unwrap();
            market.fund(provider, &coin);
            let record = ProviderRecord {
                owner: provider.clone(),
                host_uri: "https://provider.example:8443".to_owned(),
                attributes: Vec::new(),
                info: Default::default(),
            };
            market.execute(&Msg::CreateProvider(record)).unwrap();
        }
        let spec = market.orders().find(|o| o.id == *order).unwrap().spec.clone();
        let mut price = spec.max_price().unwrap();
        let part = price.amount.scaled() * percent / 100;
        price.amount = Dec::from_scaled(part);
        let create = Msg::CreateBid {
            id: id.clone(),
            price,
            deposit: "500000uact".parse().unwrap(),
            resources_offer: spec.resources.clone(),
            reclamation_window: None,
        };
        market.execute(&create).unwrap();
    });
    mined(stage, 1);
    id
}

/// Waits for blocks. A node serves the state of complete blocks.
fn mined(stage: &Stage, blocks: u64) {
    let height = || stage.chain.market(|market| market.height());
    let before = height();
    until("blocks", String::new, || height() >= before + blocks);
}

fn good(stage: &Stage, args: &[&str]) -> (Value, String) {
    let (code, out, err) = stage.ran(&[args, &["--yes"]].concat());
    assert_eq!(code, 0, "{args:?}\n{out}\n{err}");
    (serde_json::from_str(&out).unwrap_or_default(), err)
}

#[track_caller]
fn refused(stage: &Stage, args: &[&str], parts: &[&str]) {
    let (code, out, err) = stage.ran(&[args, &["--yes"]].concat());
    assert!(code == 1 && out.is_empty(), "{args:?}: {code} {out}{err}");
    for part in parts {
        assert!(err.contains(part), "{args:?}: no `{part}` in {err}");
    }
}

fn changed(stage: &Stage, from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(SDL).unwrap().replace(from, to);
    let path = stage.path("changed.yaml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn served_by(stage: &Stage) -> Vec<Address> {
    stage.chain.market(|market| {
        let live = market.leases().filter(|l| l.lease.state == LeaseState::Active);
        live.map(|l| l.lease.id.provider).collect()
    })
}

#[test]
fn tenant_deploys_pays_updates_and_closes_by_transactions() {
    let mut stage = Stage::new("deploying", false);
    stage.start_node(FAST);
    let (_, stderr) = good(&stage, &["tx", "deployment", "create", SDL, "--dseq", "7"]);
    assert!(
        stderr.contains("with a deposit of 500000uact") && stderr.contains("tx market lease create --dseq 7")
    );
    let order = order(7, 1);
    let record = || stage.chain.market(|m| m.deployment(order.deployment()).unwrap());
    assert_eq!(record().groups.len(), 1);
    let funds = |denom: &str| record().escrow.funds.get(denom).map(ToString::to_string);
    assert_eq!(funds("uact").as_deref(), Some("500000.000000000000000000"));

    // The cheapest bid is taken. The command waits for a missing bid.
    let lease = ["tx", "market", "lease", "create", "--dseq", "7"];
    refused(&stage, &lease, &["7/1/1 has no open bid yet", "--wait"]);
    let dear = Address::from_bytes(&[9; 20]).unwrap();
    let mut waiting = stage.command(&[&lease[..], &["--wait=1m", "--yes"]].concat());
    let waiting = waiting
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    bid(&stage, &dear, &order, 90);
    let ended = waiting.wait_with_output().unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    assert_eq!(served_by(&stage), [dear]);
    refused(
        &stage,
        &lease,
        &[
            "has no open order that matches --gseq and --oseq",
            "send-manifest",
        ],
    );

    good(
        &stage,
        &["tx", "escrow", "deposit", "deployment", "3000000uact", "--dseq=7"],
    );
    assert!(record().escrow.funds["uact"] > Dec::from_scaled(3_000_000 * 10_i128.pow(18)));
    let before = record().deployment.hash;
    let update = changed(&stage, "nginx:1.27", "nginx:1.28");
    let update = ["tx", "deployment", "update", &update, "--dseq", "7"];
    let (_, stderr) = good(&stage, &update);
    assert!(stderr.contains("send-manifest"), "{stderr}");
    assert_ne!(record().deployment.hash, before);
    let (_, stderr) = good(&stage, &update);
    assert!(stderr.contains("has the manifest of"), "{stderr}");
    good(&stage, &["tx", "deployment", "close", "--dseq", "7"]);
    assert!(!record().deployment.active && served_by(&stage).is_empty());
    let (_, stderr) = good(&stage, &["tx", "deployment", "close", "--dseq", "7"]);
    assert!(stderr.contains("already closed"), "{stderr}");
}

#[test]
fn lease_is_closed_by_its_tenant() {
    let mut stage = Stage::new("closing", false);
    stage.start_node(FAST);
    good(&stage, &["tx", "deployment", "create", SDL, "--dseq=8"]);
    let provider = Address::from_bytes(&[9; 20]).unwrap();
    bid(&stage, &provider, &order(8, 1), 90);
    good(&stage, &["tx", "market", "lease", "create", "--dseq=8"]);
    let close = ["tx", "market", "lease", "close", "--dseq=8"];
    refused(&stage, &close, &["missing --provider", "query market lease list"]);
    let named = format!("--provider={provider}");
    let absent = [&close[..], &[&named, "--gseq=2"]].concat();
    refused(&stage, &absent, &["no lease", "8/2/1", "on the chain"]);
    let close = [&close[..], &[&named]].concat();
    good(&stage, &close);
    assert!(served_by(&stage).is_empty());
    let (_, stderr) = good(&stage, &close);
    assert!(
        stderr.contains("is already closed, no transaction sent"),
        "{stderr}"
    );
}

/// Creates a deployment of another tenant, and returns its order.
fn order_of_tenant(stage: &Stage) -> OrderId {
    let mut order = order(8, 1);
    let id = &mut order.group.deployment;
    id.owner = TENANT.parse().unwrap();
    let sdl = sdl::parse(&std::fs::read_to_string(SDL).unwrap()).unwrap();
    stage.chain.market(|market| {
        market.fund(&id.owner, &"900000000uact".parse().unwrap());
        let deposit = "5000000uact".parse().unwrap();
        let create = TenantMsg::create_deployment(id.clone(), &sdl, deposit);
        market.tenant(create).unwrap();
    });
    order
}

#[test]
fn bid_is_closed_and_lease_settled_by_its_provider() {
    let mut stage = Stage::new("settling", false);
    stage.start_node(FAST);
    let lease = bid(&stage, &ADDRESS.parse().unwrap(), &order_of_tenant(&stage), 90);
    let owner = format!("--owner={TENANT}");
    let closing = ["tx", "market", "bid", "close", &owner, "--dseq=8"];
    let other = format!("--provider={TENANT}");
    refused(
        &stage,
        &[&closing[..], &[&other]].concat(),
        &["differs from the account of the key"],
    );
    let reason = [&closing[..], &["--reason=9999"]].concat();
    let (code, _, err) = stage.ran(&reason);
    assert!(
        code == 2 && err.contains("9999 is not in 10000..20000"),
        "{code} {err}"
    );
    let state = || stage.chain.market(|market| market.bid(&lease).unwrap().state);
    assert_eq!(state(), BidState::Open);
    let create = TenantMsg::CreateLease { bid: lease.clone() };
    stage.chain.market(|market| market.tenant(create).unwrap());
    mined(&stage, 3);
    let withdrawn = || {
        let record = stage.chain.market(|market| market.lease(&lease).unwrap());
        record.payment.unwrap().withdrawn.amount
    };
    let withdraw = ["tx", "market", "lease", "withdraw", &owner, "--dseq=8"];
    let before = withdrawn();
    good(&stage, &withdraw);
    assert!(withdrawn() > before);
    let (_, stderr) = good(&stage, &[&closing[..], &["--reason=10001"]].concat());
    assert!(
        stderr.contains("won the order: closing the bid closes the lease"),
        "{stderr}"
    );
    assert_eq!(state(), BidState::Closed);
    let closed = stage.chain.market(|market| market.lease(&lease).unwrap().lease);
    assert_eq!(
        (closed.state, closed.reason),
        (LeaseState::Closed, Some(CloseReason::Decommission))
    );
    for again in [&withdraw, &closing] {
        let (_, stderr) = good(&stage, again);
        assert!(
            stderr.contains("is already closed, no transaction sent"),
            "{stderr}"
        );
    }
}

#[test]
fn deployment_gets_a_number_and_cheapest_bid_is_taken() {
    let mut stage = Stage::new("cheaper", false);
    stage.start_node(FAST);
    let (answer, stderr) = good(
        &stage,
        &["tx", "deployment", "create", SDL, "--deposit=2000000uact"],
    );
    assert_eq!(answer["code"], 0);
    let dseq: u64 = stderr
        .split("--dseq ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let order = order(dseq, 1);
    let (dear, cheap) = (Address::from_bytes(&[9; 20]).unwrap(), TENANT.parse().unwrap());
    bid(&stage, &dear, &order, 90);
    bid(&stage, &cheap, &order, 50);
    good(
        &stage,
        &["tx", "market", "lease", "create", "--dseq", &dseq.to_string()],
    );
    assert_eq!(served_by(&stage), [cheap]);
}

#[test]
fn every_sample_can_be_deployed_and_updated() {
    let mut stage = Stage::new("samples", false);
    stage.start_node(FAST);
    for (dseq, name) in [(1, "shop"), (2, "gpu"), (3, "ports"), (4, "two-regions")] {
        let sdl = SDL.replace("web.yaml", &format!("{name}.yaml"));
        let dseq = dseq.to_string();
        good(&stage, &["tx", "deployment", "create", &sdl, "--dseq", &dseq]);
        let (_, stderr) = good(&stage, &["tx", "deployment", "update", &sdl, "--dseq", &dseq]);
        assert!(stderr.contains("has the manifest of"), "{name}: {stderr}");
    }
}

#[test]
fn invalid_deployment_is_reported_with_location_and_remedy_and_not_sent() {
    let mut stage = Stage::new("wrong", false);
    stage.start_node(FAST);
    let create = ["tx", "deployment", "create", SDL, "--dseq=3"];
    let with = |more: &[&'static str]| [&create[..], more].concat();
    refused(
        &stage,
        &with(&["--deposit=5000000uakt"]),
        &["web.yaml", "uact", "use --deposit 5000000uact"],
    );
    refused(
        &stage,
        &with(&["--deposit=4uact"]),
        &["--deposit 4uact", "minimum of the chain, 500000uact"],
    );
    refused(
        &stage,
        &with(&["--deposit=9000000000000000uact"]),
        &[ADDRESS, "has 1000000000000uact", "add funds"],
    );
    refused(
        &stage,
        &with(&["--owner", TENANT]),
        &["--owner", TENANT, "--from"],
    );
    let foreign = changed(&stage, "uact", "uluna");
    let args = ["tx", "deployment", "create", &foreign];
    refused(&stage, &args, &["no deposits in uluna", "uakt, uact"]);
    refused(
        &stage,
        &["tx", "deployment", "create", "/nowhere.yaml"],
        &["/nowhere.yaml"],
    );
    let (_, _, stderr) = stage.ran(&with(&["--deposit=5"]));
    assert!(
        stderr.contains("--deposit") && stderr.contains("such as 5000000uact"),
        "{stderr}"
    );
    good(&stage, &create);
    refused(&stage, &create, &["/3 exists", "--dseq"]);

    let other = changed(&stage, "500m", "600m");
    let update = ["tx", "deployment", "update", &other, "--dseq"];
    let of = |dseq: &'static str| [&update[..], &[dseq]].concat();
    refused(
        &stage,
        &of("3"),
        &["changed.yaml", "group `anywhere`", "create a new one"],
    );
    refused(
        &stage,
        &of("4"),
        &["/4 on the chain", "query deployment list --owner"],
    );
    refused(
        &stage,
        &["tx", "deployment", "close", "--dseq=4"],
        &["/4 on the chain"],
    );
}

#[test]
fn invalid_deposits_and_leases_are_reported_with_remedy_and_not_sent() {
    let mut stage = Stage::new("unpaid", false);
    stage.start_node(FAST);
    good(&stage, &["tx", "deployment", "create", SDL, "--dseq=3"]);
    let deposit = ["tx", "escrow", "deposit", "deployment"];
    let of = |coin: &'static str, dseq: &'static str| [&deposit[..], &[coin, "--dseq", dseq]].concat();
    refused(&stage, &of("5uact", "4"), &["/4 on the chain"]);
    refused(
        &stage,
        &of("9000000000000000uact", "3"),
        &["has 999999500000uact", "smaller"],
    );

    let lease = ["tx", "market", "lease", "create", "--dseq"];
    let of = |more: &[&'static str]| [&lease[..], more].concat();
    refused(&stage, &of(&["4"]), &["/4 on the chain"]);
    refused(
        &stage,
        &of(&["3", "--gseq=2"]),
        &["has no open order that matches --gseq and --oseq", "query orders"],
    );
    refused(&stage, &of(&["3", "--wait=1s"]), &["no open bid yet after 1s"]);
    let provider = Address::from_bytes(&[9; 20]).unwrap();
    bid(&stage, &provider, &order(3, 1), 90);
    let named = of(&["3", "--provider", TENANT]);
    refused(&stage, &named, &["no open bid of", provider.as_str()]);
    good(&stage, &["tx", "deployment", "close", "--dseq=3"]);
    for args in [of(&["3"]), [&deposit[..], &["5uact", "--dseq=3"]].concat()] {
        refused(&stage, &args, &["/3 is closed", "tx deployment create"]);
    }
}

#[test]
fn transactions_of_a_tenant_are_printed_without_a_node() {
    let stage = Stage::new("printed", false);
    let of = |args: &[&str]| stage.ran(&[&["tx"], args, &["--offline", "--generate-only"]].concat());
    let message = |args: &[&str]| {
        let (code, out, err) = of(args);
        assert_eq!(code, 0, "{err}");
        let printed: Value = serde_json::from_str(&out).unwrap();
        printed["body"]["messages"][0].clone()
    };
    let created = message(&["deployment", "create", SDL, "--dseq=3", "--deposit=500000uact"]);
    assert_eq!(created["@type"], "/akash.deployment.v1beta4.MsgCreateDeployment");
    assert_eq!(created["id"]["owner"], ADDRESS);
    assert_eq!(created["deposit"]["sources"], serde_json::json!(["balance"]));
    let leased = message(&["market", "lease", "create", "--dseq=3", "--provider", TENANT]);
    assert_eq!(leased["bid_id"]["provider"], TENANT);
    assert_eq!(
        (&leased["bid_id"]["gseq"], &leased["bid_id"]["oseq"]),
        (&1.into(), &1.into())
    );
    let paid = message(&["escrow", "deposit", "deployment", "5uact", "--dseq=3"]);
    assert_eq!(paid["id"]["xid"], format!("{ADDRESS}/3"));
    for (args, mend) in [
        (
            &["deployment", "create", SDL, "--deposit=500000uact"][..],
            "--dseq",
        ),
        (&["deployment", "create", SDL, "--dseq=3"], "--deposit"),
        (&["market", "lease", "create", "--dseq=3"], "--provider"),
    ] {
        let (code, _, err) = of(args);
        assert!(code == 1 && err.contains(mend), "{err}");
    }
}

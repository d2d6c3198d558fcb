//! The gateway, `explain` and the bids of a running provider have the same reason for each kind of decline.

use super::screening::{FailingPrices, detailed, group, screen, validate};
use super::world::{World, hardware, tenant, until};
use crate::GatewaySettings;
use akash_provider_chain::proto::akash::provider::v1::BidScreeningResponse;
use akash_provider_core::Config;
use akash_provider_core::bidding::{AUDITORS_MAX, OrderContext, check_denom, screen as explain};
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::inventory::node_inventory::NodeInventory;
use akash_provider_core::inventory::spec::{ClusterSpec, NodeSpec};
use akash_provider_core::inventory::{IgnoredKind, IgnoredResource, InventoryUpdate};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{
    Attribute, Coin, DecCoin, DeclineCode, DeploymentId, Endpoint, EndpointKind, GroupSpec, Order, OrderState,
};
use prost::Message;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Change of a group, and the resulting decline code.
type Case = (DeclineCode, fn(&mut GroupSpec));

const CASES: [Case; 11] = [
    (DeclineCode::Attributes, |group| {
        group.requirements.attributes = vec![Attribute::new("region", "eu")];
    }),
    (DeclineCode::Unsupported, |group| {
        group.requirements.attributes = vec![Attribute::new("tee/type", "cpu")];
    }),
    (DeclineCode::Storage, |group| {
        let class = [("class", "beta2"), ("persistent", "true")];
        let volume = &mut group.resources[0].resources.storage[0];
        volume.attributes = class.map(|(key, value)| Attribute::new(key, value)).into();
    }),
    (DeclineCode::Gpu, |group| {
        let gpu = &mut group.resources[0].resources.gpu;
        gpu.units = 1;
        gpu.attributes = vec![Attribute::new("vendor/nvidia/model/a100", "true")];
    }),
    (DeclineCode::SignedBy, |group| {
        group.requirements.signed_by.any_of = vec![tenant(9).address().to_string()];
    }),
    (DeclineCode::TooManyAuditors, |group| {
        let auditor = tenant(9).address().to_string();
        group.requirements.signed_by.all_of = vec![auditor; AUDITORS_MAX + 1];
    }),
    (DeclineCode::InvalidGroup, |group| {
        group.resources[0].resources.cpu.units = 1;
    }),
    (DeclineCode::InsufficientCapacity, |group| {
        group.resources[0].resources.memory.bytes = 1 << 40;
    }),
    (DeclineCode::LeasedIpsExhausted, |group| {
        let address = |sequence_number| Endpoint {
            kind: EndpointKind::LeasedIp,
            sequence_number,
        };
        group.resources[0].resources.endpoints = (1..=9).map(address).collect();
    }),
    (DeclineCode::PriceTooHigh, |group| {
        group.resources[0].price = DecCoin::new(&"uact".into(), "0.000001".parse().unwrap());
    }),
    (DeclineCode::TooManyVolumes, |group| {
        let volumes = &mut group.resources[0].resources.storage;
        let mut second = volumes[0].clone();
        second.name = "second".to_owned();
        volumes.push(second);
    }),
];

/// Change of the settings, and the resulting decline code.
type SettingsCase = (DeclineCode, fn(&mut Config));

const SETTINGS: [SettingsCase; 4] = [
    (DeclineCode::NotForUs, |config| {
        config.required_attributes = vec![Attribute::new("tier", "gold")];
    }),
    (DeclineCode::NoHostnames, |config| config.hostnames = false),
    (DeclineCode::ReclamationRange, |config| {
        config.reclamation_window = Some(Duration::from_secs(1));
    }),
    (DeclineCode::Deposit, |config| {
        config.bid_deposit.amount = 1;
        config.other_bid_deposits.clear();
    }),
];

/// Returns a group with a hostname. The provider would bid on the group.
fn accepted() -> GroupSpec {
    let mut group = group();
    group.resources[0].resources.endpoints = vec![Endpoint::default()];
    group
}

fn order(group: &GroupSpec) -> Order {
    let deployment = DeploymentId::new(tenant(1).address().clone(), 1);
    Order {
        id: deployment.group(1).order(1),
        state: OrderState::Open,
        spec: Arc::new(group.clone()),
        created_at: 1,
        reclamation_min_window: None,
    }
}

async fn explained(world: &World, settings: &GatewaySettings, group: &GroupSpec) -> (DeclineCode, String) {
    let screening = settings.screening.as_ref().unwrap();
    let record = world.chain.provider(&screening.config.provider).await.unwrap();
    let params = world.chain.params().await.unwrap();
    // As `explain` does.
    if let Err(decline) = check_denom(group, &params) {
        return (decline.code(), decline.to_string());
    }
    let facts = OrderContext {
        attributes: record.as_ref().map(|record| &*record.attributes),
        audited: &[],
        params: Some(&params),
        bids: None,
    };
    let mut capacity = world.handle.capacity().await.unwrap().unwrap();
    let verdict = explain(&order(group), &facts, &mut capacity, &*screening.pricing).await;
    let decline = verdict.bid.unwrap_err();
    (decline.code(), decline.to_string())
}

/// Returns the code and the reasons that both screening interfaces return.
async fn screened(world: &World, group: &GroupSpec) -> (DeclineCode, Vec<String>) {
    let (message, code) = screen(world, group).await;
    assert_eq!(code, "0");
    let reasons = BidScreeningResponse::decode(&message[..]).unwrap().reasons;
    let rest = validate(world, group).await;
    assert_eq!((rest.status, rest.body.trim_end()), (422, &*reasons.join("; ")));
    let detailed = detailed(world, group).await;
    let response = detailed.json();
    assert_eq!((detailed.status, &response["reasons"]), (422, &json!(reasons)));
    (serde_json::from_value(response["code"].clone()).unwrap(), reasons)
}

/// Creates an order for the group. Returns the provider's reason to decline, or `None` if the chain rejects
/// the group.
async fn declined(world: &World, dseq: u64, group: &GroupSpec) -> Option<(DeclineCode, String)> {
    let id = DeploymentId::new(world.known_tenant(1).address().clone(), dseq);
    let created = world.chain.tenant(TenantMsg::CreateDeployment {
        id: id.clone(),
        groups: vec![group.clone()],
        hash: [1; 32],
        deposit: Coin::new("uact", 5_000_000),
        reclamation_min_window: None,
    });
    created.ok()?;
    let decline = || async {
        let status = world.handle.status().await;
        let mut declines = status.recent_declines.iter();
        let decline = declines.find(|decline| *decline.order.deployment() == id)?;
        Some((decline.reason, decline.message.clone()))
    };
    until("a decline", || async { decline().await.is_some() }).await;
    decline().await
}

/// Asserts that `explain`, both screening interfaces and the running provider return the same reason. Returns
/// the code of the reason.
async fn compare(world: &World, settings: &GatewaySettings, dseq: u64, group: &GroupSpec) -> DeclineCode {
    let (code, text) = explained(world, settings, group).await;
    let (of_gateway, reasons) = screened(world, group).await;
    assert_eq!((of_gateway, &reasons[0]), (code, &text));
    if let Some(decline) = declined(world, dseq, group).await {
        assert_eq!(decline, (code, text));
    }
    code
}

async fn world(capacity: InventoryUpdate, configure: impl Fn(&mut Config)) -> (World, GatewaySettings) {
    let mut used = None;
    let remember = |settings: &mut GatewaySettings| used = Some(settings.clone());
    let world = World::with_config(Some(Vec::new()), capacity, configure, remember).await;
    (world, used.unwrap())
}

#[tokio::test]
async fn screening_explain_and_bids_have_the_same_reasons() {
    let mut tested = BTreeSet::new();
    let limits = |config: &mut Config| config.max_volumes_per_unit = 1;
    let (world_1, settings) = world(hardware(), limits).await;
    assert_eq!(validate(&world_1, &accepted()).await.status, 200);
    for (dseq, (code, change)) in (1..).zip(CASES) {
        let mut group = accepted();
        change(&mut group);
        assert_eq!(compare(&world_1, &settings, dseq, &group).await, code);
        tested.insert(code);
    }
    world_1.stop().await;
    for (code, configure) in SETTINGS {
        let (world, settings) = world(hardware(), configure).await;
        assert_eq!(compare(&world, &settings, 1, &accepted()).await, code);
        tested.insert(code);
        world.stop().await;
    }
    tested.extend(pools_compared().await);
    tested.insert(comparisons_compared().await);
    // In separate tests.
    tested.extend([DeclineCode::Price, DeclineCode::PriceDenom, DeclineCode::Unknown]);
    let codes = DeclineCode::ALL
        .into_iter()
        .filter(|code| code.needs_only_group());
    assert_eq!(
        tested,
        codes.collect(),
        "a code has no case, or screening cannot return it"
    );
}

async fn comparisons_compared() -> DeclineCode {
    let attributes = (0..1001)
        .map(|n| Attribute::new(format!("key{n}"), "x"))
        .collect();
    let mut used = None;
    let remember = |settings: &mut GatewaySettings| used = Some(settings.clone());
    let world = World::with_config(Some(attributes), hardware(), |_| {}, remember).await;
    let mut group = accepted();
    let unit = group.resources[0].clone();
    group.resources = (1..=20)
        .map(|id| {
            let mut unit = unit.clone();
            unit.resources.id = id;
            unit.resources.gpu.units = 1;
            let model = |n| Attribute::new(format!("vendor/nvidia/model/m{n}"), "true");
            unit.resources.gpu.attributes = (0..50).map(model).collect();
            unit
        })
        .collect();
    let code = compare(&world, &used.unwrap(), 1, &group).await;
    world.stop().await;
    code
}

async fn pools_compared() -> [DeclineCode; 2] {
    let without_addresses = InventoryUpdate {
        leased_ips: None,
        ..hardware()
    };
    let (world, settings) = world(without_addresses, |config| {
        config.external_ports = 0;
        config.leased_ips = false;
    })
    .await;
    let codes = [DeclineCode::NoLeasedIps, DeclineCode::ExternalPortsExhausted];
    for (dseq, (kind, code)) in (1..).zip(
        [EndpointKind::LeasedIp, EndpointKind::RandomPort]
            .into_iter()
            .zip(codes),
    ) {
        let mut group = accepted();
        let sequence_number = u32::from(kind == EndpointKind::LeasedIp);
        group.resources[0].resources.endpoints.push(Endpoint {
            kind,
            sequence_number,
        });
        assert_eq!(compare(&world, &settings, dseq, &group).await, code);
    }
    world.stop().await;
    codes
}

#[tokio::test]
async fn screening_and_explain_have_the_same_reason_for_an_unregistered_provider() {
    let mut used = None;
    let remember = |settings: &mut GatewaySettings| used = Some(settings.clone());
    let world = World::with_config(None, hardware(), |_| {}, remember).await;
    let (code, text) = explained(&world, &used.unwrap(), &accepted()).await;
    assert_eq!(code, DeclineCode::Unknown);
    assert_eq!(screened(&world, &accepted()).await, (code, vec![text]));
    world.stop().await;
}

/// The public text about a failed price script must not reveal the script.
#[tokio::test]
async fn reasons_about_prices_have_the_same_code_and_a_public_text() {
    let (world_1, settings) = world(hardware(), |_| {}).await;
    let mut group = accepted();
    group.resources[0].price = DecCoin::new(&"uother".into(), "50000".parse().unwrap());
    let (code, text) = explained(&world_1, &settings, &group).await;
    assert_eq!(code, DeclineCode::PriceDenom);
    assert!(text.ends_with(", but the order has a price in uother"), "{text}");
    assert_eq!(screened(&world_1, &group).await, (code, vec![text]));
    world_1.stop().await;

    let mut used = None;
    let failing = |settings: &mut GatewaySettings| {
        settings.screening.as_mut().unwrap().pricing = Arc::new(FailingPrices);
        used = Some(settings.clone());
    };
    let world = World::with_config(Some(Vec::new()), hardware(), |_| {}, failing).await;
    let (code, _) = explained(&world, &used.unwrap(), &accepted()).await;
    assert_eq!(code, DeclineCode::Price);
    let (of_gateway, reasons) = screened(&world, &accepted()).await;
    assert_eq!(
        (of_gateway, reasons),
        (code, vec!["the provider could not calculate a price".to_owned()])
    );
    world.stop().await;
}

#[tokio::test]
async fn decline_for_capacity_names_ignored_resources_with_their_remedies() {
    let mut spec = ClusterSpec::from_nodes([NodeSpec::new("node1", 1000, 1 << 30, 1 << 40)]);
    let unlabelled = |n| {
        let help = format!("run `kubectl label node n{n} LABEL=1`");
        IgnoredResource::new(
            IgnoredKind::Gpu,
            format!("node `n{n}`: GPU without a label"),
            help,
        )
    };
    spec.ignored = (1..=10).map(unlabelled).collect();
    let capacity = InventoryUpdate {
        inventory: Arc::new(NodeInventory::new(&spec)),
        ..hardware()
    };
    let (world, _) = world(capacity, |_| {}).await;
    let mut group = accepted();
    group.resources[0].resources.memory.bytes = 1 << 40;
    let response = detailed(&world, &group).await.json();
    assert_eq!(response["code"], "insufficient_capacity");
    let ignored = response["ignored"].as_array().unwrap();
    let first = json!({
        "kind": "gpu",
        "reason": "node `n1`: GPU without a label",
        "help": "run `kubectl label node n1 LABEL=1`",
    });
    assert_eq!((ignored.len(), &ignored[0]), (9, &first));
    assert_eq!(ignored[8]["reason"], "and 2 more");
    // Clients of the network get the reasons only.
    assert!(!validate(&world, &group).await.body.contains("kubectl"));
    world.stop().await;
}

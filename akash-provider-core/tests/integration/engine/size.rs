//! Cost limits of one order and one manifest, at the chain's size limits.
//!
//! The chain limits a transaction to one mebibyte and little else, so each order here has this size. The cost
//! is the number of allocations, calls and bytes, which is the same on every machine. Comparisons without
//! allocation are counted in `bidding/size.rs`.

use crate::engine::world::*;
use akash_provider_core::engine::{Call, Completion, Effect, EffectId, Input, Request, RequestId};
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{
    Address, Attribute, ChainEvent, DeclineCode, Event, GroupSpec, Now, Order, OrderState, ResourceUnit,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum size of a transaction on the chain, in bytes.
const TX: usize = 1 << 20;
const ORDER_ALLOCATIONS: u64 = 60_000;
/// Maximum total size of the allocations per order, in bytes.
const ORDER_BYTES: u64 = 16 << 20;
/// Maximum total size of the events and status entries of one order, in bytes.
const ORDER_REPORTED: usize = 4 << 10;
const ORDER_CALLS: usize = 40;

#[derive(Debug, Default)]
struct Cost {
    allocations: u64,
    bytes: u64,
    calls: usize,
    reported: usize,
}

/// Measures the cost of one order until the bid or the decline.
fn cost_of(world: &mut World, spec: GroupSpec) -> Cost {
    let order = order_id(1);
    let record = Order {
        id: order.clone(),
        state: OrderState::Open,
        spec: Arc::new(spec),
        created_at: 1,
        reclamation_min_window: None,
    };
    let mut cost = Cost::default();
    let mut in_flight = VecDeque::from([Input::Chain(ChainEvent::OrderCreated { id: order })]);
    while let Some(input) = in_flight.pop_front() {
        for effect in measured(world, input, &mut cost) {
            match effect {
                Effect::Call(id, call) => {
                    cost.calls += 1;
                    let completion = match &call {
                        Call::FetchOrder(_) => Completion::Order(Ok(Some(record.clone()))),
                        Call::FetchAudit(_) => Completion::Audit(Ok(None)),
                        other => world.answer(other),
                    };
                    in_flight.push_back(Input::Completed(id, completion));
                }
                Effect::Publish(event) => cost.reported += serde_json::to_vec(&*event).unwrap().len(),
                Effect::Reply(..) => {}
            }
        }
    }
    cost.reported += serde_json::to_vec(&world.status().recent_declines).unwrap().len();
    cost
}

fn measured(world: &mut World, input: Input, cost: &mut Cost) -> Vec<Effect> {
    let now = Now {
        mono: world.mono,
        ..Now::default()
    };
    let mut effects = Vec::new();
    let info = allocation_counter::measure(|| effects = world.engine.step(now, input));
    cost.allocations += info.count_total;
    cost.bytes += info.bytes_total;
    effects
}

/// Creates as many values of `bytes_each` bytes as fit into a transaction.
fn fill<T>(bytes_each: usize, make: impl Fn(usize) -> T) -> Vec<T> {
    (0..TX / bytes_each).map(make).collect()
}

fn web_group() -> GroupSpec {
    web().groups.remove(0)
}

fn assert_within_budget(what: &str, spec: GroupSpec) -> String {
    let mut world = World::new();
    world.looks = false;
    let cost = cost_of(&mut world, spec);
    println!("{what}: {cost:?}");
    assert!(cost.allocations <= ORDER_ALLOCATIONS, "{what}: {cost:?}");
    assert!(cost.bytes <= ORDER_BYTES, "{what}: {cost:?}");
    assert!(cost.calls <= ORDER_CALLS, "{what}: {cost:?}");
    assert!(cost.reported <= ORDER_REPORTED, "{what}: {cost:?}");
    let declines = world.status().recent_declines;
    declines
        .last()
        .map_or_else(|| "bid".to_owned(), |d| d.reason.to_string())
}

fn made_up(number: usize) -> String {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    Address::from_bytes(&bytes).unwrap().to_string()
}

#[test]
fn order_with_thousands_of_auditors_is_declined_without_a_query() {
    let mut spec = web_group();
    spec.requirements.signed_by.all_of = fill(46, made_up);
    assert_eq!(assert_within_budget("auditors", spec), "too_many_auditors");
}

#[test]
fn cost_of_order_with_maximum_number_of_auditors_is_bounded() {
    let mut spec = web_group();
    spec.requirements.signed_by.any_of = (0..32).map(made_up).collect();
    assert_eq!(assert_within_budget("32 auditors", spec), "signed_by");
    // Texts longer than an address are not queried.
    let mut world = World::new();
    world.looks = false;
    let mut spec = web_group();
    spec.requirements.signed_by.all_of = vec!["x".repeat(TX)];
    let cost = cost_of(&mut world, spec);
    assert_eq!(cost.calls, 2, "only the order and the account are read: {cost:?}");
    assert!(cost.reported <= ORDER_REPORTED, "{cost:?}");
}

#[test]
fn orders_waiting_for_one_auditor_are_evaluated_once_each() {
    let mut world = World::new();
    world.looks = false;
    world.hold = Some(|c| matches!(c, Call::FetchAudit(_)));
    let mut sdl = web();
    sdl.groups[0].requirements.signed_by.all_of = (0..32).map(made_up).collect();
    for dseq in 1..=50 {
        world.order(dseq, &sdl);
    }
    let mut cost = Cost::default();
    let audits: Vec<(EffectId, Call)> = world.in_flight.drain(..).collect();
    assert_eq!(audits.len(), 32, "one query per auditor");
    for (id, _) in audits {
        measured(
            &mut world,
            Input::Completed(id, Completion::Audit(Ok(None))),
            &mut cost,
        );
    }
    assert_eq!(world.status().declines[&DeclineCode::SignedBy], 50);
    assert!(cost.allocations <= 50 * 200, "{cost:?}");
}

#[test]
fn cost_of_thousands_of_units_attributes_and_models_is_bounded() {
    let unit = |number: usize| {
        let mut unit = web_group().resources.remove(0);
        unit.resources.id = u32::try_from(number + 1).unwrap();
        unit
    };
    let mut spec = web_group();
    spec.resources = fill(100, unit);
    assert_eq!(assert_within_budget("units", spec), "too_large");
    let mut spec = web_group();
    spec.resources = (0..512).map(unit).collect();
    assert_eq!(assert_within_budget("512 units", spec), "bid");

    let attribute = |number: usize| Attribute::new(format!("key/{number}"), "true");
    let mut spec = web_group();
    spec.requirements.attributes = fill(20, attribute);
    assert_eq!(assert_within_budget("attributes", spec), "attributes");

    let model = |number: usize| Attribute::new(format!("vendor/nvidia/model/m{number}"), "true");
    let with_models = |units: u64, models: Vec<Attribute>| -> GroupSpec {
        let mut spec = web_group();
        let gpu = &mut spec.resources[0].resources.gpu;
        (gpu.units, gpu.attributes) = (units, models);
        spec
    };
    let spec = with_models(1, fill(36, model));
    assert_eq!(assert_within_budget("models", spec), "gpu");
    let long = vec![Attribute::new("vendor/nvidia/model/a100", "x".repeat(TX))];
    assert_eq!(assert_within_budget("a long text", with_models(1, long)), "gpu");
    let volumes = |unit: &mut ResourceUnit| {
        let volume = unit.resources.storage[0].clone();
        unit.resources.storage = fill(40, |_| volume.clone());
    };
    let mut spec = web_group();
    volumes(&mut spec.resources[0]);
    assert_eq!(assert_within_budget("volumes", spec), "too_many_volumes");
}

/// Number of hostnames in a manifest of the maximum size.
const NAMES: usize = 30_000;
/// Maximum number of allocations per hostname.
const NAME_ALLOCATIONS: u64 = 100;

fn with_names(count: usize) -> Sdl {
    let mut sdl = web();
    let names = (0..count).map(|n| format!("n{n}.example.org")).collect();
    sdl.manifest.groups[0].services[0].expose[0].hosts = Some(names);
    sdl
}

#[test]
fn cost_per_hostname_of_large_manifest_is_bounded() {
    let mut world = World::new();
    world.looks = false;
    let sdl = with_names(NAMES);
    let lease = world.lease(1, &sdl);
    let mut cost = Cost::default();
    let submit = Request::SubmitManifest {
        deployment: deployment_id(1),
        manifest: Arc::new(sdl.manifest.clone()),
        hashes: sdl.hash.into(),
    };
    let mut in_flight = VecDeque::from([Input::Request(RequestId(1), submit)]);
    let mut replies = 0;
    while let Some(input) = in_flight.pop_front() {
        for effect in measured(&mut world, input, &mut cost) {
            match effect {
                Effect::Call(id, call) => {
                    let completion = world.answer(&call);
                    in_flight.push_back(Input::Completed(id, completion));
                }
                Effect::Reply(_, response) => {
                    assert_eq!(response.map(|_| ()), Ok(()));
                    replies += 1;
                }
                Effect::Publish(event) => assert!(!matches!(*event, Event::DriftFound { .. })),
            }
        }
    }
    println!("names: {cost:?}");
    assert_eq!((replies, world.status().hostnames.len()), (1, NAMES));
    assert!(world.cluster.contains_key(&lease));
    let each = cost.allocations / NAMES as u64;
    assert!(each <= NAME_ALLOCATIONS, "{each} allocations for each name");
}

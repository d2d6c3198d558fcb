//! Bounded memory: the engine removes the state of finished orders and leases.

use crate::engine::world::*;
use akash_provider_core::engine::Call;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{Address, Attribute, ChainEvent, Event, SignedBy};

fn is_audit(call: &Call) -> bool {
    matches!(call, Call::FetchAudit(_))
}

fn is_fetch(call: &Call) -> bool {
    matches!(call, Call::FetchOrder(_))
}

fn signed_by(auditors: impl IntoIterator<Item = String>) -> Sdl {
    let mut sdl = web();
    sdl.groups[0].requirements.signed_by = SignedBy {
        all_of: Vec::new(),
        any_of: auditors.into_iter().collect(),
    };
    sdl
}

fn made_up(number: u64) -> String {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    Address::from_bytes(&bytes).unwrap().to_string()
}

#[test]
fn auditor_signature_is_cached_for_eighteen_hours() {
    let mut world = World::new();
    let auditor = || signed_by([auditor().to_string()]);
    world.tenant(TenantMsg::SignProvider {
        auditor: crate::engine::world::auditor(),
        owner: us(),
        attributes: Vec::new(),
    });
    world.order(1, &auditor());
    world.wait(17 * HOUR);
    world.order(2, &auditor());
    assert_eq!((world.count(is_audit), world.count(is_bid)), (1, 2));
    world.wait(HOUR + MINUTE);
    world.order(3, &auditor());
    assert_eq!((world.count(is_audit), world.count(is_bid)), (2, 3));
}

#[test]
fn cache_holds_newest_auditor_signatures() {
    let mut world = World::new();
    let of = |order: u64| signed_by((0..32).map(|n| made_up(order * 32 + n)));
    for order in 1..=33 {
        world.order(order, &of(order));
    }
    assert_eq!(world.count(is_audit), 33 * 32);
    world.order(34, &of(33));
    assert_eq!(world.count(is_audit), 33 * 32, "the newest signatures are cached");
    world.order(35, &of(1));
    assert_eq!(
        world.count(is_audit),
        34 * 32,
        "the oldest signatures are queried again"
    );
}

#[test]
fn ended_order_is_removed_although_its_event_was_missed() {
    let mut world = World::new();
    let spent = world.order(3, &web());
    world.blocks(60, BLOCK);
    assert_eq!(world.closes().len(), 1, "the tenant did not take the bid");
    let mut sdl = web();
    sdl.groups[0].requirements.attributes = vec![Attribute::new("region", "moon")];
    let declined = world.order(1, &sdl);
    world.price = Err(failure(false));
    let unpriced = world.order(2, &web());
    assert_eq!(world.count(is_fetch), 3);
    world.deaf = true;
    for dseq in [1, 2, 3] {
        world.tenant(TenantMsg::CloseDeployment {
            id: deployment_id(dseq),
        });
    }
    world.deaf = false;
    world.resync();
    for id in [spent, declined, unpriced] {
        let events = |world: &World| {
            let seen = |event: &&Event| matches!(event, Event::OrderSeen { order } if *order == id);
            (world.facts.iter().filter(seen).count(), world.count(is_fetch))
        };
        let (seen, fetched) = events(&world);
        world.tell(vec![ChainEvent::OrderCreated { id: id.clone() }]);
        world.settle();
        assert_eq!(
            events(&world),
            (seen + 1, fetched + 1),
            "the order is processed as a new order"
        );
    }
}

#[test]
fn ended_lease_leaves_no_state() {
    let sdl = |hosts: &[&str]| sdl_of("web", "nginx:1", hosts, &["east"]);
    let mut world = World::new();
    world.running(1, &sdl(&["a.example"]));
    let number = 987_654;
    let lease = world.running(number, &sdl(&["a.example"]));
    assert_eq!(world.status().hostnames["a.example"], lease_id(1));
    let has_state = |world: &World| format!("{:?}", world.engine).contains(&number.to_string());
    assert!(has_state(&world));
    world.tenant(TenantMsg::CloseDeployment {
        id: deployment_id(number),
    });
    world.blocks(3, BLOCK);
    world.wait(MINUTE);
    assert!(!world.cluster.contains_key(&lease));
    assert!(!has_state(&world), "{:?}", world.engine);
}

#[test]
fn permanently_declined_order_is_evaluated_once() {
    let mut world = World::new();
    world.order_as(deployment_id(1), &web(), Some(HOUR));
    let read = world.count(is_fetch);
    world.tell(vec![ChainEvent::OrderCreated { id: order_id(1) }]);
    world.settle();
    world.resync();
    assert_eq!(world.count(is_fetch), read);
    assert_eq!(world.status().declines.values().sum::<u64>(), 1);
}

/// Returns the size of the serialized engine, in bytes.
fn bytes_of(world: &World) -> usize {
    rmp_serde::to_vec(&world.engine).unwrap().len()
}

#[test]
fn memory_does_not_grow_with_ended_leases() {
    let mut world = World::new();
    let sdl = web();
    // Deployment numbers of equal length, because smaller numbers need fewer bytes.
    let mut come_and_go = |dseqs: std::ops::Range<u64>| {
        for dseq in dseqs {
            world.running(dseq, &sdl);
            let id = deployment_id(dseq);
            world.tenant(TenantMsg::CloseDeployment { id });
            world.order(dseq + 100_000, &sdl);
            let id = deployment_id(dseq + 100_000);
            world.tenant(TenantMsg::CloseDeployment { id });
        }
        // Wait until the time windows of counted closes are over.
        world.blocks(130, MINUTE);
        assert!(world.active().is_empty() && world.pending().is_empty());
        assert!(world.cluster.is_empty());
        bytes_of(&world)
    };
    let before = come_and_go(70_000..70_020);
    let after = come_and_go(70_020..70_080);
    // Counters grow by a few bytes. Sixty retained lease or order ids would take thousands of bytes.
    assert!(
        after <= before + 400,
        "{before} bytes, then {after} after 60 more leases"
    );
}

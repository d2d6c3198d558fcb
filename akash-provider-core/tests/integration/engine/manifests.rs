//! Manifests: who may submit them, and how they are processed.

use crate::engine::world::*;
use akash_provider_core::engine::{Call, RefusalKind, Request, Response};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{CloseReason, Event, LeaseId, LeaseState};
use std::sync::Arc;
use std::time::Duration;

pub(super) fn kind(response: Response) -> Option<RefusalKind> {
    response.err().map(|refusal| refusal.kind)
}

pub(super) fn update(world: &mut World, dseq: u64, sdl: &Sdl) {
    world.tenant(TenantMsg::UpdateDeployment {
        id: deployment_id(dseq),
        hash: sdl.hash,
    });
}

pub(super) fn hosted(service: &str, hosts: &[&str]) -> Sdl {
    sdl_of(service, "nginx:1", hosts, &["east"])
}

#[test]
fn w6_rejected_manifest_does_not_stop_deadline() {
    let mut world = World::new();
    let lease = world.lease(1, &web());
    let other = sdl_of("web", "nginx:2", &[], &["east"]);
    for _ in 0..6 {
        assert_eq!(kind(world.submit(1, &other)), Some(RefusalKind::VersionMismatch));
        world.blocks(9, BLOCK);
    }
    assert_eq!(world.closes(), [(lease, CloseReason::ManifestTimeout)]);
}

#[test]
fn manifest_is_accepted_until_the_block_of_its_deadline() {
    let mut world = World::new();
    world.lease(1, &web());
    let deadline = world.status().deployments[0].manifest_deadline.unwrap();
    let mut before = world.market.time();
    while world.market.time() < deadline {
        assert_eq!(world.closes(), []);
        before = world.market.time();
        world.blocks(1, BLOCK);
    }
    assert_eq!(before.plus(BLOCK), deadline);
    assert_eq!(world.closes().len(), 1);
}

#[test]
fn w7_each_group_has_a_manifest_deadline_and_failed_closes_are_retried() {
    let sdl = sdl_of("web", "nginx:1", &[], &["east", "west"]);
    let mut world = World::new();
    world.lease(1, &sdl);
    assert_eq!(world.active().len(), 2);
    world.fail = Some(is_close);
    world.blocks(60, BLOCK);
    assert!(world.closes().len() >= 2);
    world.fail = None;
    world.wait(2 * MINUTE);
    let states: Vec<_> = world.market.leases().map(|r| r.lease.state).collect();
    assert_eq!(states, [LeaseState::Closed, LeaseState::Closed]);
    world.blocks(2, BLOCK);
    world.wait(MINUTE);
    assert_eq!(world.active(), []);
}

#[test]
fn w17_unused_deployment_is_removed() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.tenant(TenantMsg::PauseGroup {
        id: lease.order.group.clone(),
    });
    world.blocks(2, BLOCK);
    assert_eq!(
        world.status().deployments.len(),
        1,
        "the manifest is retained for a resumed group"
    );
    world.wait(6 * MINUTE);
    assert_eq!(world.status().deployments, []);
}

#[test]
fn deployment_closed_during_recording_is_removed() {
    let mut world = World::new();
    world.lease(1, &web());
    world.hold = Some(is_record);
    world.submit_later(1, &web());
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.hold = None;
    world.settle();
    world.blocks(2, BLOCK);
    world.wait(MINUTE);
    assert_eq!(world.status().deployments, []);
}

#[test]
fn w42_a_manifest_is_checked_against_the_hash_on_the_chain() {
    let mut world = World::new();
    world.running(1, &web());
    let new = sdl_of("web", "nginx:2", &[], &["east"]);
    world.deaf = true;
    update(&mut world, 1, &new);
    world.deaf = false;
    assert_eq!(kind(world.submit(1, &new)), None, "the update event was missed");
    assert_eq!(kind(world.submit(1, &web())), Some(RefusalKind::VersionMismatch));
}

#[test]
fn repeated_manifest_deploys_no_new_version() {
    let mut world = World::new();
    world.running(1, &web());
    let deployed = |world: &World| {
        let events = world.facts.iter();
        events
            .filter_map(|event| match event {
                Event::Deployed { generation, .. } => Some(*generation),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(deployed(&world), [1]);
    assert_eq!(kind(world.submit(1, &web())), None);
    assert_eq!(deployed(&world), [1]);
    let new = sdl_of("web", "nginx:2", &[], &["east"]);
    update(&mut world, 1, &new);
    for _ in 0..2 {
        assert_eq!(kind(world.submit(1, &new)), None);
    }
    assert_eq!(deployed(&world), [1, 2]);
}

/// The cluster reports drift. Only the next deploy repairs the drift.
#[test]
fn repeated_manifest_applies_objects_of_its_version_again() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    let before = world.count(is_deploy);
    world.cluster.clear();
    world.fail = Some(is_deploy);
    assert_eq!(kind(world.submit(1, &web())), None);
    world.cluster.clear();
    world.fail = None;
    world.wait(Duration::from_secs(2));
    assert!(world.cluster.contains_key(&lease));
    world.wait(MINUTE);
    assert_eq!(world.count(is_deploy), before + 2, "one deploy failed");
    let deployed = |event: &Event| matches!(event, Event::Deployed { .. });
    assert_eq!(world.count_facts(deployed), 1);
}

#[test]
fn repeated_manifest_retries_failed_deploy_at_once() {
    let mut world = World::new();
    world.lease(1, &web());
    world.fail = Some(is_deploy);
    assert_eq!(kind(world.submit(1, &web())), None);
    world.fail = None;
    assert_eq!(kind(world.submit(1, &web())), None);
    assert!(world.cluster.contains_key(&lease_id(1)));
}

#[test]
fn failures_of_the_providers_connections_do_not_reach_tenants() {
    let is_fetch: Which = |call| matches!(call, Call::FetchDeployment(_));
    for (fails, message) in [
        (
            is_record as Which,
            "the provider cannot store the manifest at the moment; submit again",
        ),
        (is_fetch, "the provider cannot read deployment akash1"),
    ] {
        let mut world = World::new();
        world.lease(1, &web());
        world.fail = Some(fails);
        let id = world.submit_later(1, &web());
        world.wait(Duration::from_secs(10));
        let refusal = world.replies[&id].clone().unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Unavailable);
        assert!(refusal.message.starts_with(message), "{refusal:?}");
        assert!(!refusal.message.contains(&failure(true).message), "{refusal:?}");
    }
}

#[test]
fn unknown_fields_may_be_part_of_the_hash_or_not() {
    let sdl = web();
    let mut sent = serde_json::to_value(&sdl.manifest).unwrap();
    sent[0]["services"][0]["newer"] = true.into();
    let (manifest, hashes) = akash_provider_core::manifest::parse(sent.to_string().as_bytes()).unwrap();
    let mut counting = sdl.clone();
    counting.hash = *hashes.received();
    let mut wrong = sdl.clone();
    wrong.hash = [7; 32];
    for (on_chain, refused) in [
        (&sdl, None),
        (&counting, None),
        (&wrong, Some(RefusalKind::VersionMismatch)),
    ] {
        let mut world = World::new();
        world.lease(1, on_chain);
        let request = world.request(Request::SubmitManifest {
            deployment: deployment_id(1),
            manifest: Arc::new(manifest.clone()),
            hashes,
        });
        assert_eq!(kind(world.replies[&request].clone()), refused);
    }
}

#[test]
fn w42_new_lease_does_not_get_old_manifest() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    world.tenant(TenantMsg::PauseGroup {
        id: lease.order.group.clone(),
    });
    let new = sdl_of("web", "nginx:2", &[], &["east"]);
    update(&mut world, 1, &new);
    world.tenant(TenantMsg::StartGroup {
        id: lease.order.group.clone(),
    });
    let mut order = lease.order;
    order.oseq = 2;
    let bid = bid_of(&order, us());
    world.tenant(TenantMsg::CreateLease { bid: bid.clone() });
    assert!(!world.cluster.contains_key(&bid));
    assert_eq!(kind(world.submit(1, &new)), None);
    assert_eq!(world.cluster[&bid].group.services[0].image, "nginx:2");
}

#[test]
fn w43_different_set_of_services_is_refused_at_once() {
    let mut world = World::new();
    world.running(1, &web());
    let renamed = sdl_of("api", "nginx:1", &[], &["east"]);
    update(&mut world, 1, &renamed);
    assert_eq!(kind(world.submit(1, &renamed)), Some(RefusalKind::Rejected));
    assert_eq!(world.count(is_record), 1, "nothing of the manifest was stored");
}

#[test]
fn manifest_with_confidential_computing_is_refused() {
    let mut world = World::new();
    world.running(1, &web());
    let confidential = sdl_of("web", "nginx:1\n    params: {tee: cpu}", &[], &["east"]);
    update(&mut world, 1, &confidential);
    assert_eq!(kind(world.submit(1, &confidential)), Some(RefusalKind::Rejected));
    assert_eq!(world.count(is_record), 1, "nothing of the manifest was stored");
}

#[test]
fn w43_failed_chain_query_is_retried() {
    let mut world = World::new();
    world.lease(1, &web());
    world.fail = Some(|c| matches!(c, Call::FetchDeployment(_)));
    let request = world.submit_later(1, &web());
    assert_eq!(world.replies.get(&request), None);
    world.fail = None;
    world.wait(MINUTE);
    assert_eq!(kind(world.replies[&request].clone()), None);
}

#[test]
fn unreadable_deployment_is_queried_three_times_then_reported_to_tenant() {
    let mut world = World::new();
    world.lease(1, &web());
    let is_fetch: Which = |c| matches!(c, Call::FetchDeployment(_));
    world.fail = Some(is_fetch);
    world.calls.clear();
    let request = world.submit_later(1, &web());
    for (asked, pause) in [(1, 1000), (2, 2000)] {
        world.wait(Duration::from_millis(pause - 1));
        assert_eq!(world.count(is_fetch), asked);
        assert_eq!(world.replies.get(&request), None);
        world.wait(Duration::from_millis(1));
        assert_eq!(world.count(is_fetch), asked + 1);
    }
    assert_eq!(
        kind(world.replies[&request].clone()),
        Some(RefusalKind::Unavailable)
    );
}

#[test]
fn slow_failed_query_is_not_retried_while_tenant_waits() {
    let mut world = World::new();
    world.lease(1, &web());
    let is_fetch: Which = |c| matches!(c, Call::FetchDeployment(_));
    world.hold = Some(is_fetch);
    let request = world.submit_later(1, &web());
    world.wait(Duration::from_secs(5));
    assert_eq!(world.replies.get(&request), None);
    world.hold = None;
    world.fail = Some(is_fetch);
    world.calls.clear();
    world.settle();
    assert_eq!(
        kind(world.replies[&request].clone()),
        Some(RefusalKind::Unavailable)
    );
    assert_eq!(world.count(is_fetch), 0, "no second query");
}

#[test]
fn w43_accepted_manifest_is_durable_and_complete() {
    let mut world = World::new();
    let lease = world.lease(1, &hosted("web", &["a.example"]));
    world.fail = Some(is_record);
    let refused = kind(world.submit(1, &hosted("web", &["a.example"])));
    assert_eq!(refused, Some(RefusalKind::Unavailable));
    assert_eq!(world.status().hostnames.len(), 0);
    assert_eq!(
        world.count_facts(|e| matches!(e, Event::ManifestReceived { .. })),
        0
    );
    assert!(world.status().deployments[0].manifest_deadline.is_some());
    world.fail = None;
    assert_eq!(kind(world.submit(1, &hosted("web", &["a.example"]))), None);
    let before: Vec<_> = world
        .calls
        .iter()
        .filter(|c| is_record(c) || is_deploy(c))
        .collect();
    assert!(
        matches!(
            before[..],
            [Call::Record(_), Call::Record(_), Call::Deploy { .. }]
        ),
        "{before:?}"
    );
    world.crash();
    world.start();
    assert!(world.cluster.contains_key(&lease));
    assert_eq!(world.status().hostnames["a.example"], lease);
}

#[test]
fn manifest_without_lease_is_refused() {
    let mut world = World::new();
    world.order(1, &web());
    assert_eq!(kind(world.submit(1, &web())), Some(RefusalKind::NoLease));
    assert_eq!(kind(world.submit(77, &web())), Some(RefusalKind::NoLease));
    assert_eq!(world.status().deployments, []);
}

#[test]
fn concurrent_manifests_are_processed_in_order() {
    let mut world = World::new();
    world.lease(1, &web());
    world.hold = Some(|c| matches!(c, Call::FetchDeployment(_)));
    let first = world.submit_later(1, &web());
    let second = world.submit_later(1, &sdl_of("web", "nginx:2", &[], &["east"]));
    world.hold = None;
    world.settle();
    assert_eq!(kind(world.replies[&first].clone()), None);
    assert_eq!(
        kind(world.replies[&second].clone()),
        Some(RefusalKind::VersionMismatch)
    );
}

fn image(call: &Call) -> Option<&str> {
    match call {
        Call::Deploy { deployment, .. } => Some(&deployment.group.services[0].image),
        _ => None,
    }
}

/// Lets a scan report an incomplete workload.
fn report_incomplete(world: &mut World, lease: &LeaseId) {
    world.incomplete = vec![lease.clone()];
    world.request(Request::Scan { dry_run: false });
    world.incomplete.clear();
}

#[test]
fn repair_during_recording_deploys_recorded_manifest() {
    let mut world = World::new();
    let lease = world.running(1, &web());
    let newer = sdl_of("web", "nginx:2", &[], &["east"]);
    update(&mut world, 1, &newer);
    world.hold = Some(is_record);
    let request = world.submit_later(1, &newer);
    report_incomplete(&mut world, &lease);
    world.hold = Some(is_deploy);
    world.settle();
    assert_eq!(
        kind(world.replies[&request].clone()),
        None,
        "the manifest is accepted"
    );
    let in_flight: Vec<_> = world.in_flight.iter().map(|(_, call)| image(call)).collect();
    assert_eq!(in_flight, [Some("nginx:2")]);
    world.hold = None;
    world.settle();
    assert_eq!(&*world.cluster[&lease].group.services[0].image, "nginx:2");
    assert_eq!(world.count(is_deploy), 2, "one deploy per manifest");
}

#[test]
fn no_repair_between_recording_and_acceptance() {
    let mut world = World::new();
    let two = ["east", "west"];
    world.running(1, &sdl_of("web", "nginx:1", &[], &two));
    let newer = sdl_of("web", "nginx:2", &[], &two);
    update(&mut world, 1, &newer);
    // The first group is recorded, and the recording of the second one is in flight.
    world.hold = Some(|c| matches!(c, Call::Record(d) if d.lease.order.group.gseq == 2));
    let request = world.submit_later(1, &newer);
    report_incomplete(&mut world, &lease_id(1));
    assert_eq!(
        world.count(is_deploy),
        2,
        "a deploy of the old manifest would overwrite the record"
    );
    world.hold = None;
    world.settle();
    assert_eq!(kind(world.replies[&request].clone()), None);
    let deployed = world.calls.iter().filter_map(image).skip(2);
    assert_eq!(deployed.collect::<Vec<_>>(), ["nginx:2"; 2]);
    // A failed recording allows the repair with the running manifest.
    let third = sdl_of("web", "nginx:3", &[], &two);
    update(&mut world, 1, &third);
    world.hold = Some(|c| matches!(c, Call::Record(d) if d.lease.order.group.gseq == 2));
    world.submit_later(1, &third);
    report_incomplete(&mut world, &lease_id(1));
    world.hold = None;
    world.fail = Some(is_record);
    world.settle();
    assert_eq!(
        world.calls.iter().filter_map(image).skip(4).collect::<Vec<_>>(),
        ["nginx:2"]
    );
}

#[test]
fn rejected_manifest_is_reported_to_operator_unless_sender_has_no_lease() {
    let mut config = settings();
    config.static_hosts_domain = None;
    let mut world = World::with(config);
    let is_refusal =
        |e: &Event| matches!(e, Event::ManifestRefused { message, .. } if message.contains("`accept:`"));
    assert!(world.submit(1, &web()).is_err(), "no lease exists");
    assert_eq!(
        world.count_facts(|e| matches!(e, Event::ManifestRefused { .. })),
        0
    );
    world.lease(1, &web());
    assert!(world.submit(1, &web()).is_err());
    assert_eq!(world.count_facts(is_refusal), 1);
}

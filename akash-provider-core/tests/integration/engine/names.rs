//! Hostnames that change hands while something is deployed.

use crate::engine::world::*;
use akash_provider_core::engine::{Call, RefusalKind, Request};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{LeaseId, Msg};
use std::sync::Arc;
use std::time::{Duration, Instant};

const NAME: &str = "a.example";

fn hosted(image: &str, hosts: &[&str]) -> Sdl {
    sdl_of("web", image, hosts, &["east"])
}

/// The first tenant's lease 1 is deployed.
fn is_deploy_of_first(call: &Call) -> bool {
    matches!(call, Call::Deploy { deployment, .. } if deployment.lease == lease_id(1))
}

fn update(world: &mut World, sdl: &Sdl) {
    let id = deployment_id(1);
    world.tenant(TenantMsg::UpdateDeployment { id, hash: sdl.hash });
}

/// Deploys of a lease that were asked for and declare the name.
fn declarations(world: &World, lease: &LeaseId) -> usize {
    let declares = |call: &&Call| match call {
        Call::Deploy { deployment, .. } if deployment.lease == *lease => {
            deployment.hostnames.iter().any(|h| h.hostname == NAME)
        }
        _ => false,
    };
    world.calls.iter().filter(declares).count()
}

#[test]
fn a_name_is_declared_anew_when_the_deploy_that_still_declares_it_has_ended() {
    let mut world = World::new();
    world.running(1, &hosted("nginx:1", &[NAME]));
    let new = world.running(2, &hosted("nginx:1", &[NAME]));
    let changed = hosted("nginx:2", &[NAME]);
    update(&mut world, &changed);
    world.hold = Some(is_deploy_of_first);
    world.submit_later(1, &changed);
    world.request(Request::TransferHostnames {
        lease: new.clone(),
        hostnames: vec![NAME.to_owned()],
    });
    assert_eq!(
        declarations(&world, &new),
        0,
        "the old one is still being declared"
    );
    world.hold = None;
    world.settle();
    assert_eq!(declarations(&world, &new), 1);
    let last = world.calls.iter().rposition(is_deploy_of_first);
    assert!(last.is_some_and(|at| match &world.calls[at] {
        Call::Deploy { deployment, .. } => deployment.hostnames.iter().all(|h| h.hostname != NAME),
        _ => false,
    }));
    assert_eq!(world.status().hostnames[NAME], new);
}

#[test]
fn moves_to_and_fro_end_with_the_last_holder() {
    let mut world = World::new();
    let old = world.running(1, &hosted("nginx:1", &[NAME]));
    let new = world.running(2, &hosted("nginx:1", &[NAME]));
    world.hold = Some(is_deploy);
    let mut to = |lease: &LeaseId| {
        world.request(Request::TransferHostnames {
            lease: lease.clone(),
            hostnames: vec![NAME.to_owned()],
        });
    };
    for _ in 0..3 {
        to(&new);
        to(&old);
    }
    to(&new);
    world.hold = None;
    world.settle();
    world.wait(MINUTE);
    assert!(world.in_flight.is_empty());
    let declares = |world: &World, lease| {
        let declared = &world.cluster[lease].hostnames;
        declared.iter().any(|h| h.hostname == NAME)
    };
    assert_eq!((declares(&world, &old), declares(&world, &new)), (false, true));
}

#[test]
fn another_tenant_that_gets_a_name_waits_for_the_deploy_that_declares_it() {
    let mut world = World::new();
    world.running(1, &hosted("nginx:1", &[NAME]));
    let changed = hosted("nginx:2", &[NAME]);
    update(&mut world, &changed);
    world.hold = Some(is_deploy_of_first);
    world.submit_later(1, &changed);
    let without = hosted("nginx:2", &["b.example"]);
    update(&mut world, &without);
    world.submit_later(1, &without);

    let sdl = hosted("nginx:1", &[NAME]);
    let theirs = world.lease_of_another(&sdl);
    world.request(Request::SubmitManifest {
        deployment: theirs.deployment().clone(),
        manifest: Arc::new(sdl.manifest.clone()),
        hashes: sdl.hash.into(),
    });
    assert_eq!(world.status().hostnames.get(NAME), Some(&theirs));
    assert_eq!(declarations(&world, &theirs), 0);
    world.hold = None;
    world.settle();
    assert_eq!(declarations(&world, &theirs), 1);
    assert!(world.in_flight.is_empty());
}

/// Time for a manifest of so many names to be taken over, moved, listed and given up.
#[expect(clippy::disallowed_methods, reason = "what it compares is time")]
fn life_of(names: usize) -> Duration {
    let all: Vec<String> = (0..names).map(|n| format!("n{n}.example.org")).collect();
    let of = |names: &[String]| {
        let mut sdl = hosted("nginx:1", &[]);
        sdl.manifest.groups[0].services[0].expose[0].hosts = Some(names.to_vec());
        sdl.hash = akash_provider_core::manifest::hash(&sdl.manifest);
        sdl
    };
    let mut world = World::new();
    let first = world.running(1, &of(&all));
    let second = world.running(2, &of(&all));
    let begin = Instant::now();
    world.restart();
    world.request(Request::TransferHostnames {
        lease: second.clone(),
        hostnames: all.clone(),
    });
    assert_eq!(world.status().hostnames.len(), names);
    let half = of(&all[..names / 2]);
    world.tenant(TenantMsg::UpdateDeployment {
        id: deployment_id(2),
        hash: half.hash,
    });
    assert_eq!(world.submit(2, &half).map(|_| ()), Ok(()));
    world.request(Request::Scan { dry_run: false });
    let status = world.status();
    let back = status.hostnames.values().filter(|holder| **holder == first);
    assert_eq!(back.count(), names - names / 2, "it had waited for them");
    begin.elapsed()
}

#[test]
fn ten_times_the_names_cost_about_ten_times_the_work() {
    // The quicker of two, so that a busy machine counts for little. Pairs of names would cost a hundred times.
    let quickest = |names| (0..2).map(|_| life_of(names)).min().unwrap();
    let (few, many) = (quickest(800), quickest(8_000));
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    println!("800 names: {few:?}; 8,000 names: {many:?}; ratio {ratio:.1}");
    assert!(ratio < 35.0, "{ratio:.1} times the work for ten times the names");
}

#[test]
fn a_wildcard_is_of_one_tenant_with_all_it_covers() {
    let mut world = World::new();
    let wide = world.running(1, &hosted("nginx:1", &["*.shop.example"]));
    // The second tenant is refused by name, in both directions, and may have what the wildcard does not cover.
    for (dseq, name, is_had) in [
        (8_001, "a.shop.example", false),
        (8_002, "*.shop.example", false),
        (8_003, "a.b.shop.example", true),
        (8_004, "shop.example", true),
    ] {
        let sdl = hosted("nginx:1", &[name]);
        world.lease(dseq, &sdl);
        let answer = world.submit(dseq, &sdl).map(|_| ());
        assert_eq!(answer.is_ok(), is_had, "{name}: {answer:?}");
        if let Err(refusal) = answer {
            assert_eq!(refusal.kind, RefusalKind::Hostname);
            assert!(refusal.message.contains(name), "{}", refusal.message);
        }
    }
    // Another deployment of the first has the nearer name beside it.
    let near = world.running(2, &hosted("nginx:1", &["a.shop.example"]));
    let held = world.status().hostnames;
    assert_eq!((&held["*.shop.example"], &held["a.shop.example"]), (&wide, &near));
    let declared = &world.cluster[&wide].hostnames;
    assert!(
        declared.iter().any(|h| h.hostname == "*.shop.example"),
        "{declared:?}"
    );
    // A wildcard moves as any other name does.
    let next = world.running(3, &hosted("nginx:1", &["*.shop.example"]));
    let id = world.request(Request::TransferHostnames {
        lease: next.clone(),
        hostnames: vec!["*.shop.example".to_owned()],
    });
    assert!(world.replies[&id].is_ok());
    assert_eq!(world.status().hostnames["*.shop.example"], next);
}

#[test]
fn a_manifest_that_is_refused_for_its_wildcard_changes_no_name() {
    let mut world = World::new();
    let first = world.running(1, &hosted("nginx:1", &["a.shop.example"]));
    world.running(8_001, &hosted("nginx:1", &["b.shop.example"]));
    let changed = hosted("nginx:2", &["*.shop.example", "c.example"]);
    update(&mut world, &changed);
    assert!(
        world.submit(1, &changed).is_err(),
        "b.shop.example is another tenant's"
    );
    let held = world.status().hostnames;
    assert_eq!(held["a.shop.example"], first);
    assert!(!held.contains_key("*.shop.example") && !held.contains_key("c.example"));
}

#[test]
fn a_name_that_no_tenant_may_list_does_not_move() {
    let mut world = World::new();
    let lease = world.running(1, &hosted("nginx:1", &[NAME]));
    for name in ["127.1", "localhost", "kubernetes.default.svc"] {
        let id = world.request(Request::TransferHostnames {
            lease: lease.clone(),
            hostnames: vec![name.to_owned()],
        });
        let refusal = world.replies[&id].as_ref().unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Hostname, "{}", refusal.message);
        assert!(
            refusal.message.starts_with("hostname not allowed: "),
            "{}",
            refusal.message
        );
    }
}

#[test]
fn no_wildcard_reaches_what_is_the_providers() {
    let mut config = settings();
    config.static_hosts_domain = Some("ingress.provider.example".to_owned());
    config.blocked_hostnames = vec!["bank.example".to_owned(), "www.bank.example".to_owned()];
    let mut world = World::with(config);
    for (dseq, name) in [
        (1, "*.ingress.provider.example"),
        (2, "*.provider.example"),
        (3, "*.a.ingress.provider.example"),
        (4, "*.bank.example"),
    ] {
        let sdl = hosted("nginx:1", &[name]);
        world.lease(dseq, &sdl);
        let refusal = world.submit(dseq, &sdl).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Hostname, "{name}");
        assert!(refusal.message.contains(name), "{}", refusal.message);
    }
}

#[test]
fn a_name_that_became_the_providers_deploys_no_lease_that_waits_for_it() {
    let mut world = World::new();
    for dseq in [1, 2] {
        world.running(dseq, &hosted("nginx:1", &[NAME]));
    }
    let mut record = world.market.provider(&us()).unwrap().clone();
    record.host_uri = format!("https://{NAME}:8443");
    world.outside(&Msg::UpdateProvider(record));
    world.resync();
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.blocks(2, BLOCK);
    assert_eq!(world.status().hostnames.get(NAME), None);
    let before = world.count(is_deploy);
    world.wait(HOUR);
    assert_eq!(world.count(is_deploy), before);
}

//! Hostnames that move to another lease during a deploy.

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

fn is_deploy_of_first(call: &Call) -> bool {
    matches!(call, Call::Deploy { deployment, .. } if deployment.lease == lease_id(1))
}

fn update(world: &mut World, sdl: &Sdl) {
    let id = deployment_id(1);
    world.tenant(TenantMsg::UpdateDeployment { id, hash: sdl.hash });
}

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
fn moved_hostname_is_declared_after_previous_deploy_ends() {
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
        "the deploy with the old name is still running"
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
fn repeated_moves_end_with_last_owner() {
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
fn new_owner_waits_for_running_deploy_with_same_hostname() {
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

/// Returns the time in which the engine accepts, moves, lists and removes `names` hostnames.
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
    assert_eq!(
        back.count(),
        names - names / 2,
        "the deployment waited for these names"
    );
    begin.elapsed()
}

#[test]
fn work_grows_linearly_with_number_of_hostnames() {
    // The faster of two runs, so that a busy machine has little influence. Quadratic work would cost a
    // hundred times as much.
    let quickest = |names| (0..2).map(|_| life_of(names)).min().unwrap();
    let (few, many) = (quickest(800), quickest(8_000));
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    println!("800 names: {few:?}; 8,000 names: {many:?}; ratio {ratio:.1}");
    assert!(ratio < 35.0, "{ratio:.1} times the work for ten times the names");
}

#[test]
fn wildcard_and_covered_names_belong_to_one_tenant() {
    let mut world = World::new();
    let wide = world.running(1, &hosted("nginx:1", &["*.shop.example"]));
    // The second tenant is refused in both directions, and gets names that the wildcard does not cover.
    for (dseq, name, is_had) in [
        (8_001, "a.shop.example", false),
        (8_002, "*.shop.example", false),
        (8_003, "a.b.shop.example", true),
        (8_004, "shop.example", true),
    ] {
        let sdl = hosted("nginx:1", &[name]);
        world.lease(dseq, &sdl);
        let reply = world.submit(dseq, &sdl).map(|_| ());
        assert_eq!(reply.is_ok(), is_had, "{name}: {reply:?}");
        if let Err(refusal) = reply {
            assert_eq!(refusal.kind, RefusalKind::Hostname);
            assert!(refusal.message.contains(name), "{}", refusal.message);
        }
    }
    // Another deployment of the first tenant has a more specific name in addition.
    let near = world.running(2, &hosted("nginx:1", &["a.shop.example"]));
    let hostnames = world.status().hostnames;
    assert_eq!(
        (&hostnames["*.shop.example"], &hostnames["a.shop.example"]),
        (&wide, &near)
    );
    let declared = &world.cluster[&wide].hostnames;
    assert!(
        declared.iter().any(|h| h.hostname == "*.shop.example"),
        "{declared:?}"
    );
    // A wildcard moves like any other name.
    let next = world.running(3, &hosted("nginx:1", &["*.shop.example"]));
    let id = world.request(Request::TransferHostnames {
        lease: next.clone(),
        hostnames: vec!["*.shop.example".to_owned()],
    });
    assert!(world.replies[&id].is_ok());
    assert_eq!(world.status().hostnames["*.shop.example"], next);
}

#[test]
fn rejected_wildcard_changes_no_hostname() {
    let mut world = World::new();
    let first = world.running(1, &hosted("nginx:1", &["a.shop.example"]));
    world.running(8_001, &hosted("nginx:1", &["b.shop.example"]));
    let changed = hosted("nginx:2", &["*.shop.example", "c.example"]);
    update(&mut world, &changed);
    assert!(
        world.submit(1, &changed).is_err(),
        "b.shop.example belongs to another tenant"
    );
    let hostnames = world.status().hostnames;
    assert_eq!(hostnames["a.shop.example"], first);
    assert!(!hostnames.contains_key("*.shop.example") && !hostnames.contains_key("c.example"));
}

#[test]
fn reserved_hostname_cannot_be_moved() {
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
fn wildcard_over_provider_host_is_refused() {
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
fn new_provider_host_is_not_given_to_waiting_lease() {
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

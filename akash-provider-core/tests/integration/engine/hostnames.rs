//! Hostnames of manifests: which lease has a hostname, and which hostnames are refused.

use super::manifests::{hosted, kind, update};
use crate::engine::world::*;
use akash_provider_core::engine::{RefusalKind, Request};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{LeaseId, Msg};

#[test]
fn w40_freed_hostname_goes_to_waiting_deployment() {
    let mut world = World::new();
    let old = world.running(1, &hosted("web", &["a.example"]));
    let new = world.running(2, &hosted("api", &["a.example"]));
    assert_eq!(world.status().hostnames["a.example"], old);
    let names = |world: &World| -> Vec<String> {
        let declared = world.cluster[&new].hostnames.iter();
        declared.map(|h| h.hostname.clone()).collect()
    };
    assert!(!names(&world).contains(&"a.example".to_owned()));
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.blocks(2, BLOCK);
    assert_eq!(world.status().hostnames["a.example"], new);
    assert!(names(&world).contains(&"a.example".to_owned()));
}

#[test]
fn w40_several_deployments_wait_for_one_hostname() {
    let mut world = World::new();
    let leases: Vec<_> = (1..=3)
        .map(|dseq| world.running(dseq, &hosted("web", &["a.example"])))
        .collect();
    for (dseq, next) in [(1, &leases[1]), (2, &leases[2])] {
        world.tenant(TenantMsg::CloseDeployment {
            id: deployment_id(dseq),
        });
        world.blocks(2, BLOCK);
        assert_eq!(world.status().hostnames["a.example"], *next);
        let declared = &world.cluster[next].hostnames;
        assert!(declared.iter().any(|h| h.hostname == "a.example"));
    }
}

#[test]
fn w40_pending_hostname_ends_with_its_manifest() {
    let mut world = World::new();
    world.running(1, &hosted("web", &["a.example"]));
    world.running(2, &hosted("web", &["a.example"]));
    let without = hosted("web", &["b.example"]);
    update(&mut world, 2, &without);
    assert_eq!(kind(world.submit(2, &without)), None);
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.blocks(2, BLOCK);
    assert_eq!(world.status().hostnames.keys().collect::<Vec<_>>(), ["b.example"]);
}

fn assert_has_hostname(world: &World, lease: &LeaseId, hostname: &str) {
    assert_eq!(&world.status().hostnames[hostname], lease);
    let declared = &world.cluster[lease].hostnames;
    assert!(declared.iter().any(|h| h.hostname == hostname));
}

#[test]
fn w40_update_without_a_hostname_frees_it_for_waiting_deployment() {
    let mut world = World::new();
    world.running(1, &hosted("web", &["a.example"]));
    let waits = world.running(2, &hosted("web", &["a.example"]));
    let without = hosted("web", &["b.example"]);
    update(&mut world, 1, &without);
    assert_eq!(kind(world.submit(1, &without)), None);
    assert_has_hostname(&world, &waits, "a.example");
}

#[test]
fn w40_pending_hostname_survives_restart() {
    let mut world = World::new();
    world.running(1, &hosted("web", &["a.example"]));
    let waits = world.running(2, &hosted("web", &["a.example"]));
    world.restart();
    world.tenant(TenantMsg::CloseDeployment { id: deployment_id(1) });
    world.blocks(2, BLOCK);
    assert_has_hostname(&world, &waits, "a.example");
}

#[test]
fn recorded_manifest_retains_hostnames_after_crash_before_declaration() {
    let mut world = World::new();
    let sdl = hosted("web", &["a.example"]);
    let lease = world.lease(1, &sdl);
    world.undeclared = true;
    world.hold = Some(is_deploy);
    assert_eq!(kind(world.submit(1, &sdl)), None);
    world.restart();
    assert_eq!(world.status().hostnames["a.example"], lease);
}

#[test]
fn hostname_under_ingress_domain_is_refused() {
    let mut config = settings();
    config.static_hosts_domain = Some("ingress.example".to_owned());
    let mut world = World::with(config);
    let victim = world.running(1, &web());
    let automatic = format!("{}.ingress.example", victim.ingress_label("web"));
    let sdl = hosted("web", &[automatic.as_str()]);
    world.lease(2, &sdl);
    assert_eq!(kind(world.submit(2, &sdl)), Some(RefusalKind::Hostname));
    let declared = &world.cluster[&victim].hostnames;
    assert!(declared.iter().any(|h| h.hostname == automatic), "{declared:?}");
}

#[test]
fn hostnames_move_between_leases_of_one_tenant_by_command() {
    let mut world = World::new();
    let old = world.running(1, &hosted("web", &["a.example"]));
    let new = world.running(2, &hosted("web", &["a.example"]));
    let hostnames = vec!["A.example".to_owned()];
    let id = world.request(Request::TransferHostnames {
        lease: new.clone(),
        hostnames,
    });
    assert_eq!(kind(world.replies[&id].clone()), None);
    let has = |world: &World, lease| {
        let declared = world.cluster[lease].hostnames.iter();
        declared.into_iter().any(|h| h.hostname == "a.example")
    };
    assert_eq!((has(&world, &old), has(&world, &new)), (false, true));
}

#[test]
fn w43_unavailable_hostname_has_its_own_error() {
    let mut config = settings();
    config.blocked_hostnames = vec![".blocked.example".to_owned()];
    let mut world = World::with(config);
    for (dseq, host) in [(1, "www.blocked.example"), (2, "blocked.example")] {
        let sdl = hosted("web", &[host]);
        world.lease(dseq, &sdl);
        assert_eq!(kind(world.submit(dseq, &sdl)), Some(RefusalKind::Hostname));
    }
    let mut plain = world.config.clone();
    plain.static_hosts_domain = None;
    let mut world = World::with(plain);
    world.lease(1, &web());
    assert_eq!(kind(world.submit(1, &web())), Some(RefusalKind::Hostname));
    assert_eq!(world.status().hostnames.len(), 0);
}

/// If a tenant could use the host of the provider record, the tenant could impersonate the provider.
#[test]
fn host_of_provider_record_is_refused_to_tenants_after_a_change_too() {
    let mut world = World::new();
    let mut dseq = 0;
    let mut asks = |world: &mut World, host: &str| {
        dseq += 1;
        let sdl = sdl_of("web", "nginx:1", &[host], &["east"]);
        world.lease(dseq, &sdl);
        kind(world.submit(dseq, &sdl))
    };
    assert_eq!(asks(&mut world, "provider.example"), Some(RefusalKind::Hostname));
    assert_eq!(
        asks(&mut world, "app.provider.example"),
        Some(RefusalKind::Hostname),
        "subdomains of the host are refused too"
    );
    assert_eq!(asks(&mut world, "held.example"), None);
    let lease = lease_id(3);
    for host in ["held.example", "new.example"] {
        let mut record = world.market.provider(&us()).unwrap().clone();
        record.host_uri = format!("https://{}:8443", host.to_uppercase());
        world.outside(&Msg::UpdateProvider(record));
        world.blocks(1, BLOCK);
    }
    assert_eq!(asks(&mut world, "new.example"), Some(RefusalKind::Hostname));
    assert_eq!(
        asks(&mut world, "provider.example"),
        None,
        "the host is no longer the provider's"
    );
    // A tenant that owned the name before the provider keeps it.
    assert_eq!(world.status().hostnames["held.example"], lease);
    // The tenant also keeps the name after a restart, where the name is part of the first cluster list.
    world.restart();
    assert_eq!(asks(&mut world, "new.example"), Some(RefusalKind::Hostname));
}

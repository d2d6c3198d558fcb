//! Routes and load balancers remain when the definitions of the record kinds are deleted. The provider
//! declares the lost records again.

use super::on_chain::{NAMES, OnChain, PORT};
use super::{declare, give_rights, is_written, options, record, start, take_rights};
use crate::ip_operator::fixture::{self, account};
use crate::world::{World, define, deployment, resource, run, run_alone, service, undefine};
use akash_provider_core::cluster::Cluster;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::manifest::HttpOptions;
use akash_provider_core::types::LeaseId;
use akash_provider_operators::hostname::route::Mode;
use futures::FutureExt;
use kube::Api;
use kube::api::ListParams;
use kube::core::DynamicObject;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum time until the provider has restored the lost records.
const SOON: Duration = Duration::from_secs(10);

/// Returns the UID and the generation of each route and of the load balancer.
async fn objects(world: &World, lease: &LeaseId) -> Vec<String> {
    let home = lease.namespace();
    let mut all = Vec::new();
    for name in NAMES {
        all.push(world.get("Ingress", &home, name).await);
    }
    all.push(fixture::balancer(world, lease, PORT).await);
    let identity = |object: Option<serde_json::Value>| {
        let metadata = object.unwrap()["metadata"].take();
        format!("{} {}", metadata["uid"], metadata["generation"])
    };
    all.into_iter().map(identity).collect()
}

async fn are_served(world: &World) -> bool {
    let own = &world.settings.manifest_namespace;
    let kinds = ["Manifest", "ProviderHost", "ProviderLeasedIP"];
    let lists = kinds.map(async |kind| {
        let api: Api<DynamicObject> = Api::namespaced_with(world.admin.clone(), own, &resource(kind));
        api.list(&ListParams::default()).await
    });
    futures::future::try_join_all(lists).await.is_ok()
}

/// Adds blocks until all records of a lease exist, and returns the elapsed time.
async fn until_declared(world: &World, provider: &OnChain, lease: &LeaseId) -> Duration {
    let (own, since) = (&world.settings.manifest_namespace, Instant::now());
    let (home, address) = (lease.namespace(), fixture::declared(lease, "front", PORT));
    let records = [("Manifest", home.as_str()), ("ProviderLeasedIP", &address)];
    let records = || {
        NAMES
            .map(|name| ("ProviderHost", name))
            .into_iter()
            .chain(records)
    };
    let is_declared = || {
        provider.block(async || {
            let found = records().map(|(kind, name)| world.get(kind, own, name));
            futures::future::join_all(found).await.iter().all(Option::is_some)
        })
    };
    world
        .until("the provider has declared all records", is_declared)
        .await;
    since.elapsed()
}

#[test]
fn deleted_definitions_delete_no_route_and_the_provider_declares_its_records_again() {
    run_alone("op-definitions", |world, _testbed| {
        async move {
            give_rights(world).await;
            let ip_account = account(world).await;
            let mut settings = world.settings.clone();
            (settings.leased_ips, settings.leased_ip_pool) = (true, 2);
            let cluster = world.connect_with(settings).await;
            let provider = OnChain::start(world, Arc::clone(&cluster)).await;
            let lease = provider.lease(world).await;
            until_declared(world, &provider, &lease).await;
            // Before the operators start, because they delete the route of a hostname if only its record is
            // missing.
            world
                .delete("ProviderHost", &world.settings.manifest_namespace, NAMES[0])
                .await;
            let took = until_declared(world, &provider, &lease).await;
            assert!(took < SOON, "one deleted record is declared again after {took:?}");
            let operator = start(&world.client, options(world, Mode::default())).await;
            let ips = fixture::start(&ip_account, fixture::options(world)).await;
            let written = || async {
                NAMES.iter().all(|name| is_written(&operator, name))
                    && fixture::is_written(&ips, &lease, PORT)
            };
            world.until("all records have their objects", written).await;
            let before = objects(world, &lease).await;
            undefine(&world.admin).await;
            let is_held = || async {
                let hold = operator.status().hold;
                hold.is_some_and(|hold| hold.names == NAMES.len())
            };
            world.until("the deletions are held", is_held).await;
            let update = deployment(&world.lease(1, 2), vec![service("web")]);
            let error = cluster.record(&update).await.unwrap_err();
            let is_outage = error.kind() == ErrorKind::Unavailable && error.is_transient();
            assert!(is_outage, "{error}");
            // Longer than the interval between two reads of the operators.
            tokio::time::sleep(Duration::from_secs(6)).await;
            define(&world.admin).await;
            let served = || are_served(world);
            world.until("the kinds are served", served).await;
            let took = until_declared(world, &provider, &lease).await;
            println!("all records are declared again {took:?} after the definitions");
            assert!(took < SOON, "all records are declared again after {took:?}");
            let released = || async {
                operator.status().hold.is_none() && ips.status().hold.is_none() && written().await
            };
            world.until("the holds have ended", released).await;
            assert_eq!(objects(world, &lease).await, before);
            let deleted = (operator.status().counts.deleted, ips.status().counts.deleted);
            assert_eq!(deleted, (0, 0));
            tokio::join!(operator.stop(), ips.stop());
            fixture::take_rights(world).await;
            take_rights(world).await;
        }
        .boxed()
    });
}

/// Deletes and restores the definition of the records while no operator runs.
#[test]
fn restarted_operator_deletes_no_objects_of_lost_records() {
    run("op-down", |world| {
        async move {
            give_rights(world).await;
            let ip_account = account(world).await;
            let lease = world.lease(1, 1);
            let (home, own) = (lease.namespace(), &world.settings.manifest_namespace);
            let mut wanted = service("web");
            wanted.expose[0].hosts = Some(vec![NAMES[0].to_owned()]);
            wanted.expose[1].ip = "front".to_owned();
            wanted.expose[1].external_port = PORT;
            let wanted = deployment(&lease, vec![wanted]);
            let declare_all = async || {
                declare(world, &lease, NAMES[0]).await;
                fixture::declare(world, &lease, "front", PORT).await;
            };
            let start = async || {
                let routes = start(&world.client, options(world, Mode::default())).await;
                (routes, fixture::start(&ip_account, fixture::options(world)).await)
            };
            // The namespace is recreated too.
            record(world, &lease, &HttpOptions::default()).await;
            fixture::record_as(world, &wanted).await;
            declare_all().await;
            let (routes, ips) = start().await;
            let written =
                || async { is_written(&routes, NAMES[0]) && fixture::is_written(&ips, &lease, PORT) };
            world.until("both records have their objects", written).await;
            tokio::join!(routes.stop(), ips.stop());
            let address = fixture::declared(&lease, "front", PORT);
            let lost = [
                ("Manifest", home.as_str()),
                ("ProviderHost", NAMES[0]),
                ("ProviderLeasedIP", &address),
            ];
            for (kind, name) in lost {
                world.delete(kind, own, name).await;
            }
            // The provider needs other records. Without any record the operator recognizes no object as the
            // provider's.
            fixture::record_as(world, &deployment(&world.lease(1, 2), vec![service("web")])).await;
            world.take_calls();
            let (routes, ips) = start().await;
            let is_held =
                || async { [routes.status().hold, ips.status().hold].iter().flatten().count() == 2 };
            world.until("both deletions are held", is_held).await;
            // The Manifest arrives first and lists both names.
            fixture::record_as(world, &wanted).await;
            tokio::time::sleep(Duration::from_millis(5_500)).await;
            let (named, leased) = (routes.status(), ips.status());
            assert!(is_held().await, "{named:?} {leased:?}");
            declare_all().await;
            let written = || async {
                !is_held().await && is_written(&routes, NAMES[0]) && fixture::is_written(&ips, &lease, PORT)
            };
            world.until("the holds have ended", written).await;
            let deletes = world
                .take_writes()
                .into_iter()
                .filter(|call| call.method == "DELETE");
            assert_eq!(deletes.count(), 0);
            tokio::join!(routes.stop(), ips.stop());
            fixture::take_rights(world).await;
            take_rights(world).await;
        }
        .boxed()
    });
}

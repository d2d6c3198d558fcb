//! Routes outlive the definitions of the records.

use super::{declare, give_rights, is_written, options, record, start, take_rights};
use crate::ip_operator::corner::{self, account};
use crate::world::{World, define, deployment, run, run_alone, service};
use akash_provider_core::cluster::Cluster;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::manifest::HttpOptions;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::operators::hostname::route::Mode;
use futures::FutureExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::DeleteParams;
use std::time::Duration;

/// Port of the leased address.
const PORT: u16 = 8080;
const NAMES: [&str; 3] = ["a.example.com", "b.example.com", "c.example.com"];

/// UIDs of the routes: another UID is a route that was deleted meanwhile.
async fn routes(world: &World, home: &str) -> Vec<String> {
    let mut uids = Vec::new();
    for name in NAMES {
        let route = world.get("Ingress", home, name).await;
        uids.push(route.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned());
    }
    uids
}

async fn records(world: &World, lease: &LeaseId) {
    record(world, lease, &HttpOptions::default()).await;
    for name in NAMES {
        declare(world, lease, name).await;
    }
}

async fn are_established(definitions: &Api<CustomResourceDefinition>, names: &[String]) -> bool {
    let all = names.iter().map(|name| definitions.get(name));
    let all = futures::future::try_join_all(all).await.unwrap();
    all.iter().all(|definition| {
        let conditions = definition
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        conditions
            .into_iter()
            .any(|c| c.type_ == "Established" && c.status == "True")
    })
}

#[test]
fn deleted_definitions_delete_no_route_and_a_manifest_is_not_refused_meanwhile() {
    run_alone("op-definitions", |world, _testbed| {
        async move {
            give_rights(world).await;
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let home = lease.namespace();
            records(world, &lease).await;
            let operator = start(&world.client, options(world, Mode::default())).await;
            let written = || async { NAMES.iter().all(|name| is_written(&operator, name)) };
            world.until("all have their routes", written).await;
            let before = routes(world, &home).await;
            let definitions: Api<CustomResourceDefinition> = Api::all(world.admin.clone());
            let names = ["manifests", "providerhosts", "providerleasedips"]
                .map(|kind| format!("{kind}.akash.network"));
            for name in &names {
                definitions.delete(name, &DeleteParams::default()).await.unwrap();
            }
            let deleted = || async {
                let all = names.iter().map(|name| definitions.get_opt(name));
                futures::future::try_join_all(all)
                    .await
                    .unwrap()
                    .iter()
                    .all(Option::is_none)
            };
            world.until("the definitions are deleted", deleted).await;
            let is_held = || async {
                operator
                    .status()
                    .hold
                    .is_some_and(|hold| hold.names == NAMES.len())
            };
            world.until("the deletions are held", is_held).await;
            let update = deployment(&world.lease(1, 2), vec![service("web")]);
            let error = cluster.record(&update).await.unwrap_err();
            assert!(
                error.kind() == ErrorKind::Unavailable && error.is_transient(),
                "{error}"
            );
            define(&world.admin).await;
            let served = || are_established(&definitions, &names);
            world.until("the definitions are served", served).await;
            // Longer than the operator waits between two readings of the empty list.
            tokio::time::sleep(Duration::from_secs(6)).await;
            assert_eq!(
                routes(world, &home).await,
                before,
                "the empty kinds delete nothing"
            );
            records(world, &lease).await;
            let released = || async { operator.status().hold.is_none() && written().await };
            world.until("the hold has ended", released).await;
            assert_eq!(routes(world, &home).await, before);
            assert_eq!(operator.status().counts.deleted, 0);
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

/// What a definition takes along that is deleted and restored while an operator is down.
#[test]
fn an_operator_that_was_down_while_records_were_lost_deletes_no_route_and_no_load_balancer() {
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
                corner::declare(world, &lease, "front", PORT).await;
            };
            let start = async || {
                let routes = start(&world.client, options(world, Mode::default())).await;
                (routes, corner::start(&ip_account, corner::options(world)).await)
            };
            // The namespace too.
            record(world, &lease, &HttpOptions::default()).await;
            corner::record_as(world, &wanted).await;
            declare_all().await;
            let (routes, ips) = start().await;
            let written =
                || async { is_written(&routes, NAMES[0]) && corner::is_written(&ips, &lease, PORT) };
            world.until("both have their objects", written).await;
            tokio::join!(routes.stop(), ips.stop());
            let address = corner::declared(&lease, "front", PORT);
            let lost = [
                ("Manifest", home.as_str()),
                ("ProviderHost", NAMES[0]),
                ("ProviderLeasedIP", &address),
            ];
            for (kind, name) in lost {
                world.delete(kind, own, name).await;
            }
            // Other records of the provider are there, or nothing would be known as its own.
            corner::record_as(world, &deployment(&world.lease(1, 2), vec![service("web")])).await;
            world.take_calls();
            let (routes, ips) = start().await;
            let is_held =
                || async { [routes.status().hold, ips.status().hold].iter().flatten().count() == 2 };
            world.until("both deletions are held", is_held).await;
            // The Manifest comes first, and names both.
            corner::record_as(world, &wanted).await;
            tokio::time::sleep(Duration::from_millis(5_500)).await;
            let (named, leased) = (routes.status(), ips.status());
            assert!(is_held().await, "{named:?} {leased:?}");
            declare_all().await;
            let written = || async {
                !is_held().await && is_written(&routes, NAMES[0]) && corner::is_written(&ips, &lease, PORT)
            };
            world.until("the holds have ended", written).await;
            let deletes = world
                .take_writes()
                .into_iter()
                .filter(|call| call.method == "DELETE");
            assert_eq!(deletes.count(), 0);
            tokio::join!(routes.stop(), ips.stop());
            corner::take_rights(world).await;
            take_rights(world).await;
        }
        .boxed()
    });
}

//! The IP operator with the rights of `deploy/operators/ip.yaml` and no others. MetalLB is not at hand: its pools are
//! defined here with the fields that are read, and the tests give addresses in its place. Each gives those of
//! a range of its own: what is in use is counted in the whole cluster.

#[path = "ip_operator/corner.rs"]
pub(crate) mod corner;

use crate::world::{World, put, run, run_alone};
use akash_provider_core::inventory::InventorySource;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::inventory::KubeInventory;
use akash_provider_k8s::labels;
use corner::{
    POOLS, account, balancer, declare, declared, define_pools, give, is_written, key, name, options, pool,
    pools, record, start, state, take_rights, undeclare, writes,
};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn addresses_become_load_balancers_and_follow_their_records() {
    run("ip-follow", |world| {
        async move {
            let client = account(world).await;
            define_pools(world).await;
            pool(world, "default", &["203.0.113.0/28", "garbage"]).await;
            let lease = world.lease(1, 1);
            record(world, &lease).await;
            declare(world, &lease, "front", 80).await;
            declare(world, &lease, "front", 443).await;
            world.take_calls();
            let operator = start(&client, options(world)).await;
            let both = || async { is_written(&operator, &lease, 80) && is_written(&operator, &lease, 443) };
            world.until("both have their Services", both).await;
            assert_eq!(writes(world).len(), 2);
            let made = balancer(world, &lease, 80).await.unwrap();
            assert_eq!(made["spec"]["type"], "LoadBalancer");
            assert_eq!(made["spec"]["ports"][0]["targetPort"], 8080);
            let annotations = json!({"metallb.universe.tf/allow-shared-ip": key(&lease, "front")});
            assert_eq!(
                made["metadata"]["annotations"], annotations,
                "and they share an address"
            );
            // The address comes when MetalLB does, and is counted once.
            assert!(state(&operator, &lease, 80).unwrap().waiting_since.is_some());
            assert!(
                operator
                    .assigned(&lease)
                    .unwrap_err()
                    .contains("has 0 load balancers")
            );
            for port in [80, 443] {
                give(world, &lease, port, &["203.0.113.7"]).await;
            }
            let counted = || async { operator.usage().known() == Some((16, 1)) };
            world.until("it is counted", counted).await;
            // With the first of them, before the other was heard of.
            let both = || async { operator.assigned(&lease).is_ok() };
            world.until("both have it", both).await;
            let assigned = operator.assigned(&lease).unwrap();
            assert_eq!((assigned.len(), assigned[0].ip.as_str()), (2, "203.0.113.7"));
            assert_eq!(operator.usage().pools["default"].problems.len(), 1);
            assert_eq!(operator.held()[&lease.to_string()].len(), 2);
            // It may ask MetalLB's controller, which is not there.
            let asked = || async { operator.status().metallb.error.is_some() };
            world.until("MetalLB is asked", asked).await;
            let error = operator.status().metallb.error.unwrap();
            assert!(error.contains("not found"), "{error}");
            pool(world, "more", &["198.51.100.1-198.51.100.4"]).await;
            let grows = || async { operator.usage().known() == Some((20, 1)) };
            world.until("another pool counts too", grows).await;
            assert_eq!(writes(world), [""; 0], "what MetalLB does is no reason to write");
            // What somebody changes by hand is mended, what nobody wants goes, and the other port stays.
            let edit = json!({"spec": {"selector": {labels::SERVICE: "other"}}});
            world.edit("Service", &lease.namespace(), &name(80), edit).await;
            let is_mended = || async {
                let made = balancer(world, &lease, 80).await.unwrap();
                made["spec"]["selector"][labels::SERVICE] == "web"
            };
            world.until("it is mended", is_mended).await;
            undeclare(world, &lease, "front", 443).await;
            let is_gone = || async { balancer(world, &lease, 443).await.is_none() };
            world.until("it is gone", is_gone).await;
            assert_eq!(writes(world), ["PATCH web-ip-80-tcp", "DELETE web-ip-443-tcp"]);
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

/// As `CreateIPPassthrough` of today's operator writes it.
async fn by_todays_operator(world: &World, lease: &LeaseId, endpoint: &str, port: u16) {
    let mut object_labels = labels::lease(lease);
    object_labels.insert(labels::MANAGED.to_owned(), "true".to_owned());
    object_labels.insert(labels::SERVICE_TARGET.to_owned(), "metal-lb".to_owned());
    let service: Service = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": name(port), "labels": object_labels,
            "annotations": {"metallb.universe.tf/allow-shared-ip": key(lease, endpoint)},
        },
        "spec": {
            "type": "LoadBalancer",
            "ports": [{"name": name(port), "port": port, "targetPort": 8080, "protocol": "TCP"}],
            "selector": {labels::MANAGED: "true", labels::SERVICE: "web"},
        },
    }))
    .unwrap();
    let api: Api<Service> = Api::namespaced(world.admin.clone(), &lease.namespace());
    let params = kube::api::PostParams {
        field_manager: Some("provider-services".to_owned()),
        ..kube::api::PostParams::default()
    };
    api.create(&params, &service).await.unwrap();
}

#[test]
fn what_todays_operator_left_is_taken_over_and_what_it_missed_is_found() {
    run("ip-takeover", |world| {
        async move {
            let client = account(world).await;
            define_pools(world).await;
            let (one, two) = (world.lease(1, 1), world.lease(2, 2));
            for lease in [&one, &two] {
                record(world, lease).await;
                by_todays_operator(world, lease, "front", 80).await;
                declare(world, lease, "front", 80).await;
                give(world, lease, 80, &[if *lease == one { "203.0.113.33" } else { "203.0.113.34" }]).await;
            }
            world.take_calls();
            let first = start(&client, options(world)).await;
            let at_rest =
                || async { is_written(&first, &one, 80) && is_written(&first, &two, 80) && first.status().busy == 0 };
            world.until("at rest", at_rest).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(writes(world), [""; 0], "a start over what is there writes nothing");
            first.stop().await;
            undeclare(world, &one, "front", 80).await;
            let second = start(&client, options(world)).await;
            let is_gone = || async { balancer(world, &one, 80).await.is_none() };
            world.until("what was missed is gone", is_gone).await;
            // One tenant's is one tenant's: the other keeps what it has.
            assert_eq!(writes(world), ["DELETE web-ip-80-tcp"]);
            let kept = balancer(world, &two, 80).await.unwrap();
            assert_eq!(kept["status"]["loadBalancer"]["ingress"][0]["ip"], "203.0.113.34");
            // Its own writes over another's are taken over as a whole.
            declare(world, &two, "front", 80).await;
            second.stop().await;
            let mut named = options(world);
            named.mode.pool = "public".to_owned();
            named.mode.words = akash_provider_k8s::operators::ip::balancer::AnnotationPrefix::New;
            let third = start(&client, named).await;
            let wanted = json!({"metallb.io/allow-shared-ip": key(&two, "front"), "metallb.io/address-pool": "public"});
            let is_so =
                || async { balancer(world, &two, 80).await.unwrap()["metadata"]["annotations"] == wanted };
            world.until("the old words go", is_so).await;
            let kept = balancer(world, &two, 80).await.unwrap();
            assert_eq!(kept["status"]["loadBalancer"]["ingress"][0]["ip"], "203.0.113.34", "its address stays");
            third.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

/// Somebody's Service in the place of one of ours.
async fn foreign(world: &World, lease: &LeaseId, port: u16) -> Value {
    let foreign = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name(port), "namespace": lease.namespace()},
        "spec": {"ports": [{"port": 1}]},
    });
    put(&world.admin, &foreign, "somebody").await;
    balancer(world, lease, port).await.unwrap()
}

/// Hostile texts and numbers that are none: the ports of their records, and what is said of them.
async fn spoil(world: &World, lease: &LeaseId) -> [(u16, &'static str); 4] {
    let own = &world.settings.manifest_namespace;
    let stranger = key(&world.lease(2, 2), "front");
    for (port, spec) in [
        (82, json!({"service_name": "web; rm -rf"})),
        (83, json!({"sharing_key": stranger})),
        (84, json!({"port": 0})),
        (85, json!({"external_port": 4_000_000_000_u32})),
    ] {
        declare(world, lease, "front", port).await;
        let record = declared(lease, "front", port);
        world
            .edit("ProviderLeasedIP", own, &record, json!({"spec": spec}))
            .await;
    }
    [
        (82, "invalid service name"),
        (83, "invalid sharing key"),
        (84, "invalid port"),
        (85, "invalid port"),
    ]
}

#[test]
fn nothing_foreign_is_touched_and_garbage_holds_nobody_up() {
    run("ip-foreign", |world| {
        async move {
            let client = account(world).await;
            define_pools(world).await;
            // The namespace of the second is not there.
            let (lease, homeless) = (world.lease(1, 1), world.lease(9, 9));
            record(world, &lease).await;
            let before = foreign(world, &lease, 81).await;
            for (lease, port) in [(&lease, 80), (&lease, 81), (&homeless, 80)] {
                declare(world, lease, "front", port).await;
            }
            let spoilt = spoil(world, &lease).await;
            let operator = start(&client, options(world)).await;
            let good = || async { is_written(&operator, &lease, 80) };
            world.until("the good one is written", good).await;
            for (port, why) in spoilt {
                let record = declared(&lease, "front", port);
                let told = || async {
                    let status = operator.status();
                    let problem = status.addresses.get(&record).and_then(|a| a.problem.clone());
                    problem.is_some_and(|problem| problem.contains(why))
                };
                world.until(why, told).await;
                assert!(balancer(world, &lease, port).await.is_none());
            }
            for (lease, port, why) in [(&lease, 81, "another client"), (&homeless, 80, "not found")] {
                let told = || async {
                    let error = state(&operator, lease, port).and_then(|state| state.error);
                    error.is_some_and(|error| error.contains(why))
                };
                world.until(why, told).await;
            }
            assert_eq!(balancer(world, &lease, 81).await.unwrap(), before);
            assert!(operator.ignored_leases().contains_key(&lease.to_string()));
            // The way out of each.
            world.delete("Service", &lease.namespace(), &name(81)).await;
            declare(world, &lease, "front", 82).await;
            record(world, &homeless).await;
            assert_eq!(operator.forget(&homeless.to_string()), 1);
            let all = || async {
                let of_lease = [81, 82].iter().all(|port| is_written(&operator, &lease, *port));
                of_lease && is_written(&operator, &homeless, 80)
            };
            world.until("each has its Service", all).await;
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn a_port_that_moves_is_on_one_service_at_a_time() {
    run("ip-move", |world| {
        async move {
            let client = account(world).await;
            define_pools(world).await;
            let (one, two, other) = (world.lease(1, 1), world.lease(1, 2), world.lease(2, 3));
            for lease in [&one, &two, &other] {
                record(world, lease).await;
            }
            declare(world, &one, "front", 80).await;
            declare(world, &other, "front", 80).await;
            let operator = start(&client, options(world)).await;
            let both = || async { is_written(&operator, &one, 80) && is_written(&operator, &other, 80) };
            world.until("both are written", both).await;
            world.take_calls();
            let own = &world.settings.manifest_namespace;
            let moved = json!({"spec": {"lease_id": {"dseq": "2"}}});
            world
                .edit("ProviderLeasedIP", own, &declared(&one, "front", 80), moved)
                .await;
            let has_moved =
                || async { balancer(world, &one, 80).await.is_none() && is_written(&operator, &two, 80) };
            world.until("it has moved", has_moved).await;
            let calls = writes(world);
            assert_eq!(calls, ["DELETE web-ip-80-tcp", "PATCH web-ip-80-tcp"]);
            assert!(balancer(world, &other, 80).await.is_some());
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn a_late_or_wrong_metallb_is_said() {
    run("ip-late", |world| {
        async move {
            let client = account(world).await;
            define_pools(world).await;
            pool(world, "public", &["203.0.113.16/28"]).await;
            let (one, two, three) = (world.lease(1, 1), world.lease(2, 2), world.lease(3, 3));
            for lease in [&one, &two, &three] {
                record(world, lease).await;
                declare(world, lease, "front", 80).await;
            }
            let mut options = options(world);
            options.mode.pool = "public".to_owned();
            let operator = start(&client, options).await;
            let all = || async {
                [&one, &two, &three]
                    .iter()
                    .all(|lease| is_written(&operator, lease, 80))
            };
            world.until("all are written", all).await;
            let notices = |lease: &LeaseId| state(&operator, lease, 80).unwrap().notices.join("; ");
            // Nobody comes: that is waited for, for as long as it takes, and nothing is written again.
            world.take_calls();
            assert!(state(&operator, &one, 80).unwrap().waiting_since.is_some());
            assert_eq!(notices(&one), "", "a moment is not late");
            // One address for two tenants, and one from elsewhere.
            give(world, &one, 80, &["203.0.113.21"]).await;
            give(world, &two, 80, &["203.0.113.21"]).await;
            give(world, &three, 80, &["192.0.2.1"]).await;
            world
                .until("a shared address is told", || async {
                    notices(&one).contains("shared with tenant")
                })
                .await;
            world
                .until("on both", || async {
                    notices(&two).contains("shared with tenant")
                })
                .await;
            let outside = || async { notices(&three).contains("192.0.2.1 is not in pool `public`") };
            world.until("an address of no pool is told", outside).await;
            assert_eq!(
                operator.usage().known(),
                Some((16, 1)),
                "what is outside is not counted"
            );
            // Twice, and taken away again.
            give(world, &two, 80, &["203.0.113.22"]).await;
            world
                .until("it is mended", || async { notices(&one).is_empty() })
                .await;
            give(world, &two, 80, &[]).await;
            let waits = || async { state(&operator, &two, 80).unwrap().waiting_since.is_some() };
            world.until("it waits again", waits).await;
            assert_eq!(writes(world), [""; 0], "MetalLB's doings are no reason to write");
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn a_cluster_without_pools_is_served_and_their_number_is_unknown() {
    run_alone("ip-no-pools", |world, _| {
        async move {
            let definitions: Api<CustomResourceDefinition> = Api::all(world.admin.clone());
            let _ = definitions.delete(POOLS, &DeleteParams::default()).await;
            let gone = || async { definitions.get_opt(POOLS).await.unwrap().is_none() };
            world.until("nobody serves pools", gone).await;
            let client = account(world).await;
            let lease = world.lease(1, 1);
            record(world, &lease).await;
            declare(world, &lease, "front", 80).await;
            let operator = start(&client, options(world)).await;
            world
                .until("it is written", || async { is_written(&operator, &lease, 80) })
                .await;
            let told = || async { operator.status().watches["ipaddresspools"].last_error.is_some() };
            world.until("it is told", told).await;
            assert_eq!(operator.usage().known(), None);
            assert!(operator.usage().problem.unwrap().contains("are unknown"));
            define_pools(world).await;
            pool(world, "default", &["203.0.113.0/28"]).await;
            let known = || async { operator.usage().known() == Some((16, 0)) };
            world.until("they came, and are counted", known).await;
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn the_provider_promises_what_the_pools_have() {
    run("ip-capacity", |world| {
        async move {
            define_pools(world).await;
            let mut settings = world.settings.clone();
            settings.leased_ips = true;
            settings
                .metallb_namespace
                .clone_from(&settings.manifest_namespace);
            let lease = world.lease(1, 1);
            record(world, &lease).await;
            // With the account of the provider, and not that of the operator.
            let inventory = KubeInventory::start(&world.client, &settings, &Default::default());
            let usage = Arc::new(Mutex::new(None));
            let seen = Arc::clone(&usage);
            let mut updates = inventory.watch();
            let following = tokio::spawn(async move {
                while let Some(update) = updates.next().await {
                    let Ok(update) = update else { continue };
                    let pool = update.leased_ips.map(|usage| (usage.total, usage.in_use));
                    *seen.lock().unwrap() = Some(pool);
                }
            });
            let is = |wanted: (u32, u32)| {
                let usage = Arc::clone(&usage);
                move || std::future::ready(*usage.lock().unwrap() == Some(Some(wanted)))
            };
            world.until("no pool, no address", is((0, 0))).await;
            pool(world, "default", &["203.0.113.48/28"]).await;
            world.until("those of the pool", is((16, 0))).await;
            // An address of a lease is promised by its reservation; one that somebody else has is gone.
            by_todays_operator(world, &lease, "front", 80).await;
            give(world, &lease, 80, &["203.0.113.49"]).await;
            let edge = json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": name(81), "namespace": lease.namespace()},
                "spec": {"type": "LoadBalancer", "ports": [{"port": 81}]},
            });
            put(&world.admin, &edge, "somebody").await;
            give(world, &lease, 81, &["203.0.113.50"]).await;
            world.until("one of others", is((16, 1))).await;
            assert_eq!(settings.leased_pool(), Some((16, 1)), "and the backend knows it");
            // Without a pool nothing is left of it.
            pools(world)
                .delete("default", &DeleteParams::default())
                .await
                .unwrap();
            world.until("the pool is gone", is((0, 0))).await;
            following.abort();
        }
        .boxed()
    });
}

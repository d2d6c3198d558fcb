//! The IP operator with only the rights of `deploy/operators/ip.yaml`. MetalLB is not installed: the tests
//! define the kind of its address pools with only the fields that the operator reads, and assign addresses as
//! MetalLB would. Each test uses its own address range, because the usage is counted in the whole cluster.

#[path = "ip_operator/fixture.rs"]
pub(crate) mod fixture;

use crate::world::{World, put, run, run_alone};
use akash_provider_core::inventory::InventorySource;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::inventory::{CapacityOptions, KubeInventory};
use akash_provider_k8s::labels;
use akash_provider_kube_model::settings::{KubeSettings, LeasedIpCount};
use akash_provider_operators::ip::IpOperator;
use fixture::{
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
            world.until("both ports have their Services", both).await;
            assert_eq!(writes(world).len(), 2);
            let made = balancer(world, &lease, 80).await.unwrap();
            assert_eq!(made["spec"]["type"], "LoadBalancer");
            assert_eq!(made["spec"]["ports"][0]["targetPort"], 8080);
            let annotations = json!({"metallb.universe.tf/allow-shared-ip": key(&lease, "front")});
            assert_eq!(
                made["metadata"]["annotations"], annotations,
                "both Services share an address"
            );
            // The address arrives from MetalLB and is counted once.
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
            world.until("the address is counted", counted).await;
            // The address counts with the first Service, before the second one is observed.
            let both = || async { operator.assigned(&lease).is_ok() };
            world.until("both Services have the address", both).await;
            let assigned = operator.assigned(&lease).unwrap();
            assert_eq!((assigned.len(), assigned[0].ip.as_str()), (2, "203.0.113.7"));
            assert_eq!(operator.usage().pools["default"].problems.len(), 1);
            assert_eq!(operator.port_states()[&lease.to_string()].len(), 2);
            // The operator may query MetalLB's controller, which is not installed.
            let asked = || async { operator.status().metallb.error.is_some() };
            world.until("MetalLB is queried", asked).await;
            let error = operator.status().metallb.error.unwrap();
            assert!(error.contains("not found"), "{error}");
            pool(world, "more", &["198.51.100.1-198.51.100.4"]).await;
            let grows = || async { operator.usage().known() == Some((20, 1)) };
            world.until("another pool counts too", grows).await;
            assert_eq!(writes(world), [""; 0], "updates of MetalLB cause no write");
            // Manual changes are repaired, an unwanted Service is deleted, and the other port stays.
            let edit = json!({"spec": {"selector": {labels::SERVICE: "other"}}});
            world.edit("Service", &lease.namespace(), &name(80), edit).await;
            let is_mended = || async {
                let made = balancer(world, &lease, 80).await.unwrap();
                made["spec"]["selector"][labels::SERVICE] == "web"
            };
            world.until("the change is reverted", is_mended).await;
            undeclare(world, &lease, "front", 443).await;
            let is_gone = || async { balancer(world, &lease, 443).await.is_none() };
            world.until("the Service is deleted", is_gone).await;
            assert_eq!(writes(world), ["PATCH web-ip-80-tcp", "DELETE web-ip-443-tcp"]);
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

async fn create_go_operator_service(world: &World, lease: &LeaseId, endpoint: &str, port: u16) {
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
fn services_of_the_go_operator_are_adopted_and_orphans_deleted() {
    run("ip-takeover", |world| {
        async move {
            let client = account(world).await;
            define_pools(world).await;
            let (one, two) = (world.lease(1, 1), world.lease(2, 2));
            for lease in [&one, &two] {
                record(world, lease).await;
                create_go_operator_service(world, lease, "front", 80).await;
                declare(world, lease, "front", 80).await;
                give(world, lease, 80, &[if *lease == one { "203.0.113.33" } else { "203.0.113.34" }]).await;
            }
            world.take_calls();
            let first = start(&client, options(world)).await;
            let at_rest =
                || async { is_written(&first, &one, 80) && is_written(&first, &two, 80) && first.status().busy == 0 };
            world.until("the operator is idle", at_rest).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(writes(world), [""; 0], "a start with existing Services writes nothing");
            first.stop().await;
            undeclare(world, &one, "front", 80).await;
            let second = start(&client, options(world)).await;
            let is_gone = || async { balancer(world, &one, 80).await.is_none() };
            world.until("the orphaned Service is deleted", is_gone).await;
            // The Service of another tenant stays.
            assert_eq!(writes(world), ["DELETE web-ip-80-tcp"]);
            let service = balancer(world, &two, 80).await.unwrap();
            assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], "203.0.113.34");
            // Its own writes take over the complete Service of the Go operator.
            declare(world, &two, "front", 80).await;
            second.stop().await;
            let mut named = options(world);
            named.mode.pool = "public".to_owned();
            named.mode.words = akash_provider_operators::ip::balancer::AnnotationPrefix::New;
            let third = start(&client, named).await;
            let wanted = json!({"metallb.io/allow-shared-ip": key(&two, "front"), "metallb.io/address-pool": "public"});
            let is_so =
                || async { balancer(world, &two, 80).await.unwrap()["metadata"]["annotations"] == wanted };
            world.until("the old annotations are removed", is_so).await;
            let service = balancer(world, &two, 80).await.unwrap();
            assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], "203.0.113.34", "the address stays");
            third.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

/// Creates a Service as another client, under the name that the operator uses for this port.
async fn foreign(world: &World, lease: &LeaseId, port: u16) -> Value {
    let foreign = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name(port), "namespace": lease.namespace()},
        "spec": {"ports": [{"port": 1}]},
    });
    put(&world.admin, &foreign, "somebody").await;
    balancer(world, lease, port).await.unwrap()
}

/// Creates invalid records. Returns the port and the expected error of each record.
async fn declare_invalid_records(world: &World, lease: &LeaseId) -> [(u16, &'static str); 4] {
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
fn foreign_objects_stay_and_invalid_records_delay_no_others() {
    run("ip-foreign", |world| {
        async move {
            let client = account(world).await;
            define_pools(world).await;
            // The namespace of the second lease does not exist.
            let (lease, homeless) = (world.lease(1, 1), world.lease(9, 9));
            record(world, &lease).await;
            let before = foreign(world, &lease, 81).await;
            for (lease, port) in [(&lease, 80), (&lease, 81), (&homeless, 80)] {
                declare(world, lease, "front", port).await;
            }
            let spoilt = declare_invalid_records(world, &lease).await;
            let operator = start(&client, options(world)).await;
            let good = || async { is_written(&operator, &lease, 80) };
            world.until("the valid record is written", good).await;
            for (port, why) in spoilt {
                let record = declared(&lease, "front", port);
                let is_reported = || async {
                    let status = operator.status();
                    let problem = status.addresses.get(&record).and_then(|a| a.problem.clone());
                    problem.is_some_and(|problem| problem.contains(why))
                };
                world.until(why, is_reported).await;
                assert!(balancer(world, &lease, port).await.is_none());
            }
            for (lease, port, why) in [(&lease, 81, "another client"), (&homeless, 80, "not found")] {
                let is_reported = || async {
                    let error = state(&operator, lease, port).and_then(|state| state.error);
                    error.is_some_and(|error| error.contains(why))
                };
                world.until(why, is_reported).await;
            }
            assert_eq!(balancer(world, &lease, 81).await.unwrap(), before);
            assert!(operator.ignored_leases().contains_key(&lease.to_string()));
            // The remedy of each error.
            world.delete("Service", &lease.namespace(), &name(81)).await;
            declare(world, &lease, "front", 82).await;
            record(world, &homeless).await;
            assert_eq!(operator.forget(&homeless.to_string()), 1);
            let all = || async {
                let of_lease = [81, 82].iter().all(|port| is_written(&operator, &lease, *port));
                of_lease && is_written(&operator, &homeless, 80)
            };
            world.until("each port has its Service", all).await;
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn moved_port_is_on_one_service_at_a_time() {
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
            world.until("both ports are written", both).await;
            world.take_calls();
            let own = &world.settings.manifest_namespace;
            let moved = json!({"spec": {"lease_id": {"dseq": "2"}}});
            world
                .edit("ProviderLeasedIP", own, &declared(&one, "front", 80), moved)
                .await;
            let has_moved =
                || async { balancer(world, &one, 80).await.is_none() && is_written(&operator, &two, 80) };
            world.until("the port has moved", has_moved).await;
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
fn missing_or_wrong_addresses_of_metallb_are_reported() {
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
            world.until("all Services are written", all).await;
            let notices = |lease: &LeaseId| state(&operator, lease, 80).unwrap().notices.join("; ");
            // A missing address is awaited without limit and without further writes.
            world.take_calls();
            assert!(state(&operator, &one, 80).unwrap().waiting_since.is_some());
            assert_eq!(notices(&one), "", "a short wait is not reported");
            // One address for two tenants, and an address outside of the pools.
            give(world, &one, 80, &["203.0.113.21"]).await;
            give(world, &two, 80, &["203.0.113.21"]).await;
            give(world, &three, 80, &["192.0.2.1"]).await;
            world
                .until("a shared address is reported", || async {
                    notices(&one).contains("shared with tenant")
                })
                .await;
            world
                .until("the shared address is reported for both", || async {
                    notices(&two).contains("shared with tenant")
                })
                .await;
            let outside = || async { notices(&three).contains("192.0.2.1 is not in pool `public`") };
            world
                .until("an address outside of the pools is reported", outside)
                .await;
            assert_eq!(
                operator.usage().known(),
                Some((16, 1)),
                "an address outside of the pools is not counted"
            );
            // An address is assigned again and then removed.
            give(world, &two, 80, &["203.0.113.22"]).await;
            world
                .until("the notice is removed", || async { notices(&one).is_empty() })
                .await;
            give(world, &two, 80, &[]).await;
            let waits = || async { state(&operator, &two, 80).unwrap().waiting_since.is_some() };
            world.until("the Service waits again", waits).await;
            assert_eq!(writes(world), [""; 0], "updates of MetalLB cause no write");
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn cluster_without_pools_is_served_with_unknown_pool_size() {
    run_alone("ip-no-pools", |world, _| {
        async move {
            let definitions: Api<CustomResourceDefinition> = Api::all(world.admin.clone());
            let _ = definitions.delete(POOLS, &DeleteParams::default()).await;
            let gone = || async { definitions.get_opt(POOLS).await.unwrap().is_none() };
            world.until("the kind of the pools is not served", gone).await;
            let client = account(world).await;
            let lease = world.lease(1, 1);
            record(world, &lease).await;
            declare(world, &lease, "front", 80).await;
            let operator = start(&client, options(world)).await;
            world
                .until("the Service is written", || async {
                    is_written(&operator, &lease, 80)
                })
                .await;
            let is_reported = || async { operator.status().watches["ipaddresspools"].last_error.is_some() };
            world
                .until("the unknown pool size is reported", is_reported)
                .await;
            assert_eq!(operator.usage().known(), None);
            assert!(operator.usage().problem.unwrap().contains("are unknown"));
            define_pools(world).await;
            pool(world, "default", &["203.0.113.0/28"]).await;
            let is_counted = || async { operator.usage().known() == Some((16, 0)) };
            world.until("the new pools are counted", is_counted).await;
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

/// Starts an IP operator, and an inventory that uses the address count of the operator.
async fn with_operator(world: &World) -> (IpOperator, KubeSettings, KubeInventory) {
    let mut settings = world.settings.clone();
    (settings.leased_ips, settings.leased_ip_count) = (true, LeasedIpCount::default());
    let mut options = options(world);
    options.address_count = Some(settings.leased_ip_count.clone());
    let operator = start(&account(world).await, options).await;
    let mut capacity = CapacityOptions::default();
    capacity.counts_addresses = false;
    let inventory = KubeInventory::start(&world.client, &settings, &capacity);
    (operator, settings, inventory)
}

#[test]
fn provider_offers_addresses_of_the_pools() {
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
            // Uses the account of the provider instead of the operator's.
            let inventory = KubeInventory::start(&world.client, &settings, &Default::default());
            let (operator, beside, other) = with_operator(world).await;
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
            world.until("no addresses without a pool", is((0, 0))).await;
            pool(world, "default", &["203.0.113.48/28"]).await;
            world
                .until("the addresses of the pool are available", is((16, 0)))
                .await;
            // A leased address is in use once it is assigned. An address of another owner is not available.
            declare(world, &lease, "front", 80).await;
            let written = || async { is_written(&operator, &lease, 80) };
            world.until("the Service is written", written).await;
            give(world, &lease, 80, &["203.0.113.49"]).await;
            let edge = json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": name(81), "namespace": lease.namespace()},
                "spec": {"type": "LoadBalancer", "ports": [{"port": 81}]},
            });
            put(&world.admin, &edge, "somebody").await;
            give(world, &lease, 81, &["203.0.113.50"]).await;
            world.until("one address has another owner", is((16, 2))).await;
            assert_eq!(
                settings.leased_pool(),
                Some((16, 1)),
                "the backend has the same usage"
            );
            let same = || async { beside.leased_pool() == Some((16, 1)) };
            world.until("the IP operator has the same usage", same).await;
            let is_watched = |of: &KubeInventory| of.watches().contains_key("services");
            assert!(is_watched(&inventory) && !is_watched(&other));
            // Without a pool there are no addresses.
            pools(world)
                .delete("default", &DeleteParams::default())
                .await
                .unwrap();
            world.until("the pool is deleted", is((0, 0))).await;
            following.abort();
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

//! The hostname operator with the rights of `deploy/operators/hostname.yaml`.

use crate::world::{World, deployment, put, run, service};
use akash_provider_core::manifest::{HttpOptions, without_star};
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::labels;
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_kube_model::crd::convert::to_manifest;
use akash_provider_operators::hostname::index::RoutePlan;
use akash_provider_operators::hostname::route::{Controller, GatewayProvider, Mode};
use akash_provider_operators::hostname::{HostnameOperator, HostnameOperatorOptions, HostnameStatus};
use futures::FutureExt;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::DeleteParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

#[path = "hostname_operator/definitions.rs"]
mod definitions;
#[path = "hostname_operator/modes.rs"]
mod modes;
#[path = "hostname_operator/names.rs"]
mod names;
#[path = "hostname_operator/on_chain.rs"]
mod on_chain;

/// Grants the rights of the hostname operator to `world.client`.
pub(crate) async fn give_rights(world: &World) {
    let own = &world.settings.manifest_namespace;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/operators/hostname.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.replace("namespace: lease", &format!("namespace: {own}"));
    let text = ["provider-daemon-operator-hostname", "akash-operator-hostname"]
        .iter()
        .fold(text, |text, name| {
            text.replace(&format!("name: {name}"), &format!("name: {}", role(world)))
        });
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for mut document in documents {
        let subjects = document.get_mut("subjects").and_then(Value::as_array_mut);
        for subject in subjects.into_iter().flatten() {
            subject["name"] = json!("akash-provider");
        }
        put(&world.admin, &document, "api-tier").await;
    }
}

fn role(world: &World) -> String {
    format!("hostname-operator-{}", world.settings.manifest_namespace)
}

pub(crate) async fn take_rights(world: &World) {
    let bindings: Api<ClusterRoleBinding> = Api::all(world.admin.clone());
    let roles: Api<ClusterRole> = Api::all(world.admin.clone());
    let _ = bindings.delete(&role(world), &DeleteParams::default()).await;
    let _ = roles.delete(&role(world), &DeleteParams::default()).await;
}

/// Creates the namespace of a lease, and its Manifest with these HTTP options.
pub(crate) async fn record(world: &World, lease: &LeaseId, options: &HttpOptions) {
    let mut all = labels::lease(lease);
    all.extend(labels::selector(&lease.namespace()));
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": lease.namespace(), "labels": all},
    });
    put(&world.admin, &namespace, "provider").await;
    let mut web = service("web");
    for expose in &mut web.expose {
        expose.http_options = options.clone();
    }
    let manifest = to_manifest(&deployment(lease, vec![web]), &world.settings).unwrap();
    put(&world.admin, &serde_json::to_value(manifest).unwrap(), "provider").await;
}

pub(crate) async fn declare(world: &World, lease: &LeaseId, hostname: &str) {
    let group = &lease.order.group;
    let host = json!({
        "apiVersion": "akash.network/v2beta2", "kind": "ProviderHost",
        "metadata": {"name": without_star(hostname), "namespace": world.settings.manifest_namespace},
        "spec": {
            "owner": group.deployment.owner, "provider": lease.provider, "hostname": hostname,
            "dseq": group.deployment.dseq, "gseq": group.gseq, "oseq": lease.order.oseq,
            "service_name": "web", "external_port": 80,
        },
    });
    put(&world.admin, &host, "provider").await;
}

pub(crate) fn options(world: &World, plan: impl Into<RoutePlan>) -> HostnameOperatorOptions {
    let mut options = HostnameOperatorOptions::default();
    options.manifest_namespace = world.settings.manifest_namespace.clone();
    options.plan = plan.into();
    options.patience.retry_delay = Duration::from_millis(200);
    options
}

pub(crate) async fn start(client: &Client, options: HostnameOperatorOptions) -> HostnameOperator {
    start_with(&WriteClient::without_election(client.clone()), options).await
}

pub(crate) async fn start_with(client: &WriteClient, options: HostnameOperatorOptions) -> HostnameOperator {
    let operator = HostnameOperator::start(client, options);
    let ready = tokio::time::timeout(Duration::from_secs(30), operator.ready()).await;
    assert!(ready.is_ok(), "not ready: {:?}", operator.status());
    operator
}

fn state(operator: &HostnameOperator, hostname: &str) -> Option<HostnameStatus> {
    operator.status().hostnames.remove(hostname)
}

pub(crate) fn is_written(operator: &HostnameOperator, hostname: &str) -> bool {
    state(operator, hostname).is_some_and(|state| state.is_written)
}

/// Returns the HTTP method of each write to a route since the last call, in order.
pub(crate) fn writes(world: &World, plural: &str) -> Vec<String> {
    let calls = world.take_writes().into_iter();
    let of_routes = calls.filter(|call| call.path.contains(plural));
    of_routes.map(|call| call.method).collect()
}

#[test]
fn hostnames_become_ingresses_and_follow_their_records() {
    run("op-ingress", |world| {
        async move {
            give_rights(world).await;
            let lease = world.lease(1, 1);
            let home = lease.namespace();
            let usual = HttpOptions::default();
            record(world, &lease, &usual).await;
            declare(world, &lease, "a.example.com").await;
            declare(world, &lease, "b.example.com").await;
            world.take_calls();
            let operator = start(&world.client, options(world, Mode::default())).await;
            let both =
                || async { is_written(&operator, "a.example.com") && is_written(&operator, "b.example.com") };
            world.until("both hostnames have their routes", both).await;
            assert_eq!(writes(world, "ingresses"), ["PATCH", "PATCH"]);
            let made = world.get("Ingress", &home, "a.example.com").await.unwrap();
            assert_eq!(made["spec"]["ingressClassName"], "akash-ingress-class");
            assert_eq!(made["spec"]["rules"][0]["host"], "a.example.com");
            let managed = operator.managed_hostnames();
            assert_eq!(managed["a.example.com"].service_name, "web");
            assert_eq!(managed["a.example.com"].namespace, home);
            // A change causes one write per hostname, and none afterwards.
            let short = HttpOptions {
                read_timeout: 5_000,
                ..usual
            };
            record(world, &lease, &short).await;
            let timeout = "/metadata/annotations/nginx.ingress.kubernetes.io~1proxy-read-timeout";
            for name in ["a.example.com", "b.example.com"] {
                let is_short = || async {
                    let route = world.get("Ingress", &home, name).await.unwrap();
                    route.pointer(timeout) == Some(&json!("5"))
                };
                world.until("the limit is reduced", is_short).await;
            }
            world
                .until("the operator is idle", || async { operator.status().busy == 0 })
                .await;
            assert_eq!(writes(world, "ingresses"), ["PATCH", "PATCH"]);
            // Manual changes are repaired. Unwanted objects are deleted.
            let edit = json!({"spec": {"ingressClassName": "other"}});
            world.edit("Ingress", &home, "a.example.com", edit).await;
            let is_mended = || async {
                let route = world.get("Ingress", &home, "a.example.com").await.unwrap();
                route["spec"]["ingressClassName"] == "akash-ingress-class"
            };
            world.until("the change is reverted", is_mended).await;
            let backend = json!({"service": {"name": "other", "port": {"number": 80}}});
            let edit = json!({"spec": {"defaultBackend": backend}});
            world.edit("Ingress", &home, "a.example.com", edit).await;
            let is_exact = || async {
                let route = world.get("Ingress", &home, "a.example.com").await.unwrap();
                route["spec"].get("defaultBackend").is_none()
            };
            world.until("the added field is removed", is_exact).await;
            let own = &world.settings.manifest_namespace;
            world.delete("ProviderHost", own, "b.example.com").await;
            let is_gone = || async { world.get("Ingress", &home, "b.example.com").await.is_none() };
            world.until("the route is deleted", is_gone).await;
            assert_eq!(writes(world, "ingresses"), ["PATCH", "PATCH", "DELETE"]);
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn restart_writes_nothing_and_deletes_orphaned_routes() {
    run("op-restart", |world| {
        async move {
            give_rights(world).await;
            let lease = world.lease(1, 1);
            let home = lease.namespace();
            record(world, &lease, &HttpOptions::default()).await;
            for name in ["a.example.com", "b.example.com"] {
                declare(world, &lease, name).await;
            }
            let first = start(&world.client, options(world, Mode::default())).await;
            let both =
                || async { is_written(&first, "a.example.com") && is_written(&first, "b.example.com") };
            world.until("both hostnames have their routes", both).await;
            first.stop().await;
            world.take_calls();
            let second = start(&world.client, options(world, Mode::default())).await;
            let at_rest = || async { is_written(&second, "b.example.com") && second.status().busy == 0 };
            world.until("the operator is idle", at_rest).await;
            assert_eq!(
                world.take_writes(),
                [],
                "a start with existing routes writes nothing"
            );
            second.stop().await;
            let own = &world.settings.manifest_namespace;
            world.delete("ProviderHost", own, "a.example.com").await;
            let third = start(&world.client, options(world, Mode::default())).await;
            let is_gone = || async { world.get("Ingress", &home, "a.example.com").await.is_none() };
            world.until("the orphaned route is deleted", is_gone).await;
            assert_eq!(writes(world, "ingresses"), ["DELETE"]);
            assert!(world.get("Ingress", &home, "b.example.com").await.is_some());
            third.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

/// Declares three invalid hostname records: without a lease, with another hostname, and with an invalid
/// service name.
async fn declare_invalid_records(world: &World, lease: &LeaseId) {
    declare(world, &world.lease(9, 9), "nowhere.example.com").await;
    let own = &world.settings.manifest_namespace;
    let other_name = json!({"spec": {"hostname": "bank.example.com"}});
    let no_service = json!({"spec": {"service_name": "web; return 301"}});
    for (name, garbage) in [("odd.example.com", other_name), ("evil.example.com", no_service)] {
        declare(world, lease, name).await;
        world.edit("ProviderHost", own, name, garbage).await;
    }
}

#[test]
fn foreign_objects_stay_and_invalid_records_delay_no_others() {
    run("op-foreign", |world| {
        async move {
            give_rights(world).await;
            let lease = world.lease(1, 1);
            let home = lease.namespace();
            record(world, &lease, &HttpOptions::default()).await;
            let foreign = json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
                "metadata": {"name": "theirs.example.com", "namespace": home},
                "spec": {"rules": [{"host": "theirs.example.com", "http": {"paths": [{
                    "path": "/", "pathType": "Prefix",
                    "backend": {"service": {"name": "other", "port": {"number": 1}}},
                }]}}]},
            });
            put(&world.admin, &foreign, "somebody").await;
            let before = world.get("Ingress", &home, "theirs.example.com").await.unwrap();
            declare(world, &lease, "theirs.example.com").await;
            declare_invalid_records(world, &lease).await;
            declare(world, &lease, "zzz.example.com").await;
            let operator = start(&world.client, options(world, Mode::default())).await;
            world
                .until("the valid hostname has its route", || async {
                    is_written(&operator, "zzz.example.com")
                })
                .await;
            for (name, why) in [
                ("odd.example.com", "expected the name of the record"),
                ("evil.example.com", "invalid service name"),
                ("nowhere.example.com", "has no Manifest"),
            ] {
                let is_reported = || async {
                    let problem = state(&operator, name).and_then(|state| state.problem);
                    problem.is_some_and(|problem| problem.contains(why))
                };
                world.until(why, is_reported).await;
                assert!(world.get("Ingress", &home, name).await.is_none());
            }
            let is_reported = || async {
                let error = state(&operator, "theirs.example.com").and_then(|state| state.error);
                error.is_some_and(|error| error.contains("another client"))
            };
            world
                .until("an object of another client is reported", is_reported)
                .await;
            let after = world.get("Ingress", &home, "theirs.example.com").await.unwrap();
            assert_eq!(after, before);
            assert!(operator.ignore_list().contains_key(&lease.to_string()));
            // The route appears once the foreign object is deleted.
            world.delete("Ingress", &home, "theirs.example.com").await;
            world
                .until("the hostname has its route", || async {
                    is_written(&operator, "theirs.example.com")
                })
                .await;
            // A record that becomes valid gets its route.
            declare(world, &lease, "odd.example.com").await;
            world
                .until("the corrected record has its route", || async {
                    is_written(&operator, "odd.example.com")
                })
                .await;
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn moved_hostname_gets_new_route_before_old_route_is_deleted() {
    run("op-move", |world| {
        async move {
            give_rights(world).await;
            let (one, two) = (world.lease(1, 1), world.lease(1, 2));
            for lease in [&one, &two] {
                record(world, lease, &HttpOptions::default()).await;
            }
            declare(world, &one, "a.example.com").await;
            let operator = start(&world.client, options(world, Mode::default())).await;
            world
                .until("the hostname has its route", || async {
                    is_written(&operator, "a.example.com")
                })
                .await;
            world.take_calls();
            declare(world, &two, "a.example.com").await;
            let has_moved = || async {
                let old = world.get("Ingress", &one.namespace(), "a.example.com").await;
                old.is_none() && is_written(&operator, "a.example.com")
            };
            world.until("the route has moved", has_moved).await;
            assert!(
                world
                    .get("Ingress", &two.namespace(), "a.example.com")
                    .await
                    .is_some()
            );
            assert_eq!(writes(world, "ingresses"), ["PATCH", "DELETE"]);
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn hostnames_become_gateway_routes_with_reported_acceptance() {
    run("op-gateway", |world| {
        async move {
            give_rights(world).await;
            crate::routes::define(world).await;
            let lease = world.lease(1, 1);
            let home = lease.namespace();
            record(world, &lease, &HttpOptions::default()).await;
            declare(world, &lease, "a.example.com").await;
            let mode = Mode::GatewayApi {
                name: "gate".to_owned(),
                namespace: "gates".to_owned(),
                provider: GatewayProvider::Nginx,
                buffer_size: "16k".to_owned(),
            };
            world.take_calls();
            let operator = start(&world.client, options(world, mode)).await;
            world
                .until("the hostname has its route", || async {
                    is_written(&operator, "a.example.com")
                })
                .await;
            assert_eq!(writes(world, "httproutes"), ["PATCH"]);
            let route = crate::routes::get(world, &home, "a.example.com").await;
            assert_eq!(
                route["spec"]["parentRefs"],
                json!([{"name": "gate", "namespace": "gates"}])
            );
            for (accepted, wanted) in [
                ("True", json!("yes")),
                ("False", json!({"no": "NotAllowed: why"})),
            ] {
                let status = json!({"status": {"parents": [{
                    "parentRef": {"name": "gate", "namespace": "gates"},
                    "conditions": [
                        {"type": "Accepted", "status": accepted, "reason": "NotAllowed", "message": "why"},
                        {"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs", "message": ""},
                    ],
                }]}});
                crate::routes::edit(world, &home, "a.example.com", &status).await;
                let is_reported = || async {
                    let state = state(&operator, "a.example.com").unwrap();
                    serde_json::to_value(state.accepted).unwrap() == wanted
                };
                world
                    .until("the status of the gateway is reported", is_reported)
                    .await;
            }
            assert_eq!(writes(world, "httproutes"), [""; 0], "a status changes no route");
            let gateway = || async {
                operator.status().front.is_there.is_some() || operator.status().front.error.is_some()
            };
            world.until("the Gateway was queried", gateway).await;
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn missing_class_is_reported() {
    run("op-class", |world| {
        async move {
            give_rights(world).await;
            let mode = Mode::Ingress {
                class: "nobody-has-this".to_owned(),
                controller: Controller::Traefik,
            };
            let operator = start(&world.client, options(world, mode)).await;
            let is_reported = || async { operator.status().front.is_there == Some(false) };
            world.until("the missing class is reported", is_reported).await;
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

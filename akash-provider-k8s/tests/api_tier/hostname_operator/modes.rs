//! Objects that the operator creates in addition to routes, and the change between the Ingress and the
//! Gateway mode.

use super::*;
use akash_provider_core::cluster::{Cluster, HostnameDeclaration};
use akash_provider_k8s::infrastructure::Infrastructure;
use akash_provider_k8s::settings::IngressMode;
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_kube_model::objects::RESTRICTIONS;
use akash_provider_operators::handover::open_to_gateway;
use akash_provider_operators::hostname::certificate::{Issuer, IssuerKind};
use akash_provider_operators::hostname::object_kind::ObjectKind;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;

/// Defines a kind with only the fields that these tests use.
async fn define(world: &World, sort: ObjectKind, spec: &Value) {
    let resource = sort.resource();
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", resource.plural, resource.group)},
        "spec": {
            "group": resource.group, "scope": "Namespaced",
            "names": {
                "kind": resource.kind, "plural": resource.plural, "singular": resource.kind.to_lowercase(),
            },
            "versions": [{
                "name": resource.version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": open}}},
            }],
        },
    });
    put(&world.admin, &definition, "api-tier").await;
    let api = api(world, sort, &world.settings.manifest_namespace);
    let served = || async { api.list(&kube::api::ListParams::default()).await.is_ok() };
    world.until("the kind is served", served).await;
}

async fn define_filters(world: &World) {
    let text = json!({"type": "string"});
    let snippet = json!({"type": "object", "required": ["context", "value"], "properties": {
        "context": {"type": "string", "enum": ["main", "http", "http.server", "http.server.location"]}, "value": text,
    }});
    let spec = json!({"type": "object", "properties": {"snippets": {"type": "array", "maxItems": 4, "items": snippet}}});
    define(world, ObjectKind::Filter, &spec).await;
}

async fn define_certificates(world: &World) {
    let text = json!({"type": "string"});
    let spec = json!({"type": "object", "required": ["secretName", "issuerRef"], "properties": {
        "secretName": text, "dnsNames": {"type": "array", "items": text},
        "issuerRef": {"type": "object", "required": ["name"], "properties": {"name": text, "kind": text, "group": text}},
    }});
    define(world, ObjectKind::Certificate, &spec).await;
}

fn api(world: &World, sort: ObjectKind, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(world.admin.clone(), namespace, &sort.resource())
}

async fn get(world: &World, sort: ObjectKind, namespace: &str, name: &str) -> Option<Value> {
    let found = api(world, sort, namespace).get_opt(name).await.unwrap();
    found.map(|object| serde_json::to_value(object).unwrap())
}

/// Sets the status of an object for its current generation. Simulates the controller of the object.
async fn set_status(
    world: &World,
    sort: ObjectKind,
    namespace: &str,
    name: &str,
    status: impl Fn(&Value) -> Value,
) {
    let there = get(world, sort, namespace, name).await.unwrap();
    let generation = there["metadata"]["generation"].as_i64().unwrap();
    // This definition of HTTPRoute has no status subresource, so a status counts as a change.
    let generation = generation + i64::from(sort == ObjectKind::HttpRoute);
    let patch = json!({"status": status(&json!(generation))});
    let api = api(world, sort, namespace);
    let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
    if sort == ObjectKind::HttpRoute {
        api.patch(name, &params, &patch).await.unwrap();
    } else {
        api.patch_status(name, &params, &patch).await.unwrap();
    }
}

fn filter_status(is: &str) -> impl Fn(&Value) -> Value {
    move |generation| {
        json!({"controllers": [{"controllerName": "gateway.nginx.org/c", "conditions": [
            {"type": "Accepted", "status": is, "reason": "Told", "message": "why", "observedGeneration": generation},
        ]}]})
    }
}

fn route_status(resolved: &str) -> impl Fn(&Value) -> Value {
    move |generation| {
        let condition = |kind: &str, is: &str| json!({"type": kind, "status": is, "reason": "Told", "message": "why", "observedGeneration": generation});
        json!({"parents": [{
            "parentRef": {"name": "gate", "namespace": "gates"},
            "conditions": [condition("Accepted", "True"), condition("ResolvedRefs", resolved)],
        }]})
    }
}

fn gateway() -> Mode {
    Mode::GatewayApi {
        name: "gate".to_owned(),
        namespace: "gates".to_owned(),
        provider: GatewayProvider::Nginx,
        buffer_size: "16k".to_owned(),
    }
}

const WIDE: &str = "*.example.com";
const OBJECT: &str = "wc--any.example.com";

#[test]
fn gateway_options_use_a_filter_once_it_is_accepted() {
    run("op-filter", |world| {
        async move {
            give_rights(world).await;
            crate::routes::define(world).await;
            define_filters(world).await;
            let lease = world.lease(1, 1);
            let home = lease.namespace();
            record(world, &lease, &HttpOptions::default()).await;
            declare(world, &lease, WIDE).await;
            let operator = start(&world.client, options(world, gateway())).await;
            let there = || async { get(world, ObjectKind::Filter, &home, OBJECT).await.is_some() };
            world.until("the filter exists", there).await;
            world
                .until("the route exists", || async { is_written(&operator, WIDE) })
                .await;
            let filter = get(world, ObjectKind::Filter, &home, OBJECT).await.unwrap();
            let text = filter["spec"]["snippets"][0]["value"].as_str().unwrap();
            assert!(text.contains("proxy_read_timeout 60000ms;\n"), "{text}");
            let route = get(world, ObjectKind::HttpRoute, &home, OBJECT).await.unwrap();
            assert_eq!(route["spec"]["hostnames"], json!([WIDE]));
            assert_eq!(route["spec"]["rules"][0].get("filters"), None, "not accepted yet");
            let problem = state(&operator, WIDE).and_then(|state| state.options_problem);
            assert!(problem.is_some_and(|problem| problem.contains("--snippets-filters")));
            set_status(world, ObjectKind::Filter, &home, OBJECT, filter_status("True")).await;
            let refers = |wanted: bool| async move {
                let route = get(world, ObjectKind::HttpRoute, &home_of(world), OBJECT)
                    .await
                    .unwrap();
                let name = route.pointer("/spec/rules/0/filters/0/extensionRef/name");
                (name == Some(&json!(OBJECT))) == wanted
            };
            world.until("the reference exists", || refers(true)).await;
            assert!(state(&operator, WIDE).unwrap().options_problem.is_none());
            // A filter may be accepted although its references are not resolved.
            set_status(world, ObjectKind::HttpRoute, &home, OBJECT, route_status("False")).await;
            let says = |wanted: Value| {
                let operator = &operator;
                move || {
                    let state = state(operator, WIDE).unwrap();
                    let is_so = serde_json::to_value(state.accepted).unwrap() == wanted;
                    async move { is_so }
                }
            };
            world
                .until("rejection reported", says(json!({"no": "Told: why"})))
                .await;
            set_status(world, ObjectKind::HttpRoute, &home, OBJECT, route_status("True")).await;
            world.until("acceptance reported", says(json!("yes"))).await;
            // Deleting the record deletes the route before the filter.
            world.take_calls();
            let own = &world.settings.manifest_namespace;
            world.delete("ProviderHost", own, OBJECT).await;
            let is_gone = || async { get(world, ObjectKind::Filter, &home, OBJECT).await.is_none() };
            world.until("the filter is deleted", is_gone).await;
            let kinds = ["httproutes", "snippetsfilters"];
            let paths: Vec<_> = world.take_writes().into_iter().map(|call| call.path).collect();
            let gone: Vec<_> = paths
                .iter()
                .filter_map(|path| kinds.iter().find(|kind| path.contains(*kind)))
                .collect();
            assert_eq!(gone, [&"httproutes", &"snippetsfilters"], "{paths:?}");
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

fn home_of(world: &World) -> String {
    world.lease(1, 1).namespace()
}

#[test]
fn change_of_mode_moves_hostname_without_a_gap() {
    run("op-modes", |world| {
        async move {
            give_rights(world).await;
            crate::routes::define(world).await;
            let lease = world.lease(1, 1);
            let home = lease.namespace();
            record(world, &lease, &HttpOptions::default()).await;
            declare(world, &lease, WIDE).await;
            let before = start(&world.client, options(world, Mode::default())).await;
            world
                .until("the hostname has its Ingress", || async {
                    is_written(&before, WIDE)
                })
                .await;
            before.stop().await;
            let there = |sort| async move { get(world, sort, &home_of(world), OBJECT).await.is_some() };
            let after = start(&world.client, options(world, gateway())).await;
            world
                .until("the hostname has its HTTPRoute", || there(ObjectKind::HttpRoute))
                .await;
            world
                .until("the operator is idle", || async { is_written(&after, WIDE) })
                .await;
            // The Ingress stays until a Gateway accepts the route, without a time limit.
            tokio::time::sleep(Duration::from_millis(800)).await;
            assert!(there(ObjectKind::Ingress).await);
            let is_reported = || async { state(&after, WIDE).unwrap().other_routes == [home.clone()] };
            world.until("the retained Ingress is reported", is_reported).await;
            set_status(world, ObjectKind::HttpRoute, &home, OBJECT, route_status("True")).await;
            let is_gone = || async { !there(ObjectKind::Ingress).await };
            world.until("the Ingress is deleted", is_gone).await;
            after.stop().await;
            // The other direction: an Ingress controller reports no acceptance, so the operator waits for a
            // fixed time.
            let mut back = options(world, Mode::default());
            back.handover = Duration::from_secs(2);
            let back = start(&world.client, back).await;
            world
                .until("the hostname has its Ingress again", || {
                    there(ObjectKind::Ingress)
                })
                .await;
            let started = std::time::Instant::now();
            assert!(there(ObjectKind::HttpRoute).await);
            world
                .until("the HTTPRoute is deleted", || async {
                    !there(ObjectKind::HttpRoute).await
                })
                .await;
            assert!(
                started.elapsed() > Duration::from_secs(1),
                "deleted without a wait"
            );
            back.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn certificate_is_requested_and_used_once_issued() {
    run("op-tls", |world| {
        async move {
            give_rights(world).await;
            define_certificates(world).await;
            let lease = world.lease(1, 1);
            let home = lease.namespace();
            record(world, &lease, &HttpOptions::default()).await;
            declare(world, &lease, WIDE).await;
            let mut plan = RoutePlan::default();
            plan.issuer = Some(Issuer {
                name: "letsencrypt".to_owned(),
                kind: IssuerKind::ClusterIssuer,
            });
            let operator = start(&world.client, options(world, plan)).await;
            let there = || async { get(world, ObjectKind::Certificate, &home, OBJECT).await.is_some() };
            world.until("the certificate is requested", there).await;
            let certificate = get(world, ObjectKind::Certificate, &home, OBJECT).await.unwrap();
            assert_eq!(certificate["spec"]["dnsNames"], json!([WIDE]));
            assert_eq!(certificate["spec"]["issuerRef"]["kind"], "ClusterIssuer");
            let ingress = world.get("Ingress", &home, OBJECT).await.unwrap();
            assert_eq!(
                ingress["spec"].get("tls"),
                None,
                "no redirect before the certificate exists"
            );
            set_status(world, ObjectKind::Certificate, &home, OBJECT, |generation| {
                json!({"notAfter": "2030-01-01T00:00:00Z", "conditions": [{
                    "type": "Ready", "status": "True", "reason": "Ready", "message": "it is valid",
                    "observedGeneration": generation,
                }]})
            })
            .await;
            let is_used = || async {
                let ingress = world.get("Ingress", &home, OBJECT).await.unwrap();
                ingress["spec"]["tls"] == json!([{"hosts": [WIDE], "secretName": format!("tls.{OBJECT}")}])
            };
            world.until("the certificate is used", is_used).await;
            let certificate = state(&operator, WIDE).unwrap().certificate.unwrap();
            assert_eq!(
                (certificate.ready, certificate.not_after.as_deref()),
                (Some(true), Some("2030-01-01T00:00:00Z"))
            );
            operator.stop().await;
            // Without an issuer first the reference is removed, then the certificate.
            let plain = start(&world.client, options(world, Mode::default())).await;
            let is_gone = || async { get(world, ObjectKind::Certificate, &home, OBJECT).await.is_none() };
            world.until("the certificate is deleted", is_gone).await;
            let ingress = world.get("Ingress", &home, OBJECT).await.unwrap();
            assert_eq!(ingress["spec"].get("tls"), None);
            plain.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn policies_of_leases_admit_the_gateway_without_other_changes() {
    run("op-policies", |world| {
        async move {
            let lease = world.lease(1, 1);
            let home = lease.namespace();
            record(world, &lease, &HttpOptions::default()).await;
            let own = json!({"from": [{"podSelector": {}}]});
            let policy = |labels: Value| {
                json!({
                    "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                    "metadata": {"name": RESTRICTIONS, "namespace": home, "labels": labels},
                    "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [own]},
                })
            };
            put(&world.admin, &policy(json!(labels::selector(&home))), "provider").await;
            let limit = Duration::from_secs(10);
            let records = &world.settings.manifest_namespace;
            let opened = open_to_gateway(&WriteClient::without_election(world.admin.clone()), records, "gates", limit).await.unwrap();
            assert_eq!((opened.opened, opened.were_open, opened.failed), (1, 0, 0), "{opened:?}");
            let after = world.get("NetworkPolicy", &home, RESTRICTIONS).await.unwrap();
            let gate = json!({"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gates"}}}]});
            assert_eq!(after["spec"]["ingress"], json!([own, gate]));
            let opened = open_to_gateway(&WriteClient::without_election(world.admin.clone()), records, "gates", limit).await.unwrap();
            assert_eq!((opened.opened, opened.were_open, opened.failed), (0, 1, 0), "{opened:?}");
            let again = world.get("NetworkPolicy", &home, RESTRICTIONS).await.unwrap();
            assert_eq!(again, after, "an open policy is not written");
        }
        .boxed()
    });
}

#[test]
fn failed_filter_does_not_delay_route() {
    run("op-no-filter", |world| {
        async move {
            give_rights(world).await;
            crate::routes::define(world).await;
            define_filters(world).await;
            let roles: Api<ClusterRole> = Api::all(world.admin.clone());
            let mut rules = roles.get(&role(world)).await.unwrap().rules.unwrap();
            for rule in &mut rules {
                if rule.resources == Some(vec!["snippetsfilters".to_owned()]) {
                    rule.verbs = ["get", "list", "watch"].map(str::to_owned).to_vec();
                }
            }
            let patch = Patch::Merge(json!({"rules": rules}));
            roles
                .patch(&role(world), &PatchParams::default(), &patch)
                .await
                .unwrap();
            let lease = world.lease(1, 1);
            record(world, &lease, &HttpOptions::default()).await;
            let operator = start(&world.client, options(world, gateway())).await;
            // The route is written without its filter until the filters are listed.
            let listed = || async { operator.status().watches["snippetsfilters"].synced };
            world.until("filters are listed", listed).await;
            declare(world, &lease, WIDE).await;
            let there = || async {
                get(world, ObjectKind::HttpRoute, &lease.namespace(), OBJECT)
                    .await
                    .is_some()
            };
            world.until("the route exists", there).await;
            let is_reported = || async { state(&operator, WIDE).is_some_and(|state| state.error.is_some()) };
            world.until("the error is reported", is_reported).await;
            operator.stop().await;
            take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn provider_updates_policies_when_route_mode_changes() {
    run("op-run-policies", |world| {
        async move {
            let lease = world.lease(1, 1);
            let before = world.connect().await;
            before
                .deploy(&deployment(&lease, vec![service("web")]))
                .await
                .unwrap();
            let lets_in = || async {
                let policy = world
                    .get("NetworkPolicy", &lease.namespace(), RESTRICTIONS)
                    .await
                    .unwrap();
                policy["spec"]["ingress"].to_string().contains("akash-gateway")
            };
            assert!(!lets_in().await);
            let mut settings = world.settings.clone();
            settings.ingress = IngressMode::gateway_api();
            let after = world.connect_with(settings).await;
            let opened = after
                .close_infrastructure(&Infrastructure::default())
                .await
                .unwrap();
            assert_eq!(opened, 1);
            assert!(lets_in().await);
        }
        .boxed()
    });
}

#[test]
fn wildcard_is_declared_and_purged_by_its_name() {
    run("op-declared", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            record(world, &lease, &HttpOptions::default()).await;
            let hostnames = cluster.hostnames().unwrap();
            let name = HostnameDeclaration::new(WIDE.to_owned(), "web", 80);
            hostnames.declare_hostname(&lease, &name).await.unwrap();
            let own = &world.settings.manifest_namespace;
            let made = world.get("ProviderHost", own, OBJECT).await.unwrap();
            assert_eq!(made["spec"]["hostname"], WIDE);
            let declared = hostnames.all_hostnames().await.unwrap();
            assert!(
                declared.iter().any(|declared| declared.hostname == WIDE),
                "{declared:?}"
            );
            world.take_calls();
            hostnames.declare_hostname(&lease, &name).await.unwrap();
            assert_eq!(world.take_writes(), [], "the wildcard is declared");
            hostnames.purge_declared_hostname(&lease, WIDE).await.unwrap();
            assert!(world.get("ProviderHost", own, OBJECT).await.is_none());
        }
        .boxed()
    });
}

//! Deploys: their API calls, their writes, and the objects that they leave unchanged.
//!
//! Length: one test per rule of apply and per kind of object.

use crate::world::{Call, World, deployment, expose, put, run, service};
use akash_provider_core::cluster::{Cluster, WorkloadSpec};
use akash_provider_core::error::ErrorKind;
use akash_provider_core::manifest::{Service, ServiceParams, StorageParams};
use akash_provider_core::types::{Attribute, LeaseId, Storage};
use akash_provider_k8s::adopt::Finding;
use akash_provider_k8s::apply::item::{ItemKind, items};
use akash_provider_k8s::cluster::KubeCluster;
use akash_provider_k8s::labels;
use akash_provider_k8s::settings::Isolation;
use akash_provider_kube_model::objects::{self, PriorState};
use futures::FutureExt;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Kinds of objects that an update may change.
const KINDS: [&str; 9] = [
    "Deployment",
    "StatefulSet",
    "Service",
    "NetworkPolicy",
    "ResourceQuota",
    "Secret",
    "ServiceAccount",
    "Role",
    "RoleBinding",
];

/// Returns the fields that the provider sets, by object. Omits fields from the API server or a controller.
pub(crate) async fn decided(world: &World, lease: &LeaseId) -> Vec<Value> {
    let mut found = Vec::new();
    for kind in KINDS {
        for mut object in world.list(kind, &lease.namespace()).await {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            if name != "default" && name != "kube-root-ca.crt" {
                for field in [
                    "managedFields",
                    "resourceVersion",
                    "uid",
                    "creationTimestamp",
                    "generation",
                ] {
                    object["metadata"].as_object_mut().unwrap().remove(field);
                }
                object.as_object_mut().unwrap().remove("status");
                found.push(without(object, lease));
            }
        }
    }
    found
}

/// Removes values that differ between leases, such as names.
fn without(value: Value, lease: &LeaseId) -> Value {
    const EACH: [&str; 7] = [
        labels::MANIFEST_VERSION,
        "clusterIP",
        "clusterIPs",
        "nodePort",
        "deployment.kubernetes.io/revision",
        labels::LEASE_DSEQ,
        labels::APPLIED_HASH,
    ];
    match value {
        Value::Object(map) => {
            let fields = map.into_iter().filter(|(k, _)| {
                !EACH.contains(&k.as_str())
                    && !k.ends_with("template-hash")
                    && !k.ends_with("/applied-version")
                    && !k.ends_with("/kept")
                    && !k.ends_with("/repaired")
            });
            Value::Object(fields.map(|(k, v)| (k, without(v, lease))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(|v| without(v, lease)).collect()),
        Value::String(text) => {
            let dseq = lease.order.group.deployment.dseq.to_string();
            let same = if text == dseq { "DSEQ".to_owned() } else { text };
            Value::String(same.replace(&lease.namespace(), "NAMESPACE"))
        }
        other => other,
    }
}

/// Returns a version for each object. Each write of the provider changes the version.
async fn versions(world: &World, lease: &LeaseId) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for kind in KINDS {
        for object in world.list(kind, &lease.namespace()).await {
            let meta = &object["metadata"];
            let name = meta["name"].as_str().unwrap();
            let version = match kind {
                "Deployment" | "StatefulSet" => &meta["generation"],
                "ResourceQuota" => &object["spec"],
                _ => &meta["resourceVersion"],
            };
            found.push((format!("{kind} {name}"), version.to_string()));
        }
    }
    found
}

/// Returns a deployment with all parts that an update can remove.
fn rich(lease: &LeaseId) -> WorkloadSpec {
    let mut web = service("web");
    web.expose.push(expose(7000));
    web.env = Some(vec!["A=1".to_owned(), "B=2".to_owned(), "GONE=3".to_owned()]);
    web.args = Some(vec!["-c".to_owned(), "sleep 1".to_owned()]);
    let ram = ["class=ram", "persistent=false"].map(|pair| {
        let (key, value) = pair.split_once('=').unwrap();
        Attribute::new(key, value)
    });
    web.resources
        .storage
        .push(Storage::new("shm", 16 << 20, ram.into()));
    web.params = Some(mounted("shm", "/dev/shm"));
    deployment(lease, vec![web])
}

fn mounted(volume: &str, path: &str) -> ServiceParams {
    ServiceParams {
        storage: Some(vec![StorageParams {
            name: volume.to_owned(),
            mount: path.to_owned(),
            read_only: false,
        }]),
        ..ServiceParams::default()
    }
}

fn assert_only_quota_read(calls: &[Call]) {
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0].method, "GET");
    assert!(calls[0].path.contains("/resourcequotas?"), "{calls:?}");
}

/// After a restart, the first deploys of all leases together send only one read request.
#[test]
fn start_reads_once_for_all_leases() {
    run("start", |world| {
        async move {
            let leases: Vec<_> = (0..6).map(|number| world.lease(1, number + 1)).collect();
            let all = || leases.iter().map(|lease| deployment(lease, vec![service("web")]));
            let cluster = world.connect().await;
            for web in all() {
                cluster.deploy(&web).await.unwrap();
            }
            let restarted = world.connect().await;
            world.take_calls();
            futures::future::try_join_all(all().map(|web| {
                let cluster = restarted.clone();
                async move { cluster.deploy(&web).await }
            }))
            .await
            .unwrap();
            assert_only_quota_read(&world.take_calls());
        }
        .boxed()
    });
}

#[test]
fn first_deploy_makes_few_calls_and_unchanged_deploy_reads_once() {
    run("calls", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let web = deployment(&lease, vec![service("web")]);
            world.take_calls();
            cluster.deploy(&web).await.unwrap();
            let calls = world.take_calls();
            println!("first deploy: {} calls: {calls:#?}", calls.len());
            assert!(calls.len() <= 12, "{calls:#?}");
            let before = versions(world, &lease).await;
            for _ in 0..3 {
                cluster.deploy(&web).await.unwrap();
                assert_only_quota_read(&world.take_calls());
            }
            cluster.record(&web).await.unwrap();
            let calls = world.take_calls();
            assert_eq!(calls.len(), 1, "the status for the tenant is read: {calls:?}");
            assert_eq!(calls[0].method, "GET");
            let restarted = world.connect().await;
            assert_eq!(
                restarted.deployments().await.unwrap().deployments,
                std::slice::from_ref(&web)
            );
            world.take_calls();
            restarted.deploy(&web).await.unwrap();
            // The next process finds no change either.
            assert_only_quota_read(&world.take_calls());
            assert_eq!(versions(world, &lease).await, before);
        }
        .boxed()
    });
}

#[test]
fn update_equals_fresh_deploy() {
    run("update", |world| {
        async move {
            let cluster = world.connect().await;
            let (updated, fresh) = (world.lease(1, 70_001), world.lease(1, 70_002));
            cluster.deploy(&rich(&updated)).await.unwrap();
            let plain = |lease: &LeaseId| {
                let mut web = service("web");
                web.command = None;
                web.expose.truncate(1);
                deployment(lease, vec![web])
            };
            world.take_calls();
            cluster.deploy(&plain(&updated)).await.unwrap();
            println!("update: {:#?}", world.take_calls());
            cluster.deploy(&plain(&fresh)).await.unwrap();
            assert_eq!(decided(world, &updated).await, decided(world, &fresh).await);
            assert!(
                !world
                    .names("Service", &updated.namespace())
                    .await
                    .contains(&"web-np".to_owned())
            );
        }
        .boxed()
    });
}

#[test]
fn default_disk_limit_is_added_with_next_change_of_service_not_by_upgrade() {
    run("disk", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 70_003);
            let mut web = service("web");
            web.resources.storage.clear();
            let before = deployment(&lease, vec![web.clone()]);
            cluster.deploy(&before).await.unwrap();
            let home = lease.namespace();
            let disk = || async {
                let web = world.get("Deployment", &home, "web").await.unwrap();
                let container = &web["spec"]["template"]["spec"]["containers"][0]["resources"];
                let amounts = ["limits", "requests"].map(|of| container[of]["ephemeral-storage"].clone());
                (web["metadata"]["generation"].clone(), amounts)
            };
            let (_, limited) = disk().await;
            assert_eq!(limited, ["1073741824", "1073741824"].map(Value::from));
            // The objects as an earlier version applied them.
            let mut prior = PriorState {
                manifest_version: "1".to_owned(),
                isolation: world.settings.isolation,
                unchanged: BTreeMap::new(),
            };
            prior.unchanged = objects::without_default_disk(&before, &world.settings, &prior).unwrap();
            let rendered = objects::render(&before, &world.settings, &prior).unwrap();
            let item = items(&rendered)
                .into_iter()
                .find(|item| item.id.kind == ItemKind::Deployment);
            let item = item.unwrap();
            put(
                &world.client,
                &item.annotated(item.body.clone(), false),
                "akash-provider",
            )
            .await;
            let earlier = disk().await;
            assert_eq!(earlier.1, [Value::Null, Value::Null]);
            let upgraded = world.connect().await;
            for _ in 0..2 {
                upgraded.deploy(&before).await.unwrap();
                assert_eq!(disk().await, earlier, "no pod is replaced");
                let edited = upgraded.findings().await.unwrap().into_iter();
                let edited: Vec<_> = edited.filter(|f| matches!(f, Finding::Edited { .. })).collect();
                assert_eq!(edited, []);
            }
            web.image = "nginx:1.28".to_owned();
            upgraded.deploy(&deployment(&lease, vec![web])).await.unwrap();
            assert_eq!(disk().await.1, limited);
        }
        .boxed()
    });
}

#[test]
fn pods_are_replaced_only_for_relevant_changes() {
    run("roll", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let template = |w: &Value| w["spec"]["template"].clone();
            let two = |replicas, image: &str| {
                let (mut web, mut db) = (service("web"), service("db"));
                web.count = replicas;
                db.image = image.to_owned();
                deployment(&lease, vec![web, db])
            };
            cluster.deploy(&two(1, "redis:7")).await.unwrap();
            let before = world.get("Deployment", &lease.namespace(), "web").await.unwrap();
            cluster.deploy(&two(3, "redis:8")).await.unwrap();
            let after = world.get("Deployment", &lease.namespace(), "web").await.unwrap();
            assert_eq!(after["spec"]["replicas"], json!(3));
            assert_eq!(template(&after), template(&before));
            let db = world.get("Deployment", &lease.namespace(), "db").await.unwrap();
            assert_eq!(
                db["spec"]["template"]["spec"]["containers"][0]["image"],
                json!("redis:8")
            );
        }
        .boxed()
    });
}

fn persistent(volumes: &[&str]) -> Service {
    let mut web = service("web");
    let attributes = ["class=default", "persistent=true"].map(|pair| {
        let (key, value) = pair.split_once('=').unwrap();
        Attribute::new(key, value)
    });
    let mut mounts = Vec::new();
    for name in volumes {
        web.resources
            .storage
            .push(Storage::new((*name).to_owned(), 64 << 20, attributes.to_vec()));
        mounts.extend(mounted(name, &format!("/{name}")).storage.unwrap());
    }
    web.params = Some(ServiceParams {
        storage: Some(mounts),
        ..ServiceParams::default()
    });
    web
}

#[test]
fn workload_with_changed_volumes_is_recreated() {
    run("volumes", |world| {
        async move {
            let cluster = world.connect().await;
            let (lease, fresh) = (world.lease(1, 70_001), world.lease(1, 70_002));
            cluster
                .deploy(&deployment(&lease, vec![persistent(&["data", "more"])]))
                .await
                .unwrap();
            let one = |lease: &LeaseId| deployment(lease, vec![persistent(&["data"])]);
            cluster.record(&one(&lease)).await.unwrap();
            let deploy = || async {
                match cluster.deploy(&one(&lease)).await {
                    Ok(()) => true,
                    Err(error) => {
                        assert!(error.is_transient(), "{error}");
                        false
                    }
                }
            };
            world.until("the workload is recreated", deploy).await;
            cluster.deploy(&one(&fresh)).await.unwrap();
            assert_eq!(decided(world, &lease).await, decided(world, &fresh).await);
        }
        .boxed()
    });
}

#[test]
fn workload_of_changed_kind_replaces_the_old_one() {
    run("kind", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let ns = lease.namespace();
            let plain = deployment(&lease, vec![service("web")]);
            let persistent = deployment(&lease, vec![persistent(&["data"])]);
            let only = |kind: &'static str| {
                let (ns, other) = (ns.clone(), if kind == "Deployment" { "StatefulSet" } else { "Deployment" });
                async move {
                    world.names(kind, &ns).await == ["web"] && world.names(other, &ns).await.is_empty()
                }
            };
            for (wanted, kind) in [(&plain, "Deployment"), (&persistent, "StatefulSet"), (&plain, "Deployment")] {
                let deploy = || async {
                    match cluster.deploy(wanted).await {
                        Ok(()) => true,
                        Err(error) => {
                            assert!(error.is_transient(), "{error}");
                            false
                        }
                    }
                };
                world.until("the lease is deployed", deploy).await;
                world.until("only one workload exists", || only(kind)).await;
            }
        }
        .boxed()
    });
}

/// Counts findings of the kind [`Finding::Edited`]. Other findings can come from other tests.
async fn edits(cluster: &KubeCluster) -> usize {
    let findings = cluster.findings().await.unwrap();
    let edited = findings.iter().filter(|f| matches!(f, Finding::Edited { .. }));
    edited.count()
}

#[test]
fn drift_is_repaired_and_fields_of_other_managers_stay() {
    run("drift", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let ns = lease.namespace();
            let web = deployment(&lease, vec![service("web")]);
            cluster.deploy(&web).await.unwrap();
            let before = decided(world, &lease).await;
            world
                .edit("Deployment", &ns, "web", json!({"spec": {"replicas": 7}}))
                .await;
            world
                .edit(
                    "Service",
                    &ns,
                    "web",
                    json!({"spec": {"selector": {"akash.network/manifest-service": "x"}}}),
                )
                .await;
            let open = json!({"spec": {"egress": [{}]}});
            world
                .edit("NetworkPolicy", &ns, "akash-deployment-restrictions", open)
                .await;
            world
                .edit(
                    "Deployment",
                    &ns,
                    "web",
                    json!({"metadata": {"labels": {"team": "a"}}}),
                )
                .await;
            let seen = || async { edits(&cluster).await == 3 };
            world.until("the changes are reported", seen).await;
            cluster.deploy(&web).await.unwrap();
            let mut labelled = decided(world, &lease).await;
            for object in &mut labelled {
                let removed = object["metadata"]["labels"]
                    .as_object_mut()
                    .and_then(|l| l.remove("team"));
                assert_eq!(
                    removed.is_some(),
                    object["kind"] == json!("Deployment"),
                    "fields of other managers stay"
                );
            }
            assert_eq!(labelled, before);
            assert_eq!(edits(&cluster).await, 0);
        }
        .boxed()
    });
}

#[test]
fn foreign_objects_in_namespace_of_lease_survive() {
    run("foreign", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let ns = lease.namespace();
            cluster.deploy(&rich(&lease)).await.unwrap();
            let meta = |name: &str, labels: Value| json!({"name": name, "namespace": ns, "labels": labels});
            let policy = json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta("operators", json!({labels::KEEP: "true"})),
                "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
            });
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta("operators", json!({}))});
            let ours = json!({labels::MANAGED: "true", labels::SERVICE: "web", labels::SERVICE_TARGET: "metal-lb"});
            let address = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": meta("web-ip-80-tcp", ours),
                "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]},
            });
            for object in [&policy, &secret, &address] {
                crate::world::put(&world.admin, object, "somebody").await;
            }
            let seen = || async { cluster.state().lease(&lease).services.contains_key("web-ip-80-tcp") };
            world.until("the watch has observed the address", seen).await;
            cluster.deploy(&deployment(&lease, vec![service("web")])).await.unwrap();
            assert!(world.get("NetworkPolicy", &ns, "operators").await.is_some());
            assert!(world.get("Secret", &ns, "operators").await.is_some());
            assert!(world.get("Service", &ns, "web-ip-80-tcp").await.is_some());
        }
        .boxed()
    });
}

#[test]
fn refusal_by_api_server_has_reason_and_next_deploy_completes() {
    run("refused", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let web = deployment(&lease, vec![service("web")]);
            let name = world.settings.manifest_namespace.clone();
            // The policy refuses only the workloads of this tenant. Other tests use the same cluster.
            let policy = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": name},
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": {"resourceRules": [{
                        "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": ["deployments"],
                    }]},
                    "validations": [{"expression": "false", "message": "no workloads today"}],
                },
            });
            let binding = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": name},
                "spec": {
                    "policyName": name, "validationActions": ["Deny"],
                    "matchResources": {"namespaceSelector": {"matchLabels": {
                        labels::LEASE_PROVIDER: world.settings.provider.to_string(),
                    }}},
                },
            });
            for object in [&policy, &binding] {
                crate::world::put(&world.admin, object, "somebody").await;
            }
            let mut last = None;
            // An admission policy takes effect after a moment.
            for number in 0..40 {
                let other = world.lease(2, number);
                last = cluster
                    .deploy(&deployment(&other, vec![service("web")]))
                    .await
                    .err();
                if last.is_some() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(250)).await;
            }
            assert!(last.is_some(), "the admission policy did not take effect in time");
            let error = cluster.deploy(&web).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.is_transient(), "not the tenant's error: {error}");
            assert!(error.to_string().contains("no workloads today"), "{error}");
            assert_eq!(world.names("Deployment", &lease.namespace()).await, [""; 0]);
            crate::world::remove(world, "ValidatingAdmissionPolicyBinding", &name).await;
            crate::world::remove(world, "ValidatingAdmissionPolicy", &name).await;
            let deployed = || async { cluster.deploy(&web).await.is_ok() };
            world.until("the lease is deployed", deployed).await;
            world.take_calls();
            cluster.deploy(&web).await.unwrap();
            assert_eq!(world.take_writes(), []);
        }
        .boxed()
    });
}

#[test]
fn refusal_by_admission_differs_from_missing_rights() {
    run("forbidden", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let mut web = service("web");
            web.expose.truncate(1);
            cluster.deploy(&deployment(&lease, vec![web])).await.unwrap();
            let ns = lease.namespace();
            let quota = json!({
                "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "somebodys", "namespace": ns},
                "spec": {"hard": {"count/services": "1"}},
            });
            crate::world::put(&world.admin, &quota, "somebody").await;
            let counts = || async {
                let quota = world.get("ResourceQuota", &ns, "somebodys").await.unwrap();
                quota["status"]["used"]["count/services"] == json!("1")
            };
            world.until("the quota is enforced", counts).await;
            let more = deployment(&lease, vec![service("web")]);
            let error = cluster.deploy(&more).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.is_transient(), "not the tenant's error: {error}");
            assert!(error.to_string().contains("exceeded quota"), "{error}");

            let name = format!("akash-provider-{}", world.settings.manifest_namespace);
            let roles: Api<ClusterRole> = Api::all(world.admin.clone());
            let mut role = roles.get(&name).await.unwrap();
            for rule in role.rules.iter_mut().flatten() {
                if rule.resources.iter().flatten().any(|r| r == "networkpolicies") {
                    rule.verbs.retain(|verb| !["create", "patch"].contains(&verb.as_str()));
                }
            }
            roles.replace(&name, &PostParams::default(), &role).await.unwrap();
            let mut last = None;
            // Rights are revoked a moment after the change of the rule.
            for number in 0..40 {
                let other = deployment(&world.lease(2, number), vec![service("web")]);
                last = cluster.deploy(&other).await.err();
                if last.is_some() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(250)).await;
            }
            let error = last.expect("the rights are not revoked");
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        }
        .boxed()
    });
}

#[test]
fn lease_retains_isolation_until_hardened() {
    run("harden", |world| {
        async move {
            let mut legacy = world.settings.clone();
            legacy.isolation = Isolation::Legacy;
            let lease = world.lease(1, 1);
            let web = deployment(&lease, vec![service("web")]);
            world.connect_with(legacy).await.deploy(&web).await.unwrap();
            let cluster = world.connect().await;
            let mut more = web.clone();
            std::sync::Arc::make_mut(&mut more.group).services[0].count = 2;
            cluster.deploy(&more).await.unwrap();
            let profile =
                |w: &Value| w["spec"]["template"]["spec"]["securityContext"]["seccompProfile"].clone();
            let soft = world.get("Deployment", &lease.namespace(), "web").await.unwrap();
            assert_eq!(profile(&soft), Value::Null);
            cluster.harden(&lease).await.unwrap();
            let hard = world.get("Deployment", &lease.namespace(), "web").await.unwrap();
            assert_eq!(profile(&hard)["type"], json!("RuntimeDefault"));
            world.take_calls();
            cluster.deploy(&more).await.unwrap();
            cluster.harden(&lease).await.unwrap();
            assert_eq!(world.take_writes(), []);
            let unknown = cluster.harden(&world.lease(3, 3)).await;
            assert_eq!(unknown.unwrap_err().kind(), ErrorKind::NotFound);
        }
        .boxed()
    });
}

#[test]
fn hardening_does_not_revert_newer_manifest() {
    run("harden-race", |world| {
        async move {
            let mut legacy = world.settings.clone();
            legacy.isolation = Isolation::Legacy;
            let lease = world.lease(1, 1);
            let version = |count: u32| {
                let mut web = service("web");
                web.count = count;
                deployment(&lease, vec![web])
            };
            let soft = world.connect_with(legacy).await;
            soft.deploy(&version(1)).await.unwrap();
            let cluster = world.connect().await;
            for count in 2..=12 {
                let newer = version(count);
                let update = async {
                    // At any time during the work of the other call.
                    tokio::time::sleep(std::time::Duration::from_millis(u64::from(count) * 7)).await;
                    cluster.deploy(&newer).await
                };
                let (hardened, updated) = tokio::join!(cluster.harden(&lease), update);
                updated.unwrap();
                if let Err(error) = hardened {
                    assert!(error.is_transient(), "{error}");
                }
                let restarted = world.connect().await;
                assert_eq!(restarted.deployments().await.unwrap().deployments, [newer]);
            }
            cluster.harden(&lease).await.unwrap();
            let web = world.get("Deployment", &lease.namespace(), "web").await.unwrap();
            assert_eq!(web["spec"]["replicas"], json!(12));
            let profile = &web["spec"]["template"]["spec"]["securityContext"]["seccompProfile"];
            assert_eq!(profile["type"], json!("RuntimeDefault"));
        }
        .boxed()
    });
}

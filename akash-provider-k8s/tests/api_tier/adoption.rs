//! Adoption of leases that the Go provider deployed. The provider leaves the objects unchanged at the start,
//! and manages them from the first change of the lease.
//!
//! The objects are recordings of the Go provider, created with its field manager. Only the provider's
//! address, and the namespace derived from it, belong to the test.

use crate::apply::decided;
use crate::grants::ACCESS;
use crate::world::{World, run};
use akash_provider_core::cluster::{Cluster, WorkloadSpec};
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::cluster::KubeCluster;
use akash_provider_k8s::settings::{Isolation, KubeSettings};
use akash_provider_kube_model::crd::{Manifest, convert};
use akash_provider_kube_model::objects::RESTRICTIONS;
use futures::FutureExt;
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const THEIR_MANAGER: &str = "provider-services";
const THEIR_PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
/// Names of the recorded files, in the write order of the Go provider.
const FILES: [&str; 9] = [
    "networkpolicies",
    "serviceaccounts",
    "roles",
    "rolebindings",
    "secrets",
    "deployments",
    "statefulsets",
    "services",
    "providerhosts",
];

/// Recorded objects of a lease of the Go provider. A test can create these objects.
pub(crate) struct Recording {
    pub(crate) lease: LeaseId,
    namespace: Value,
    manifest: Value,
    objects: Vec<Value>,
}

fn read(path: &Path) -> Option<String> {
    path.is_file().then(|| std::fs::read_to_string(path).unwrap())
}

/// Reads a recording, or returns `None` for a failed deployment.
pub(crate) fn recording(world: &World, folder: &Path) -> Option<Recording> {
    let manifest = read(&folder.join("manifest-cr.json"))?;
    read(&folder.join("services.json"))?;
    let provider = world.settings.provider.to_string();
    let theirs: Value = serde_json::from_str(&manifest).unwrap();
    let id = |field: &str| {
        let value = &theirs["spec"]["lease_id"][field];
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    };
    let text = [id("owner"), id("dseq"), id("gseq"), id("oseq"), provider.clone()].join("/");
    let lease: LeaseId = text.parse().unwrap();
    let namespace = theirs["metadata"]["name"].as_str().unwrap().to_owned();
    let parse = |text: &str| -> Value {
        let text = text
            .replace(&namespace, &lease.namespace())
            .replace(THEIR_PROVIDER, &provider);
        serde_json::from_str(&text).unwrap()
    };
    let mut objects = Vec::new();
    for file in FILES {
        let Some(text) = read(&folder.join(format!("{file}.json"))) else {
            continue;
        };
        let list = parse(&text);
        let theirs = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|object| is_theirs(object));
        objects.extend(theirs.cloned());
    }
    Some(Recording {
        namespace: parse(&read(&folder.join("namespace.json")).unwrap()),
        manifest: parse(&manifest),
        lease,
        objects,
    })
}

/// Returns true if the Go provider, not Kubernetes, wrote the object.
fn is_theirs(object: &Value) -> bool {
    object["metadata"]["labels"]["akash.network"] == json!("true")
}

fn bare(mut object: Value) -> Value {
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
    ] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    if let Some(annotations) = object["metadata"]
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove("deployment.kubernetes.io/revision");
    }
    object.as_object_mut().unwrap().remove("status");
    if object["kind"] == json!("Service") {
        let spec = object["spec"].as_object_mut().unwrap();
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
        for port in spec["ports"].as_array_mut().unwrap() {
            port.as_object_mut().unwrap().remove("nodePort");
        }
    }
    object
}

async fn create(world: &World, object: Value) -> Value {
    let mut object = bare(object);
    if matches!(object["kind"].as_str(), Some("Manifest" | "ProviderHost")) {
        object["metadata"]["namespace"] = json!(world.settings.manifest_namespace);
    }
    let (version, kind) = (
        object["apiVersion"].as_str().unwrap(),
        object["kind"].as_str().unwrap(),
    );
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(world.admin.clone(), namespace, &resource),
        None => Api::all_with(world.admin.clone(), &resource),
    };
    let params = PostParams {
        field_manager: Some(THEIR_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let created = api.create(&params, &object).await;
    serde_json::to_value(created.unwrap_or_else(|e| panic!("{}: {e}", object.name_any()))).unwrap()
}

/// Creates the objects of the recorded lease.
pub(crate) async fn make(world: &World, recording: &Recording) {
    let manifest = create(world, recording.manifest.clone()).await;
    let version = manifest["metadata"]["resourceVersion"].clone();
    let label = "akash.network/manifest.resource.version";
    create(world, recording.namespace.clone()).await;
    for object in &recording.objects {
        let mut object = object.clone();
        for path in ["/metadata/labels", "/spec/template/metadata/labels"] {
            if let Some(labels) = object.pointer_mut(path).and_then(Value::as_object_mut)
                && labels.contains_key(label)
            {
                labels.insert(label.to_owned(), version.clone());
            }
        }
        create(world, object).await;
    }
    settle(world, &recording.lease).await;
}

async fn settle(world: &World, lease: &LeaseId) {
    let observed = || async {
        let mut all = Vec::new();
        for kind in ["Deployment", "StatefulSet"] {
            all.extend(world.list(kind, &lease.namespace()).await);
        }
        let is_observed = |w: &Value| w["status"]["observedGeneration"] == w["metadata"]["generation"];
        all.iter().all(is_observed)
    };
    world
        .until("the controllers have observed every workload", observed)
        .await;
}

/// Returns the pod templates of a lease. A rollout changes this map.
async fn rollouts(world: &World, lease: &LeaseId) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for kind in ["Deployment", "StatefulSet", "ReplicaSet"] {
        for object in world.list(kind, &lease.namespace()).await {
            let name = object["metadata"]["name"].as_str().unwrap();
            let template = object["spec"]["template"].to_string();
            found.insert(format!("{kind} {name}"), template);
        }
    }
    found
}

/// Returns the resource version of each object. For a workload, returns the generation, because the resource
/// version also changes with the status.
async fn versions(world: &World, lease: &LeaseId) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for kind in ["NetworkPolicy", "Service", "Role", "RoleBinding", "Secret"] {
        for object in world.list(kind, &lease.namespace()).await {
            let name = object["metadata"]["name"].as_str().unwrap();
            found.insert(
                format!("{kind} {name}"),
                object["metadata"]["resourceVersion"].to_string(),
            );
        }
    }
    for kind in ["Deployment", "StatefulSet"] {
        for object in world.list(kind, &lease.namespace()).await {
            let name = object["metadata"]["name"].as_str().unwrap();
            found.insert(
                format!("{kind} {name}"),
                object["metadata"]["generation"].to_string(),
            );
        }
    }
    let own = &world.settings.manifest_namespace;
    for kind in ["Manifest", "ProviderHost"] {
        for object in world.list(kind, own).await {
            let name = object["metadata"]["name"].as_str().unwrap();
            found.insert(
                format!("{kind} {name}"),
                object["metadata"]["resourceVersion"].to_string(),
            );
        }
    }
    found
}

fn all(world: &World) -> Vec<Recording> {
    let folder = testbed::recordings::folder("peer/k8s");
    let mut found: Vec<Recording> = Vec::new();
    for folder in testbed::recordings::files(&folder, "") {
        let recording = recording(world, &folder);
        // One lease was recorded twice, before and after its update.
        let is_found = |r: &Recording| found.iter().any(|f| f.lease == r.lease);
        found.extend(recording.filter(|r| !is_found(r)));
    }
    assert!(found.len() >= 6, "{} recorded leases", found.len());
    found
}

async fn deployed(cluster: &KubeCluster, lease: &LeaseId) -> WorkloadSpec {
    let all = cluster.deployments().await.unwrap().deployments;
    all.into_iter().find(|d| d.lease == *lease).unwrap()
}

/// Removes environment variables, commands, mounts of ephemeral volumes, and all ports after the first.
fn smaller(deployment: &WorkloadSpec) -> WorkloadSpec {
    let mut deployment = deployment.clone();
    for service in &mut Arc::make_mut(&mut deployment.group).services {
        service.env = None;
        service.command = None;
        service.args = None;
        service.expose.truncate(1);
        let persistent = |name: &str| {
            let volume = service.resources.storage.iter().find(|v| v.name == name);
            let is = |a: &akash_provider_core::types::Attribute| a.key == "persistent" && a.value == "true";
            volume.is_some_and(|v| v.attributes.iter().any(is))
        };
        if let Some(params) = &mut service.params
            && let Some(mounts) = &mut params.storage
        {
            mounts.retain(|mount| persistent(&mount.name));
        }
    }
    deployment
}

fn legacy(world: &World) -> KubeSettings {
    let mut settings = world.settings.clone();
    settings.isolation = Isolation::Legacy;
    settings
}

#[test]
fn adopted_leases_lose_only_access_to_metadata_addresses() {
    run("adopt", |world| {
        async move {
            let recordings = all(world);
            for recording in &recordings {
                make(world, recording).await;
            }
            let mut before = Vec::new();
            for recording in &recordings {
                before.push((
                    rollouts(world, &recording.lease).await,
                    versions(world, &recording.lease).await,
                ));
            }
            let cluster = world.connect().await;
            let deployments = cluster.deployments().await.unwrap().deployments;
            assert_eq!(deployments.len(), recordings.len());
            let metadata = "169.254.169.254/32";
            for deployment in &deployments {
                let home = deployment.lease.namespace();
                let policy = || async {
                    let policies = world.list("NetworkPolicy", &home).await;
                    policies
                        .into_iter()
                        .find(|p| p["metadata"]["name"] == RESTRICTIONS)
                };
                let open = policy().await.unwrap();
                assert!(!open.to_string().contains(metadata));
                cluster.deploy(deployment).await.unwrap();
                let closed = policy().await.unwrap();
                let except = |policy: &Value| {
                    let rule = policy["spec"]["egress"].as_array().unwrap().last().unwrap();
                    rule["to"][0]["ipBlock"]["except"].as_array().unwrap().clone()
                };
                let (open, closed) = (except(&open), except(&closed));
                assert_eq!(closed[..open.len()], open);
                assert!(closed.contains(&json!(metadata)) && closed.contains(&json!("168.63.129.16/32")));
            }
            world.take_calls();
            for deployment in &deployments {
                cluster.deploy(deployment).await.unwrap();
                let hosts = cluster.hostnames().unwrap();
                for name in &deployment.hostnames {
                    hosts.declare_hostname(&deployment.lease, name).await.unwrap();
                }
            }
            assert_eq!(world.take_calls(), [], "adoption makes no call");
            // A tenant submits the running manifest again.
            for deployment in &deployments {
                cluster.record(deployment).await.unwrap();
                let calls = world.take_calls();
                let reads = calls.iter().filter(|call| call.method == "GET").count();
                assert_eq!((calls.len(), reads), (1, 1), "one read per lease: {calls:?}");
            }
            for (recording, before) in recordings.iter().zip(before) {
                let after = (
                    rollouts(world, &recording.lease).await,
                    versions(world, &recording.lease).await,
                );
                let mut others = before.1.clone();
                // The first deploy closes the metadata addresses and binds the account to its rights in the
                // namespace.
                for written in [
                    format!("NetworkPolicy {RESTRICTIONS}"),
                    format!("RoleBinding {ACCESS}"),
                ] {
                    others.insert(written.clone(), after.1[&written].clone());
                }
                assert_eq!(after, (before.0, others), "{}", recording.lease);
            }
            println!("adopted {} leases", recordings.len());
        }
        .boxed()
    });
}

/// Some objects are missing, as after an interrupted deployment of the Go provider.
#[test]
fn incomplete_lease_of_another_provider_is_completed_by_first_deploy() {
    run("adopt-half", |world| {
        async move {
            let order = ["NetworkPolicy", "Deployment", "StatefulSet", "Service"];
            let mut incomplete = 0;
            let recordings = all(world);
            let with_ports = |r: &Recording| r.objects.iter().any(|o| o["kind"] == json!("Service"));
            for (number, mut recording) in recordings.into_iter().filter(with_ports).enumerate() {
                let until = number % order.len();
                let made = |object: &Value| order[..until].iter().any(|kind| object["kind"] == json!(kind));
                let whole = recording.objects.clone();
                recording.objects.retain(made);
                let lease = &recording.lease;
                make(world, &recording).await;
                let before = templates(world, lease).await;
                let cluster = world.connect().await;
                let found = deployed(&cluster, lease).await;
                cluster.deploy(&found).await.unwrap();
                for kind in ["Deployment", "StatefulSet"] {
                    let wanted = whole.iter().filter(|o| o["kind"] == json!(kind)).cloned();
                    let wanted: Vec<Value> = wanted.collect();
                    let there = world.list(kind, &lease.namespace()).await;
                    assert_eq!(names(&there), names(&wanted), "{lease} {kind} after {until}");
                }
                assert_ne!(world.names("Service", &lease.namespace()).await, [""; 0]);
                assert_ne!(world.names("NetworkPolicy", &lease.namespace()).await, [""; 0]);
                let after = templates(world, lease).await;
                for (workload, template) in before {
                    assert_eq!(
                        after[&workload], template,
                        "{lease}: the running pods are not replaced"
                    );
                }
                world.take_calls();
                cluster.deploy(&found).await.unwrap();
                assert_eq!(world.take_calls(), [], "no further call");
                incomplete += 1;
            }
            println!("{incomplete} incomplete leases");
        }
        .boxed()
    });
}

async fn templates(world: &World, lease: &LeaseId) -> BTreeMap<String, String> {
    let mut found = rollouts(world, lease).await;
    found.retain(|name, _| !name.starts_with("ReplicaSet"));
    found
}

#[test]
fn update_removes_objects_from_adopted_lease() {
    run("adopt-less", |world| {
        async move {
            for (number, recording) in all(world).into_iter().enumerate() {
                make(world, &recording).await;
                let cluster = world.connect().await;
                let update = smaller(&deployed(&cluster, &recording.lease).await);
                cluster.record(&update).await.unwrap();
                cluster.deploy(&update).await.unwrap();
                let mut fresh = update.clone();
                fresh.lease.order.group.deployment.dseq = 80_000 + number as u64;
                fresh.hostnames.clear();
                world
                    .connect_with(legacy(world))
                    .await
                    .deploy(&fresh)
                    .await
                    .unwrap();
                let (ours, wanted) = (
                    decided(world, &recording.lease).await,
                    decided(world, &fresh.lease).await,
                );
                assert_eq!(names(&ours), names(&wanted), "{}", recording.lease);
                for (ours, wanted) in ours.iter().zip(&wanted) {
                    assert_eq!(ours, wanted, "{}", recording.lease);
                }
                assert_no_foreign_manager(world, &recording.lease).await;
                world.take_calls();
                cluster.deploy(&update).await.unwrap();
                assert_eq!(world.take_calls(), [], "a repeated deploy makes no call");
                assert_readable_by_go_provider(world, &update).await;
            }
        }
        .boxed()
    });
}

fn names(objects: &[Value]) -> Vec<String> {
    objects
        .iter()
        .map(|o| format!("{} {}", o["kind"], o["metadata"]["name"]))
        .collect()
}

async fn assert_no_foreign_manager(world: &World, lease: &LeaseId) {
    for kind in ["Deployment", "StatefulSet", "Service", "NetworkPolicy"] {
        for object in world.list(kind, &lease.namespace()).await {
            let entries = object["metadata"]["managedFields"].as_array().unwrap();
            let theirs = entries.iter().any(|e| e["manager"] == json!(THEIR_MANAGER));
            assert!(!theirs, "{kind} {}: {entries:#?}", object["metadata"]["name"]);
        }
    }
}

/// Asserts that the record contains the complete manifest, even without its annotations.
async fn assert_readable_by_go_provider(world: &World, update: &WorkloadSpec) {
    let api: Api<Manifest> = Api::namespaced(world.admin.clone(), &world.settings.manifest_namespace);
    let record = api.get(&update.lease.namespace()).await.unwrap();
    let mut theirs = record.clone();
    theirs.metadata.annotations = None;
    let read = convert::from_manifest(&theirs).unwrap().deployment;
    assert!(convert::same_spec(&read, update), "{record:#?}");
    assert!(
        record
            .spec
            .group
            .services
            .iter()
            .all(|s| s.command.is_none() && s.env.is_none())
    );
}

#[test]
fn unchanged_services_retain_their_pods_in_an_update() {
    run("adopt-half", |world| {
        async move {
            let folder = testbed::recordings::folder("peer/k8s");
            let recording = recording(world, &folder.join("storage")).unwrap();
            make(world, &recording).await;
            let before = rollouts(world, &recording.lease).await;
            let template = world
                .get("Deployment", &recording.lease.namespace(), "side")
                .await
                .unwrap();
            let cluster = world.connect().await;
            let mut update = deployed(&cluster, &recording.lease).await;
            let services = &mut Arc::make_mut(&mut update.group).services;
            services.iter_mut().find(|s| s.name == "db").unwrap().args = Some(vec!["sleep 1".to_owned()]);
            cluster.record(&update).await.unwrap();
            drop(cluster);
            // Another process completes the deploy that this process only recorded.
            let cluster = world.connect().await;
            cluster.deploy(&update).await.unwrap();
            settle(world, &recording.lease).await;
            let after = rollouts(world, &recording.lease).await;
            let changed: Vec<_> = after
                .iter()
                .filter(|(k, v)| before.get(*k) != Some(v))
                .map(|(k, _)| k)
                .collect();
            assert_eq!(changed, ["StatefulSet db"]);
            world.take_calls();
            cluster.deploy(&update).await.unwrap();
            assert_eq!(world.take_calls(), []);
            // A change of the number of replicas replaces no pod.
            let services = &mut Arc::make_mut(&mut update.group).services;
            services.iter_mut().find(|s| s.name == "side").unwrap().count = 2;
            cluster.deploy(&update).await.unwrap();
            let side = world
                .get("Deployment", &recording.lease.namespace(), "side")
                .await
                .unwrap();
            assert_eq!(side["spec"]["replicas"], json!(2));
            assert_eq!(side["spec"]["template"], template["spec"]["template"]);
        }
        .boxed()
    });
}

#[test]
fn lease_returned_to_the_go_provider_is_adopted_again() {
    run("adopt-back", |world| {
        async move {
            let lease = world.lease(1, 70_001);
            let ns = lease.namespace();
            let cluster = world.connect().await;
            let web = crate::world::deployment(&lease, vec![crate::world::service("web")]);
            cluster.deploy(&web).await.unwrap();
            let wanted = decided(world, &lease).await;
            // The Go provider writes whole objects under its own field manager, with the version of its own
            // record.
            let mut theirs = world.get("Deployment", &ns, "web").await.unwrap();
            theirs["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("managedFields");
            theirs["metadata"]["labels"]["akash.network/manifest.resource.version"] = json!("999");
            let env = theirs
                .pointer_mut("/spec/template/spec/containers/0/env")
                .unwrap();
            env.as_array_mut()
                .unwrap()
                .push(json!({"name": "THEIRS", "value": "1"}));
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"));
            let api: Api<DynamicObject> = Api::namespaced_with(world.admin.clone(), &ns, &resource);
            let params = PostParams {
                field_manager: Some(THEIR_MANAGER.to_owned()),
                ..PostParams::default()
            };
            let theirs: DynamicObject = serde_json::from_value(theirs).unwrap();
            api.replace("web", &params, &theirs).await.unwrap();
            let cluster = world.connect().await;
            cluster.deploy(&web).await.unwrap();
            assert_eq!(decided(world, &lease).await, wanted);
            assert_no_foreign_manager(world, &lease).await;
            world.take_calls();
            cluster.deploy(&web).await.unwrap();
            assert_eq!(world.take_writes(), []);
        }
        .boxed()
    });
}

//! Objects of kinds that the provider does not watch. If such an object is deleted manually, the provider reports and
//! recreates it.

use crate::world::{World, deployment, run, service, with_login, with_logs};
use akash_provider_core::cluster::{Cluster, WorkloadSpec};
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::adopt::Finding;
use akash_provider_k8s::cluster::KubeCluster;
use akash_provider_k8s::labels;
use futures::FutureExt;
use kube::Api;
use kube::api::DeleteParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::Value;

/// One object of each unwatched kind.
const UNWATCHED: [(&str, &str, &str); 5] = [
    ("", "ResourceQuota", "akash-lease"),
    ("", "Secret", "docker-creds-web"),
    ("", "ServiceAccount", "web"),
    ("rbac.authorization.k8s.io", "Role", "web"),
    ("rbac.authorization.k8s.io", "RoleBinding", "web"),
];

/// Returns a deployment with objects of each kind in `UNWATCHED`.
pub(crate) fn rich(lease: &LeaseId, password: &str, replicas: u32) -> WorkloadSpec {
    let mut web = with_logs(with_login(service("web"), password));
    web.count = replicas;
    deployment(lease, vec![web])
}

async fn delete(world: &World, (group, kind, name): (&str, &str, &str), namespace: &str) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let api: Api<DynamicObject> = Api::namespaced_with(world.admin.clone(), namespace, &resource);
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

/// Returns the missing objects of one lease.
async fn missing(cluster: &KubeCluster, of: &LeaseId) -> Vec<String> {
    let findings = cluster.findings().await.unwrap();
    let missing = findings.iter().filter_map(|finding| match finding {
        Finding::Missing { lease, object, .. } if lease == of => Some(object.clone()),
        _ => None,
    });
    missing.collect()
}

fn content(object: &Value) -> [Value; 5] {
    ["data", "type", "rules", "roleRef", "subjects"].map(|field| object[field].clone())
}

#[test]
fn manually_deleted_objects_are_reported_and_recreated() {
    run("missing", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let ns = lease.namespace();
            let mut replicas = 1;
            cluster.deploy(&rich(&lease, "hunter2", replicas)).await.unwrap();
            assert_eq!(missing(&cluster, &lease).await, [""; 0]);
            for object @ (_, kind, name) in UNWATCHED {
                let before = world.get(kind, &ns, name).await.unwrap();
                for way in ["an equal manifest", "a restart", "an update"] {
                    delete(world, object, &ns).await;
                    let findings = missing(&cluster, &lease).await;
                    assert_eq!(findings, [format!("{kind}/{name}")], "before {way}");
                    match way {
                        "a restart" => {
                            let restarted = world.connect().await;
                            let recorded = restarted.deployments().await.unwrap().deployments;
                            assert_eq!(recorded, [rich(&lease, "hunter2", replicas)]);
                            restarted.deploy(&recorded[0]).await.unwrap();
                        }
                        "an update" => {
                            replicas += 1;
                            let update = rich(&lease, "hunter2", replicas);
                            cluster.record(&update).await.unwrap();
                            cluster.deploy(&update).await.unwrap();
                        }
                        _ => cluster.deploy(&rich(&lease, "hunter2", replicas)).await.unwrap(),
                    }
                    let after = world.get(kind, &ns, name).await;
                    let after = after.unwrap_or_else(|| panic!("{kind} is not recreated by {way}"));
                    assert_eq!(content(&after), content(&before), "{kind} after {way}");
                    assert_eq!(missing(&cluster, &lease).await, [""; 0], "after {way}");
                    world.take_calls();
                    cluster.deploy(&rich(&lease, "hunter2", replicas)).await.unwrap();
                    assert_eq!(world.take_writes(), [], "no write after {way}");
                }
            }
        }
        .boxed()
    });
}

/// At each start, the provider reads registry passwords from a Secret in the manifest namespace.
#[test]
fn manually_deleted_passwords_are_stored_again() {
    run("missing-passwords", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let name = format!("{}-registry", lease.namespace());
            let own = world.settings.manifest_namespace.clone();
            let private = rich(&lease, "hunter2", 1);
            cluster.deploy(&private).await.unwrap();
            for way in ["record", "deploy"] {
                delete(world, ("", "Secret", &name), &own).await;
                assert_eq!(missing(&cluster, &lease).await, [format!("Secret/{name}")]);
                match way {
                    "record" => cluster.record(&private).await.unwrap(),
                    _ => cluster.deploy(&private).await.unwrap(),
                }
                assert!(world.get("Secret", &own, &name).await.is_some(), "after a {way}");
                let restarted = world.connect().await;
                assert_eq!(
                    restarted.deployments().await.unwrap().deployments,
                    std::slice::from_ref(&private)
                );
            }
            // A restart without the Secret has no password, and does not delete the pull secret for that
            // reason.
            delete(world, ("", "Secret", &name), &own).await;
            let before = world
                .get("Secret", &lease.namespace(), "docker-creds-web")
                .await
                .unwrap();
            let restarted = world.connect().await;
            let recorded = restarted.deployments().await.unwrap().deployments;
            restarted.deploy(&recorded[0]).await.unwrap();
            let after = world
                .get("Secret", &lease.namespace(), "docker-creds-web")
                .await
                .unwrap();
            assert_eq!(after["data"], before["data"], "the pull secret is unchanged");
        }
        .boxed()
    });
}

#[test]
fn no_annotation_depends_on_a_password() {
    run("hashes", |world| {
        async move {
            let cluster = world.connect().await;
            let lease = world.lease(1, 1);
            let (ns, own) = (lease.namespace(), world.settings.manifest_namespace.clone());
            let mut seen = Vec::new();
            for password in ["first", "second"] {
                cluster.deploy(&rich(&lease, password, 1)).await.unwrap();
                let namespace = world.get("Namespace", "", &ns).await.unwrap();
                let login = world.get("Secret", &ns, "docker-creds-web").await.unwrap();
                let record = world.get("Manifest", &own, &ns).await.unwrap();
                let mut notes = [&namespace, &login, &record].map(|o| o["metadata"]["annotations"].clone());
                // The version of the record, which a new password does not change either.
                assert!(notes[0].get(labels::APPLIED).is_some());
                notes[1]
                    .as_object_mut()
                    .unwrap()
                    .remove("provider.akash.network/applied-version");
                seen.push((notes, login["data"].clone()));
            }
            let [(first, data), (second, other)] = <[_; 2]>::try_from(seen).unwrap();
            assert_ne!(data, other, "the new password is stored");
            assert_eq!(first, second);
        }
        .boxed()
    });
}

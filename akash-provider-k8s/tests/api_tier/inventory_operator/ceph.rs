//! Ceph storage managed by Rook. The client has only the rights that the operator documents. The objects have
//! only the fields that the operator reads.

use super::*;
use akash_provider_core::inventory::Pair;
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_operators::inventory::ClusterReport;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use std::sync::Arc;

const CEPH: &str = "op-inv-ceph";
const GIB: u64 = 1 << 30;

async fn define(world: &World, kind: &str, plural: &str) {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.ceph.rook.io")},
        "spec": {
            "group": "ceph.rook.io", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
            }],
        },
    });
    put(&world.admin, &definition, "api-tier").await;
    let api = rook(world, kind);
    let is_served = || async { api.list(&ListParams::default()).await.is_ok() };
    world.until("the kind is served", is_served).await;
}

fn rook(world: &World, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("ceph.rook.io", "v1", kind));
    Api::namespaced_with(world.admin.clone(), &world.settings.manifest_namespace, &resource)
}

async fn undefine(world: &World) {
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api: Api<DynamicObject> = Api::all_with(world.admin.clone(), &ApiResource::from_gvk(&gvk));
    for plural in ["cephclusters", "cephblockpools"] {
        let name = format!("{plural}.ceph.rook.io");
        let _ = api.delete(&name, &DeleteParams::default()).await;
    }
}

/// Sets the total and the used bytes that Rook reports for the Ceph cluster.
async fn says(world: &World, total: Value, used: u64) {
    let capacity = json!({"bytesTotal": total, "bytesUsed": used});
    let status = Patch::Merge(json!({"status": {"state": "Created", "ceph": {"capacity": capacity}}}));
    let params = PatchParams::default();
    rook(world, "CephCluster")
        .patch_status("disks", &params, &status)
        .await
        .unwrap();
}

async fn volume(world: &World, name: &str, size: &str) {
    let body = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "storageClassName": CEPH, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
            "hostPath": {"path": "/nowhere"}, "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": "kube-system", "name": name, "uid": "none"},
        },
    });
    put(&world.admin, &body, "api-tier").await;
}

async fn shows(operator: &InventoryOperator, allocatable: u64, available: u64) {
    let wanted = Pair {
        allocatable,
        available,
    };
    let mut report = operator.reports();
    let is_it = |report: &Option<Arc<ClusterReport>>| {
        let of = |report: &Arc<ClusterReport>| report.metrics().storage.get(CEPH) == Some(&wanted);
        report.as_ref().is_some_and(of)
    };
    let found = tokio::time::timeout(Duration::from_secs(40), report.wait_for(is_it)).await;
    let is_found = found.is_ok();
    assert!(is_found, "{wanted:?} is not in {:?}", operator.reports().borrow());
}

#[test]
fn ceph_storage_is_reported_with_the_size_from_rook() {
    run_alone("op-inv-rook", |world, testbed| {
        async move {
            clear(world).await;
            define(world, "CephCluster", "cephclusters").await;
            define(world, "CephBlockPool", "cephblockpools").await;
            let home = &world.settings.manifest_namespace;
            let of_rook = |kind: &str, name: &str, spec: Value| {
                json!({
                    "apiVersion": "ceph.rook.io/v1", "kind": kind,
                    "metadata": {"name": name, "namespace": home}, "spec": spec,
                })
            };
            put(&world.admin, &of_rook("CephCluster", "disks", json!({})), "api-tier").await;
            let pool = of_rook("CephBlockPool", "fast", json!({"replicated": {"size": 2}}));
            put(&world.admin, &pool, "api-tier").await;
            let class = json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "rook-ceph.rbd.csi.ceph.com",
                "metadata": {"name": CEPH, "labels": {"akash.network": "true"}},
                "parameters": {"clusterID": home, "pool": "fast"},
            });
            put(&world.admin, &class, "api-tier").await;
            node(world, "op-inv-one", json!({}), json!({"cpu": "8", "memory": "16Gi", "pods": "110"})).await;
            let _kubelets = kubelets(world);
            let mut options = InventoryOperatorOptions::default();
            options.rules = Rules::new([CEPH.to_owned()]).unwrap();
            let operator = InventoryOperator::start(&WriteClient::without_election(account(world, &testbed).await), options);
            settled(world, &operator, 1).await;
            assert_eq!(labels(world, "op-inv-one").await[&format!("{CLASS}{CEPH}")], "1");
            let has_no_size = || async { operator.status().ignored.join("\n").contains("CephCluster `disks` reports no size") };
            world.until("Rook reports no size yet", has_no_size).await;
            // Two copies of each object, and Ceph stops at 95 % usage.
            says(world, json!(200 * GIB), 20 * GIB).await;
            shows(&operator, 95 * GIB, 85 * GIB).await;
            volume(world, "op-inv-volume", "30Gi").await;
            shows(&operator, 95 * GIB, 65 * GIB).await;
            // The cluster is full: it contains more data than the volumes account for.
            says(world, json!(200 * GIB), 198 * GIB).await;
            shows(&operator, 95 * GIB, 0).await;
            // Storage of unknown size is not offered, regardless of its previous size.
            says(world, Value::Null, 0).await;
            world.until("Rook reports no size", has_no_size).await;
            let report = operator.reports().borrow().clone().unwrap();
            assert!(!report.metrics().storage.contains_key(CEPH));
            let volumes: Api<k8s_openapi::api::core::v1::PersistentVolume> = Api::all(world.admin.clone());
            let gone = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let _ = volumes.delete("op-inv-volume", &DeleteParams::default()).await;
            let _ = volumes.patch("op-inv-volume", &PatchParams::default(), &gone).await;
            undefine(world).await;
            clear(world).await;
        }
        .boxed()
    });
}

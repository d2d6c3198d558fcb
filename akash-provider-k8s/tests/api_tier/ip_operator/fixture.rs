//! Objects of the IP operator tests: ServiceAccount, pools and records, and the addresses that MetalLB would
//! assign.

use crate::world::{World, deployment, put, service};
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::labels;
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_kube_model::crd::convert::to_manifest;
use akash_provider_operators::ip::{AddressStatus, IpOperator, IpOperatorOptions};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

pub(crate) const POOLS: &str = "ipaddresspools.metallb.io";

/// Returns a client with the rights of the operator.
pub(crate) async fn account(world: &World) -> Client {
    let own = &world.settings.manifest_namespace;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/operators/ip.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.replace("namespace: lease", &format!("namespace: {own}"));
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for mut document in documents {
        if document["kind"].as_str().unwrap().starts_with("Cluster") {
            document["metadata"]["name"] = json!(role(world));
            if document.get("roleRef").is_some() {
                document["roleRef"]["name"] = json!(role(world));
            }
        }
        put(&world.admin, &document, "api-tier").await;
    }
    world.client_of("akash-operator-ip").await
}

pub(crate) fn role(world: &World) -> String {
    format!("akash-operator-ip-{}", world.settings.manifest_namespace)
}

pub(crate) async fn take_rights(world: &World) {
    let bindings: Api<ClusterRoleBinding> = Api::all(world.admin.clone());
    let roles: Api<ClusterRole> = Api::all(world.admin.clone());
    let _ = bindings.delete(&role(world), &DeleteParams::default()).await;
    let _ = roles.delete(&role(world), &DeleteParams::default()).await;
}

pub(crate) fn pools(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("metallb.io", "v1beta1", "IPAddressPool");
    let namespace = &world.settings.manifest_namespace;
    Api::namespaced_with(world.admin.clone(), namespace, &ApiResource::from_gvk(&kind))
}

pub(crate) async fn define_pools(world: &World) {
    let spec = json!({"type": "object", "properties": {
        "addresses": {"type": "array", "items": {"type": "string"}},
        "autoAssign": {"type": "boolean"}, "avoidBuggyIPs": {"type": "boolean"},
        "serviceAllocation": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": POOLS},
        "spec": {
            "group": "metallb.io", "scope": "Namespaced",
            "names": {"kind": "IPAddressPool", "plural": "ipaddresspools", "singular": "ipaddresspool"},
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    });
    put(&world.admin, &definition, "api-tier").await;
    let served = || async { pools(world).list(&ListParams::default()).await.is_ok() };
    world.until("pools are served", served).await;
}

pub(crate) async fn pool(world: &World, name: &str, addresses: &[&str]) {
    let pool = json!({
        "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
        "metadata": {"name": name, "namespace": world.settings.manifest_namespace},
        "spec": {"addresses": addresses},
    });
    put(&world.admin, &pool, "operator").await;
}

pub(crate) async fn record(world: &World, lease: &LeaseId) {
    let mut all = labels::lease(lease);
    all.extend(labels::selector(&lease.namespace()));
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": lease.namespace(), "labels": all},
    });
    put(&world.admin, &namespace, "provider").await;
    record_as(world, &deployment(lease, vec![service("web")])).await;
}

/// Creates only the Manifest record of the deployment.
pub(crate) async fn record_as(world: &World, deployment: &WorkloadSpec) {
    let manifest = to_manifest(deployment, &world.settings).unwrap();
    put(&world.admin, &serde_json::to_value(manifest).unwrap(), "provider").await;
}

pub(crate) fn key(lease: &LeaseId, endpoint: &str) -> String {
    format!("{}-ip-{endpoint}", lease.owner())
}

pub(crate) fn declared(lease: &LeaseId, endpoint: &str, port: u16) -> String {
    format!("{}-tcp-{port}", key(lease, endpoint))
}

pub(crate) async fn declare(world: &World, lease: &LeaseId, endpoint: &str, port: u16) {
    let group = &lease.order.group;
    let record = json!({
        "apiVersion": "akash.network/v2beta2", "kind": "ProviderLeasedIP",
        "metadata": {"name": declared(lease, endpoint, port), "namespace": world.settings.manifest_namespace},
        "spec": {
            "lease_id": {
                "owner": group.deployment.owner, "dseq": group.deployment.dseq.to_string(), "gseq": group.gseq,
                "oseq": lease.order.oseq, "provider": lease.provider,
            },
            "service_name": "web", "port": 8080, "external_port": port, "sharing_key": key(lease, endpoint),
            "protocol": "TCP",
        },
    });
    put(&world.admin, &record, "provider").await;
}

pub(crate) async fn undeclare(world: &World, lease: &LeaseId, endpoint: &str, port: u16) {
    let own = &world.settings.manifest_namespace;
    world
        .delete("ProviderLeasedIP", own, &declared(lease, endpoint, port))
        .await;
}

/// Assigns addresses to the Service of a leased port, as MetalLB would.
pub(crate) async fn give(world: &World, lease: &LeaseId, port: u16, addresses: &[&str]) {
    let api: Api<Service> = Api::namespaced(world.admin.clone(), &lease.namespace());
    let ingress: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    let status = json!({"status": {"loadBalancer": {"ingress": ingress}}});
    let params = PatchParams::default();
    let given = api
        .patch_status(&name(port), &params, &Patch::Merge(&status))
        .await;
    given.unwrap();
}

pub(crate) fn name(port: u16) -> String {
    format!("web-ip-{port}-tcp")
}

pub(crate) async fn balancer(world: &World, lease: &LeaseId, port: u16) -> Option<Value> {
    world.get("Service", &lease.namespace(), &name(port)).await
}

pub(crate) fn options(world: &World) -> IpOperatorOptions {
    let own = &world.settings.manifest_namespace;
    let mut options = IpOperatorOptions::new(world.settings.provider.clone());
    options.manifest_namespace = own.clone();
    options.metallb_namespace = own.clone();
    options.patience.retry_delay = Duration::from_millis(200);
    options.watch_config.wait_absent = Duration::from_millis(500);
    options.watch_config.wait_absent_max = Duration::from_millis(500);
    options
}

pub(crate) async fn start(client: &Client, options: IpOperatorOptions) -> IpOperator {
    let operator = IpOperator::start(&WriteClient::without_election(client.clone()), options);
    let ready = tokio::time::timeout(Duration::from_secs(30), operator.ready()).await;
    assert!(ready.is_ok(), "not ready: {:?}", operator.status());
    operator
}

pub(crate) fn state(operator: &IpOperator, lease: &LeaseId, port: u16) -> Option<AddressStatus> {
    let place = format!("{}/{}", lease.namespace(), name(port));
    operator.status().addresses.remove(&place)
}

pub(crate) fn is_written(operator: &IpOperator, lease: &LeaseId, port: u16) -> bool {
    state(operator, lease, port).is_some_and(|state| state.is_written)
}

/// Returns the writes since the last call: method and last path segment.
pub(crate) fn writes(world: &World) -> Vec<String> {
    let calls = world.take_writes().into_iter();
    let short = calls.map(|call| {
        let path = call.path.split('?').next().unwrap_or_default().to_owned();
        format!("{} {}", call.method, path.rsplit('/').next().unwrap_or_default())
    });
    short.collect()
}

//! Edits of objects that isolate a lease, on a real node: the provider repairs them, and the pods of another
//! lease do not restart.

use crate::tenant::{Tenant, client, deployment, on_node};
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::{Permissions, ServiceParams};
use akash_provider_k8s::cluster::LeadershipGate;
use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

const SLEEPS: &str = "trap 'exit 0' TERM; sleep 86400 & wait";
const POLICY: &str = "akash-deployment-restrictions";
/// Maximum time until an edit is repaired, generous for busy machines.
const BOUND: Duration = Duration::from_secs(10);

/// API version, kind and name of an object.
type Object = (&'static str, &'static str, &'static str);

/// Returns one edit for each object, as a merge patch. The edits cover every kind of field that affects
/// isolation.
fn edits() -> [(Object, Value); 8] {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]);
    [
        (
            ("networking.k8s.io", "NetworkPolicy", POLICY),
            json!({"spec": {"podSelector": {"matchLabels": {"x": "y"}}, "egress": [{}]}}),
        ),
        (
            ("", "ResourceQuota", "akash-lease"),
            json!({"spec": {"hard": {"requests.cpu": "900"}}}),
        ),
        ((RBAC, "Role", "web"), json!({"rules": secrets})),
        ((RBAC, "RoleBinding", "web"), json!({"subjects": subjects})),
        (
            ("", "ServiceAccount", "web"),
            json!({"automountServiceAccountToken": false}),
        ),
        (
            ("", "Service", "web-np"),
            json!({"spec": {"selector": {"x": "y"}}}),
        ),
        (
            ("apps", "Deployment", "web"),
            json!({"spec": {"paused": true, "template": {"spec": {"hostNetwork": true, "hostPID": true}}}}),
        ),
        (
            ("", "Namespace", ""),
            json!({"metadata": {"labels": {"akash.network": null, "pod-security.kubernetes.io/enforce": "privileged"}}}),
        ),
    ]
}

fn api(client: &Client, (group, kind, _): Object, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    match kind {
        "Namespace" => Api::all_with(client.clone(), &resource),
        _ => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

/// Returns the fields that affect isolation: namespace labels, or all fields except metadata and status.
async fn content(client: &Client, object: Object, namespace: &str) -> Value {
    let name = if object.2.is_empty() { namespace } else { object.2 };
    let live = api(client, object, namespace).get(name).await.unwrap();
    if object.1 == "Namespace" {
        return json!(live.labels());
    }
    let mut live = serde_json::to_value(live).unwrap();
    let fields = live.as_object_mut().unwrap();
    fields.retain(|field, _| !matches!(field.as_str(), "metadata" | "status" | "secrets"));
    live
}

async fn pods(client: &Client, namespace: &str) -> Vec<(String, i32)> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let all = api.list(&ListParams::default()).await.unwrap().items;
    let restarts = |pod: &Pod| {
        let containers = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
        containers.into_iter().flatten().map(|c| c.restart_count).sum()
    };
    let mut pods: Vec<_> = all
        .iter()
        .map(|pod| (pod.uid().unwrap(), restarts(pod)))
        .collect();
    pods.sort();
    pods
}

/// Returns a deployment with objects of all kinds. Its service may read logs.
fn reading(tenant: &Tenant) -> WorkloadSpec {
    let mut reading = deployment(&tenant.lease, SLEEPS, 1);
    let web = &mut Arc::make_mut(&mut reading.group).services[0];
    web.params = Some(ServiceParams {
        permissions: Some(Permissions {
            read: Some(vec!["logs".to_owned()]),
        }),
        ..ServiceParams::default()
    });
    reading
}

async fn run_scenario(edited: &Tenant, other: &Tenant, client: &Client) {
    let (first, second) = (reading(edited), reading(other));
    tokio::join!(edited.deploy_as(&first), other.deploy_as(&second));
    let (cluster, leading) = (Arc::clone(&edited.cluster), LeadershipGate::new(true));
    let _following =
        AbortOnDropHandle::new(tokio::spawn(async move { cluster.follow_drift(&leading).await }));
    let (cluster, leading) = (Arc::clone(&other.cluster), LeadershipGate::new(true));
    let _beside = AbortOnDropHandle::new(tokio::spawn(async move { cluster.follow_drift(&leading).await }));
    let home = edited.lease.namespace();
    let beside = pods(client, &other.lease.namespace()).await;
    assert_eq!(beside.len(), 1);
    let params = PatchParams {
        field_manager: Some("somebody".to_owned()),
        ..PatchParams::default()
    };
    for (object, patch) in edits() {
        let before = content(client, object, &home).await;
        let name = if object.2.is_empty() { &home } else { object.2 };
        api(client, object, &home)
            .patch(name, &params, &Patch::Merge(&patch))
            .await
            .unwrap();
        let begin = Instant::now();
        while content(client, object, &home).await != before {
            assert!(begin.elapsed() < BOUND, "{object:?} is not restored");
            sleep(Duration::from_millis(20)).await;
        }
        println!("{} restored after {} ms", object.1, begin.elapsed().as_millis());
    }
    assert_eq!(
        pods(client, &other.lease.namespace()).await,
        beside,
        "the pods of the other lease changed"
    );
}

#[test]
fn edits_of_isolation_are_repaired_without_restarts_in_another_lease() {
    on_node(async |place| {
        let client = client(&place.kubeconfig).await;
        let edited = Tenant::with(&place.kubeconfig, |_| {}).await;
        let other = Tenant::with(&place.kubeconfig, |_| {}).await;
        let outcome = AssertUnwindSafe(run_scenario(&edited, &other, &client))
            .catch_unwind()
            .await;
        tokio::join!(edited.remove(), other.remove());
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}

//! An update of a lease after an update that failed.

use crate::tenant::{Tenant, WAIT_LIMIT, client, deployment, on_node};
use akash_provider_core::cluster::{Cluster, WorkloadSpec};
use akash_provider_core::manifest::{ServiceParams, StorageParams};
use akash_provider_core::types::{Attribute, Storage};
use akash_provider_k8s::cluster::LeadershipGate;
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Script that stores a text in an empty volume.
const KEEPS: &str = "trap 'exit 0' TERM; test -e /data/word || echo first > /data/word; sleep 86400 & wait";

const CLASS: &str = "rollouts";

fn persistent(tenant: &Tenant, script: &str) -> WorkloadSpec {
    let mut deployment = deployment(&tenant.lease, script, 1);
    let web = &mut Arc::make_mut(&mut deployment.group).services[0];
    let attributes =
        [("class", CLASS), ("persistent", "true")].map(|(key, value)| Attribute::new(key, value));
    web.resources
        .storage
        .push(Storage::new("data", 64 << 20, attributes.into()));
    web.params = Some(ServiceParams {
        storage: Some(vec![StorageParams {
            name: "data".to_owned(),
            mount: "/data".to_owned(),
            read_only: false,
        }]),
        ..ServiceParams::default()
    });
    deployment
}

/// Creates a storage class with volumes in folders of the nodes.
async fn offer_storage(client: &Client) {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS},
        "provisioner": "kubernetes.io/host-path",
    });
    let classes: Api<StorageClass> = Api::all(client.clone());
    let params = PatchParams::apply("node-tier");
    classes
        .patch(CLASS, &params, &Patch::Apply(&class))
        .await
        .unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    let label = format!("akash.network/capabilities.storage.class.{CLASS}");
    let label = json!({"metadata": {"labels": {label: "1"}}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(&label));
    for node in nodes.list(&ListParams::default()).await.unwrap() {
        nodes.patch(&node.name_any(), &params, &patch).await.unwrap();
    }
}

async fn run_scenario(tenant: &Tenant, client: &Client) {
    let ns = tenant.lease.namespace();
    tenant.deploy_as(&persistent(tenant, KEEPS)).await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &ns);
    let before = claims.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(before.len(), 1);

    let mut broken = persistent(tenant, KEEPS);
    Arc::make_mut(&mut broken.group).services[0].image = "localhost/no-such-image:1".to_owned();
    tenant.cluster.deploy(&broken).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &ns);
    let waits = async {
        loop {
            let pod = pods.get_opt("web-0").await.unwrap();
            let status = pod.and_then(|pod| pod.status).unwrap_or_default();
            let mut states = status
                .container_statuses
                .into_iter()
                .flatten()
                .filter_map(|c| c.state);
            if states.any(|state| {
                state
                    .waiting
                    .is_some_and(|w| w.reason.is_some_and(|r| r.contains("Pull")))
            }) {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(WAIT_LIMIT, waits)
        .await
        .expect("no pod reports a failed pull");

    tenant
        .deploy_as(&persistent(tenant, &KEEPS.replace("first", "second")))
        .await;
    assert_eq!(
        tenant.sh("cat /data/word").await,
        (0, "first\n".to_owned(), String::new())
    );
    let after = claims.list(&ListParams::default()).await.unwrap().items;
    let uids = |claims: &[PersistentVolumeClaim]| -> Vec<_> { claims.iter().map(ResourceExt::uid).collect() };
    assert_eq!(uids(&after), uids(&before));
}

#[test]
fn valid_update_follows_bad_image_and_volumes_persist() {
    on_node(async |place| {
        let client = client(&place.kubeconfig).await;
        offer_storage(&client).await;
        let tenant = Tenant::with(&place.kubeconfig, |_| {}).await;
        let cluster = Arc::clone(&tenant.cluster);
        let _following = AbortOnDropHandle::new(tokio::spawn(async move {
            cluster.follow_rollouts(&LeadershipGate::new(true)).await;
        }));
        let outcome = AssertUnwindSafe(run_scenario(&tenant, &client))
            .catch_unwind()
            .await;
        tenant.remove().await;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}

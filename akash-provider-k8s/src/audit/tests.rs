#[path = "../../kernel/tests/support/deletions.rs"]
mod deletions;

use super::DeletionLog;
use crate::apply::item::{ItemKind, ObjectId};
use crate::apply::plan::{Delete, ObjectHashes};
use crate::apply::{Job, Steps};
use crate::cluster::KubeCluster;
use crate::labels;
use crate::settings::KubeSettings;
use crate::write_client::WriteClient;
use akash_provider_core::error::Error;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::audit::UNUSED;
use deletions::{api_server, api_server_with, lines, memory_log};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use serde_json::json;
use std::sync::Arc;

fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        uid: Some("u1".to_owned()),
        ..ObjectMeta::default()
    }
}

fn lease() -> LeaseId {
    const ACCOUNT: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
    format!("{ACCOUNT}/1/1/1/{ACCOUNT}").parse().unwrap()
}

/// Secret with the passwords of a lease, created in 2020. The lease has no Manifest.
fn password_secret() -> ObjectMeta {
    ObjectMeta {
        labels: Some(labels::lease(&lease())),
        creation_timestamp: Some(Time("2020-01-01T00:00:00Z".parse().unwrap())),
        ..meta(&format!("{}-registry", lease().namespace()))
    }
}

fn cluster(client: Client, deletions: DeletionLog) -> Arc<KubeCluster> {
    let mut settings = KubeSettings::new(lease().provider);
    settings.deletions = deletions;
    KubeCluster::connect(WriteClient::without_election(client), settings).unwrap()
}

async fn delete_foreign(cluster: &KubeCluster) -> Result<(), Error> {
    let id = ObjectId::new(ItemKind::NetworkPolicy, "open");
    let calls = cluster.inner().calls("heal");
    cluster
        .inner()
        .delete_foreign(&calls, "ns", &id, &meta("open"))
        .await
}

#[tokio::test]
async fn deletions_that_the_provider_decides_have_a_reason_and_an_object_in_the_audit_log() {
    let ((client, deletions), (log, entries)) = (api_server(), memory_log(false));
    let cluster = cluster(client, log);
    assert!(cluster.inner().collect(&password_secret()).await.unwrap());
    delete_foreign(&cluster).await.unwrap();
    let pod = Pod {
        metadata: meta("web-0"),
        ..Pod::default()
    };
    cluster.inner().delete_pod("ns", &pod).await.unwrap();
    let (lease, home) = (lease(), lease().namespace());
    let act = |text: String| [format!("{text} intent"), format!("{text} done")];
    let expected = [
        act(format!(
            "object_delete {lease} no_manifest (Secret lease/{home}-registry, uid u1)"
        )),
        act("object_delete ns weakens_isolation (NetworkPolicy ns/open, uid u1)".to_owned()),
        act("pod_replace ns blocks_update (Pod ns/web-0, uid u1)".to_owned()),
    ];
    assert_eq!(lines(&entries), expected.concat());
    assert_eq!(deletions.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn deletions_wait_for_the_audit_log_except_a_pod_that_is_recreated() {
    let ((client, deletions), (log, entries)) = (api_server(), memory_log(true));
    let cluster = cluster(client, log);
    let error = cluster.inner().collect(&password_secret()).await.unwrap_err();
    assert_eq!(error.message(), "disk full");
    delete_foreign(&cluster).await.unwrap_err();
    assert!(deletions.lock().unwrap().is_empty() && entries.lock().unwrap().is_empty());
    let pod = Pod {
        metadata: meta("web-0"),
        ..Pod::default()
    };
    cluster.inner().delete_pod("ns", &pod).await.unwrap();
    assert_eq!(*deletions.lock().unwrap(), ["/api/v1/namespaces/ns/pods/web-0"]);
    assert_eq!(entries.lock().unwrap().len(), 2);
}

/// Deletes a Secret and a Service that an update does not use.
async fn finish_update(cluster: &KubeCluster, deletions: &DeletionLog) {
    let (lease, ledger) = (lease(), ObjectHashes::default());
    let job = Job {
        name: "ns",
        namespace: &json!({"metadata": {"annotations": {}}}),
        items: &[],
        ledger: &ledger,
        search: &[],
        is_new: false,
        lease: &lease,
        deletions,
    };
    let mut steps = Steps::default();
    steps.deletes = [ItemKind::Secret, ItemKind::Service]
        .map(|kind| Delete {
            id: ObjectId::new(kind, "login"),
            uid: Some("u2".to_owned()),
        })
        .into();
    job.finish(&cluster.inner().calls("deploy"), steps).await.unwrap();
}

#[tokio::test]
async fn secrets_that_an_update_does_not_use_are_recorded_also_while_the_log_is_full() {
    for is_full in [false, true] {
        let secret = password_secret();
        let ((client, deletions), (log, entries)) = (api_server_with(Some(&secret)), memory_log(is_full));
        let cluster = cluster(client, log.clone());
        let (inner, lease, home) = (cluster.inner(), lease(), lease().namespace());
        inner
            .delete_passwords(&lease, Some(UNUSED), "deploy")
            .await
            .unwrap();
        inner.take_back_passwords(&lease, "deploy").await;
        finish_update(&cluster, &log).await;
        // The record of the teardown includes this deletion.
        inner.delete_passwords(&lease, None, "teardown").await.unwrap();
        let act = |reason: &str, secret: &str| {
            ["intent", "done"].map(|result| format!("secret_delete {lease} {reason} ({secret}) {result}"))
        };
        let passwords = format!("Secret lease/{home}-registry, uid u1");
        let expected = [
            act("not_in_manifest", &passwords),
            act("manifest_rejected", &passwords),
            act("not_in_manifest", "Secret ns/login, uid u2"),
        ];
        assert_eq!(lines(&entries), expected.concat());
        assert_eq!(deletions.lock().unwrap().len(), 5);
    }
}

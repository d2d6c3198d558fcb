use super::*;
use crate::apply::item::{Id, Kind};
use crate::cluster::KubeCluster;
use crate::labels;
use crate::settings::Settings;
use crate::write_client::WriteClient;
use akash_provider_core::audit::AuditEntry;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::types::LeaseId;
use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use std::sync::{Mutex, PoisonError};

/// Audit log in memory, which rejects records while `is_full` is true.
#[derive(Debug, Default)]
pub(crate) struct MemoryLog {
    is_full: bool,
    entries: Arc<Mutex<Vec<AuditEntry>>>,
}

/// Entries of a [`MemoryLog`].
pub(crate) type Entries = Arc<Mutex<Vec<AuditEntry>>>;

pub(crate) fn memory_log(is_full: bool) -> (DeletionLog, Entries) {
    let log = MemoryLog {
        is_full,
        ..MemoryLog::default()
    };
    let entries = Arc::clone(&log.entries);
    (DeletionLog::new(log), entries)
}

#[async_trait]
impl AuditLog for MemoryLog {
    async fn record(&self, entry: AuditEntry) -> Result<(), Error> {
        if self.is_full {
            return Err(Error::new(ErrorKind::Unavailable, "audit", "disk full"));
        }
        self.submit(entry);
        Ok(())
    }

    fn submit(&self, entry: AuditEntry) {
        self.entries.lock().unwrap().push(entry);
    }
}

/// Returns a client of an API server without objects, and the paths of the received deletions.
pub(crate) fn api_server() -> (Client, Arc<Mutex<Vec<String>>>) {
    let deletions: Arc<Mutex<Vec<String>>> = Arc::default();
    let received = Arc::clone(&deletions);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let is_deletion = request.method() == http::Method::DELETE;
        if is_deletion {
            let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
            received.push(request.uri().path().to_owned());
        }
        let (code, body) = match is_deletion {
            true => (200, json!({"kind": "Status", "status": "Success"})),
            false => (
                404,
                json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}),
            ),
        };
        let response = http::Response::builder().status(code);
        let response = response.body(Body::from(body.to_string().into_bytes()));
        std::future::ready(response.map_err(std::io::Error::other))
    });
    (Client::new(service, "default"), deletions)
}

/// Returns act, subject, reason, object and result of each entry.
pub(crate) fn lines(entries: &Entries) -> Vec<String> {
    let line = |entry: &AuditEntry| {
        let act = &entry.act;
        let result = entry.outcome.as_ref().map_or("intent", |outcome| outcome.result);
        let (reason, object) = (
            act.reason.as_deref().unwrap(),
            act.evidence.object.as_deref().unwrap(),
        );
        assert_eq!(act.actor, Actor::Provider);
        format!("{} {} {reason} ({object}) {result}", act.kind.name(), act.subject)
    };
    entries.lock().unwrap().iter().map(line).collect()
}

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
    let settings = Settings {
        deletions,
        ..Settings::new(lease().provider)
    };
    KubeCluster::connect(WriteClient::without_election(client), settings).unwrap()
}

async fn delete_foreign(cluster: &KubeCluster) -> Result<(), Error> {
    let id = Id {
        kind: Kind::NetworkPolicy,
        name: "open".to_owned(),
    };
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

//! Audit log in memory and an API server that records deletions, for tests of the crates above the kernel.

use akash_provider_core::audit::{Actor, AuditEntry, AuditLog};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_kube_kernel::audit::DeletionLog;
use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};

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
    api_server_with(None)
}

/// Returns a client of an API server with one object, and the paths of the received deletions.
pub(crate) fn api_server_with(object: Option<&ObjectMeta>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let kind = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object});
    let path = object.map(|object| format!("/{}", object.name.as_deref().unwrap()));
    let deletions: Arc<Mutex<Vec<String>>> = Arc::default();
    let received = Arc::clone(&deletions);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let is_deletion = request.method() == http::Method::DELETE;
        if is_deletion {
            let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
            received.push(request.uri().path().to_owned());
        }
        let is_there = path
            .as_ref()
            .is_some_and(|end| request.uri().path().ends_with(end));
        let (code, body) = match (is_deletion, is_there || request.method() == http::Method::PATCH) {
            (true, _) => (200, json!({"kind": "Status", "status": "Success"})),
            (false, true) => (200, kind.clone()),
            (false, false) => (
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

//! Writes and deletes load balancers as the index says, and tells what came of it.

use super::index::{Index, Work, Write};
use super::shared::Shared;
use crate::apply::Calls;
use crate::labels;
use crate::operators::board::Board;
use crate::operators::worker::Writes;
use akash_provider_core::error::{Error, ErrorKind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use serde_json::Value;
use std::sync::Arc;

/// Who writes load balancers.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) calls: Calls,
    /// Services.
    pub(super) resource: ApiResource,
}

impl Writes for Writer {
    type Index = Index;

    fn board(&self) -> &Board<Index> {
        &self.shared.board
    }

    async fn carry_out(&self, place: &str, work: &Work) -> Result<(), Error> {
        let Some((namespace, name)) = place.split_once('/') else {
            return Ok(());
        };
        if let Some(uid) = &work.delete {
            tracing::info!(service = place, "the Service of a leased address is deleted");
            self.calls
                .delete_as(&self.resource, namespace, name, Some(uid), None)
                .await?;
            self.shared.deleted(place, uid);
        }
        if let Some(write) = &work.write {
            let meta = self.write(namespace, name, write).await?;
            self.shared.written(place, &meta, &write.body);
        }
        Ok(())
    }
}

impl Writer {
    async fn write(&self, namespace: &str, name: &str, write: &Write) -> Result<ObjectMeta, Error> {
        let Some(uid) = &write.uid else {
            // Looked at before it is made: an object of somebody else must not be taken over.
            let there = self.calls.metadata(&self.resource, namespace, name).await?;
            if let Some(there) = there {
                return Err(occupied(self.calls.operation(), &there, &write.body));
            }
            tracing::info!(
                service = name,
                namespace,
                "the Service of a leased address is made"
            );
            return self
                .calls
                .apply_new(&self.resource, namespace, name, &write.body)
                .await;
        };
        if write.take_over {
            self.calls.take_over_as(&self.resource, namespace, name).await?;
        }
        tracing::info!(
            service = name,
            namespace,
            differs = write.at,
            "the Service of a leased address is written anew"
        );
        self.calls
            .apply_again(&self.resource, namespace, name, uid, &write.body)
            .await
    }
}

/// There is an object of that name that the watch does not show: ours a moment too early, or somebody else's.
fn occupied(operation: &'static str, there: &ObjectMeta, wanted: &Value) -> Error {
    let is_same = |key: &str| {
        let there = there.labels.as_ref().and_then(|all| all.get(key));
        let wanted = wanted.pointer("/metadata/labels").and_then(|all| all.get(key));
        there.map(String::as_str) == wanted.and_then(Value::as_str)
    };
    if is_same(labels::SERVICE_TARGET) && labels::LEASE.iter().all(|key| is_same(key)) {
        let message = "its Service is there already, which the watch has not said yet";
        return Error::new(ErrorKind::Conflict, operation, message).transient();
    }
    let message = "somebody else's Service has its name in the namespace of its lease; it is not touched, and nothing \
                   leads there until it is deleted";
    Error::new(ErrorKind::Conflict, operation, message)
}

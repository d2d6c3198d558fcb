//! Writes and deletes routes as the index says, and tells what came of it.
//!
//! A name that moves has its new route before the old one goes, so that it leads somewhere at every moment. A controller
//! whose admission refuses a second route of a name gets the old one deleted first. What a route refers to is written
//! before it, and its certificate asked for after it.

use super::index::{Delete, Work, Write};
use super::shared::{Hostnames, Shared};
use crate::apply::Calls;
use crate::labels;
use crate::operators::board::Board;
use crate::operators::worker::Writes;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::manifest::without_star;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use std::sync::Arc;

/// Who writes routes.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) calls: Calls,
}

impl Writes for Writer {
    type Index = Hostnames;

    fn board(&self) -> &Board<Hostnames> {
        &self.shared.board
    }

    async fn carry_out(&self, name: &str, work: &Work) -> Result<(), Error> {
        // One that cannot be written keeps nobody from the route, which refers to it only once it is accepted.
        let filtered = match &work.filter {
            Some(filter) => self.write(name, filter).await,
            None => Ok(()),
        };
        let mut written = match &work.write {
            Some(write) => self.write(name, write).await,
            None => Ok(()),
        };
        for delete in &work.deletes {
            self.delete(name, delete).await?;
        }
        if let (Err(_), Some(write), false) = (&written, &work.write, work.deletes.is_empty()) {
            written = self.write(name, write).await;
        }
        written?;
        filtered?;
        match &work.certificate {
            Some(certificate) => self.write(name, certificate).await,
            None => Ok(()),
        }
    }
}

impl Writer {
    async fn write(&self, name: &str, write: &Write) -> Result<(), Error> {
        let (namespace, object, resource) = (&write.namespace, &without_star(name), &write.sort.resource());
        let kind = resource.kind.as_str();
        let meta = match &write.uid {
            Some(uid) => {
                if write.take_over {
                    self.calls.take_over_as(resource, namespace, object).await?;
                }
                tracing::info!(
                    hostname = name,
                    kind,
                    namespace,
                    differs = write.at,
                    "an object is written anew"
                );
                match &write.patch {
                    Some(patch) => self.calls.restore(resource, namespace, object, patch).await?,
                    None => {
                        self.calls
                            .apply_again(resource, namespace, object, uid, &write.body)
                            .await?
                    }
                }
            }
            None => {
                // Looked at before it is made: an object of somebody else must not be taken over.
                let there = self.calls.metadata(resource, namespace, object).await?;
                if let Some(there) = there {
                    return Err(occupied(self.calls.operation(), &there, &write.body));
                }
                tracing::info!(hostname = name, kind, namespace, "an object is made");
                self.calls
                    .apply_new(resource, namespace, object, &write.body)
                    .await?
            }
        };
        self.shared.written(name, write, &meta);
        Ok(())
    }

    async fn delete(&self, name: &str, delete: &Delete) -> Result<(), Error> {
        let (namespace, resource) = (&delete.namespace, delete.sort.resource());
        tracing::info!(
            hostname = name,
            kind = resource.kind,
            namespace,
            "an object is deleted"
        );
        self.calls
            .delete_as(&resource, namespace, &without_star(name), Some(&delete.uid), None)
            .await?;
        self.shared.deleted(name, delete);
        Ok(())
    }
}

/// There is an object of that name that the watch does not show: ours a moment too early, or somebody else's.
fn occupied(operation: &'static str, there: &ObjectMeta, wanted: &Value) -> Error {
    let lease_there = there.labels.as_ref().and_then(labels::lease_of);
    let own: Option<labels::Labels> = wanted
        .pointer("/metadata/labels")
        .and_then(|labels| serde_json::from_value(labels.clone()).ok());
    if lease_there.is_some() && lease_there == own.as_ref().and_then(labels::lease_of) {
        let message = "its route is there already, which the watch has not said yet";
        return Error::new(ErrorKind::Conflict, operation, message).transient();
    }
    let message = "somebody else's object has its name in the namespace of its lease; it is not touched, and the name \
                   has no route until it is deleted";
    Error::new(ErrorKind::Conflict, operation, message)
}

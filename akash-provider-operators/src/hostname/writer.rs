//! Writes and deletes routes, and reports the results to the index.
//!
//! For a hostname that moves, the new route is written before the old one is deleted. If the admission of a controller
//! refuses a second route of a hostname, the old route is deleted first. Objects that a route references are written
//! before the route, and the certificate is requested after the route.

use super::index::{Delete, HostnameWork, HostnameWrite};
use super::shared::{HostnameOperatorState, Hostnames};
use crate::operator_state::OperatorState;
use crate::worker::ObjectWriter;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::manifest::without_star;
use akash_provider_kube_kernel::audit::DeletionLog;
use akash_provider_kube_kernel::calls::KubeCalls;
use akash_provider_kube_kernel::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(super) struct RouteWriter {
    pub(super) shared: Arc<HostnameOperatorState>,
    pub(super) calls: KubeCalls,
    pub(super) deletions: DeletionLog,
}

impl ObjectWriter for RouteWriter {
    type Index = Hostnames;

    fn state(&self) -> &OperatorState<Hostnames> {
        &self.shared.state
    }

    async fn carry_out(&self, name: &str, work: &HostnameWork) -> Result<(), Error> {
        // A filter that cannot be written does not prevent the route, which references only an accepted filter.
        let filtered = match &work.filter {
            Some(filter) => self.write(name, filter).await,
            None => Ok(()),
        };
        let mut written = match &work.write {
            Some(write) => self.write(name, write).await,
            None => Ok(()),
        };
        for delete in &work.deletes {
            self.delete(name, delete, work).await?;
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

impl RouteWriter {
    async fn write(&self, name: &str, write: &HostnameWrite) -> Result<(), Error> {
        let (namespace, object, resource) = (&write.namespace, &without_star(name), &write.sort.resource());
        let kind = resource.kind.as_str();
        let meta = match &write.uid {
            Some(uid) => {
                if write.take_over {
                    self.calls.take_over(resource, namespace, object).await?;
                }
                let meta = match &write.patch {
                    Some(patch) => self.calls.restore(resource, namespace, object, patch).await?,
                    None => {
                        self.calls
                            .apply_again(resource, namespace, object, uid, &write.body)
                            .await?
                    }
                };
                tracing::info!(
                    hostname = name,
                    kind,
                    namespace,
                    differs = write.at,
                    "object of a hostname updated"
                );
                meta
            }
            None => {
                // The existing object is read first: an object of another client must not be taken over.
                let there = self.calls.metadata(resource, namespace, object).await?;
                if let Some(there) = there {
                    return Err(occupied(self.calls.operation(), &there, &write.body));
                }
                let meta = self
                    .calls
                    .apply_new(resource, namespace, object, &write.body)
                    .await?;
                tracing::info!(
                    hostname = name,
                    kind,
                    namespace,
                    "route or certificate of a hostname created"
                );
                meta
            }
        };
        self.shared.written(name, write, &meta);
        Ok(())
    }

    async fn delete(&self, name: &str, delete: &Delete, work: &HostnameWork) -> Result<(), Error> {
        let other_reason = if work.is_withdrawn {
            "proof_removed"
        } else {
            "outdated"
        };
        let (namespace, resource) = (&delete.namespace, delete.sort.resource());
        let (object, uid) = (without_star(name), Some(&*delete.uid));
        let deleting = self.calls.delete(&resource, namespace, &object, uid, None);
        let place = (&*resource.kind, &**namespace, &*object, uid);
        self.deletions
            .record_route(work.missing.as_ref(), other_reason, name, place, deleting)
            .await?;
        tracing::info!(
            hostname = name,
            kind = resource.kind,
            namespace,
            "route or certificate of a hostname deleted"
        );
        self.shared.deleted(name, delete);
        Ok(())
    }
}

/// Returns the error for an existing object that the watch has not reported. The watch event is pending, or
/// another client created the object.
fn occupied(operation: &'static str, there: &ObjectMeta, wanted: &Value) -> Error {
    let lease_there = there.labels.as_ref().and_then(labels::lease_of);
    let own: Option<labels::Labels> = wanted
        .pointer("/metadata/labels")
        .and_then(|labels| serde_json::from_value(labels.clone()).ok());
    if lease_there.is_some() && lease_there == own.as_ref().and_then(labels::lease_of) {
        let message = "the route exists already, and its watch event is pending";
        return Error::new(ErrorKind::Conflict, operation, message).transient();
    }
    let message = "an object of another client has this name in the namespace of the lease and is not changed; the hostname \
                   has no route until that object is deleted";
    Error::new(ErrorKind::Conflict, operation, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deletions::{api_server, lines, memory_log};
    use crate::hostname::HostnameOperatorOptions;
    use crate::hostname::object_kind::ObjectKind;
    use akash_provider_kube_kernel::audit::MissingRecord;
    use std::time::Duration;

    #[tokio::test]
    async fn deletions_are_in_the_audit_log_and_wait_for_it_without_a_record() {
        let route = Delete {
            sort: ObjectKind::Ingress,
            namespace: "ns".to_owned(),
            uid: "u1".to_owned(),
        };
        let record = MissingRecord {
            key: "a.example.com".to_owned(),
            has_reason: true,
        };
        let work = |missing: Option<&MissingRecord>| HostnameWork {
            deletes: vec![route.clone()],
            missing: missing.cloned(),
            ..HostnameWork::default()
        };
        for is_full in [false, true] {
            let ((client, deletions), (log, entries)) = (api_server(), memory_log(is_full));
            let options = HostnameOperatorOptions::default();
            let shared = HostnameOperatorState::new(
                options.plan,
                options.patience,
                options.handover,
                options.definitions,
            );
            let writer = RouteWriter {
                shared: Arc::new(shared),
                calls: KubeCalls::new(client, Duration::from_secs(1), "route"),
                deletions: log,
            };
            let missing = writer.carry_out("a.example.com", &work(Some(&record))).await;
            assert_eq!(missing.is_err(), is_full);
            // The hostname moved: its record exists.
            writer.carry_out("a.example.com", &work(None)).await.unwrap();
            let withdrawn = HostnameWork {
                is_withdrawn: true,
                ..work(None)
            };
            writer.carry_out("a.example.com", &withdrawn).await.unwrap();
            let acts = [
                "object_delete a.example.com record_removed",
                "route_delete a.example.com outdated",
                "route_delete a.example.com proof_removed",
            ];
            let acts = &acts[usize::from(is_full)..];
            let object = "(Ingress ns/a.example.com, uid u1)";
            let expected = acts
                .iter()
                .flat_map(|act| [format!("{act} {object} intent"), format!("{act} {object} done")]);
            assert_eq!(lines(&entries), expected.collect::<Vec<_>>());
            assert_eq!(deletions.lock().unwrap().len(), acts.len());
        }
    }
}

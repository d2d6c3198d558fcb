//! Writes and deletes the Services of leased addresses, and reports the results to the index.

use super::index::{IpIndex, IpWork, ServiceWrite};
use super::shared::IpOperatorState;
use crate::operator_state::OperatorState;
use crate::worker::ObjectWriter;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_kube_kernel::audit::DeletionLog;
use akash_provider_kube_kernel::calls::KubeCalls;
use akash_provider_kube_kernel::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use serde_json::Value;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(super) struct ServiceWriter {
    pub(super) shared: Arc<IpOperatorState>,
    pub(super) calls: KubeCalls,
    /// API resource of Services.
    pub(super) resource: ApiResource,
    pub(super) deletions: DeletionLog,
}

impl ObjectWriter for ServiceWriter {
    type Index = IpIndex;

    fn state(&self) -> &OperatorState<IpIndex> {
        &self.shared.state
    }

    async fn carry_out(&self, place: &str, work: &IpWork) -> Result<(), Error> {
        let Some((namespace, name)) = place.split_once('/') else {
            return Ok(());
        };
        if let Some(uid) = &work.delete {
            let (missing, object) = (work.missing.as_ref(), ("Service", namespace, name, Some(&**uid)));
            let deleting = self
                .calls
                .delete(&self.resource, namespace, name, Some(uid), None);
            self.deletions
                .record_route(missing, "outdated", place, object, deleting)
                .await?;
            tracing::info!(
                service = name,
                namespace,
                "LoadBalancer Service of a leased IP deleted"
            );
            self.shared.deleted(place, uid);
        }
        if let Some(write) = &work.write {
            let meta = self.write(namespace, name, write).await?;
            self.shared.written(place, &meta, &write.body);
        }
        Ok(())
    }
}

impl ServiceWriter {
    async fn write(&self, namespace: &str, name: &str, write: &ServiceWrite) -> Result<ObjectMeta, Error> {
        let Some(uid) = &write.uid else {
            // The existing object is read first: an object of another client must not be taken over.
            let there = self.calls.metadata(&self.resource, namespace, name).await?;
            if let Some(there) = there {
                return Err(occupied(self.calls.operation(), &there, &write.body));
            }
            let meta = self
                .calls
                .apply_new(&self.resource, namespace, name, &write.body)
                .await?;
            tracing::info!(
                service = name,
                namespace,
                "LoadBalancer Service of a leased IP created"
            );
            return Ok(meta);
        };
        if write.take_over {
            self.calls.take_over(&self.resource, namespace, name).await?;
        }
        let meta = self
            .calls
            .apply_again(&self.resource, namespace, name, uid, &write.body)
            .await?;
        tracing::info!(
            service = name,
            namespace,
            differs = write.at,
            "Service of a leased address updated"
        );
        Ok(meta)
    }
}

/// Returns the error for an existing Service that the watch has not reported. The watch event is pending, or
/// another client created the Service.
fn occupied(operation: &'static str, there: &ObjectMeta, wanted: &Value) -> Error {
    let is_same = |key: &str| {
        let there = there.labels.as_ref().and_then(|all| all.get(key));
        let wanted = wanted.pointer("/metadata/labels").and_then(|all| all.get(key));
        there.map(String::as_str) == wanted.and_then(Value::as_str)
    };
    if is_same(labels::SERVICE_TARGET) && labels::LEASE.iter().all(|key| is_same(key)) {
        let message = "the Service exists already, and its watch event is pending";
        return Error::new(ErrorKind::Conflict, operation, message).transient();
    }
    let message = "a Service of another client has this name in the namespace of the lease and is not changed; the address \
                   serves no traffic until that Service is deleted";
    Error::new(ErrorKind::Conflict, operation, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deletions::{api_server, lines, memory_log};
    use crate::ip::IpOperatorOptions;
    use akash_provider_core::types::Address;
    use akash_provider_kube_kernel::audit::MissingRecord;
    use k8s_openapi::api::core::v1::Service;
    use std::time::Duration;

    #[tokio::test]
    async fn deletions_are_in_the_audit_log_and_wait_for_it_without_a_record() {
        let work = |missing| IpWork {
            delete: Some("u1".to_owned()),
            missing,
            ..IpWork::default()
        };
        let record = |has_reason| {
            Some(MissingRecord {
                key: "record".to_owned(),
                has_reason,
            })
        };
        for is_full in [false, true] {
            let ((client, deletions), (log, entries)) = (api_server(), memory_log(is_full));
            let options = IpOperatorOptions::new(Address::from_bytes(&[1; 20]).unwrap());
            let (provider, mode) = (options.provider, options.mode);
            let shared = IpOperatorState::new(provider, mode, options.patience, options.definitions);
            let writer = ServiceWriter {
                shared: Arc::new(shared),
                calls: KubeCalls::new(client, Duration::from_secs(1), "leased address"),
                resource: ApiResource::erase::<Service>(&()),
                deletions: log,
            };
            let missing = writer.carry_out("ns/web", &work(record(false))).await;
            assert_eq!(missing.is_err(), is_full);
            // The Service moved: its record exists.
            writer.carry_out("ns/web", &work(None)).await.unwrap();
            let acts = [
                "object_delete ns/web record_missing",
                "route_delete ns/web outdated",
            ];
            let acts = &acts[usize::from(is_full)..];
            let object = "(Service ns/web, uid u1)";
            let expected = acts
                .iter()
                .flat_map(|act| [format!("{act} {object} intent"), format!("{act} {object} done")]);
            assert_eq!(lines(&entries), expected.collect::<Vec<_>>());
            assert_eq!(deletions.lock().unwrap().len(), acts.len());
        }
    }
}

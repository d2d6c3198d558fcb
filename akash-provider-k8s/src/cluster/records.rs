//! Writes of custom resources. A write fails if another client has written the object meanwhile.

use crate::error::{from_kube, within};
use crate::labels;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_kube_kernel::calls::deleting;
use akash_provider_kube_kernel::ownership::MANAGER;
use akash_provider_kube_kernel::rights::{self, Attempt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;

/// Maximum number of attempts to write an object that other clients write concurrently.
const TRIES: usize = 4;

/// Next action on a custom resource.
#[derive(Debug)]
pub(crate) enum RecordAction<K> {
    /// Change nothing.
    Keep,
    /// Write this object, after a merge with the metadata of the existing object.
    Write(K),
    /// Delete the object if it did not change since it was read.
    Delete,
}

/// Result of a [`RecordAction`] on a record object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RecordOutcome<K> {
    /// Nothing was written. Contains the object as last read, if it exists.
    Kept(Option<K>),
    /// The object in the API server after the write.
    Written(K),
    /// The uid of the deleted object.
    Deleted(String),
}

/// Access to the custom resources of one kind.
pub(crate) struct RecordApi<K> {
    pub(crate) api: Api<K>,
    pub(crate) limit: Duration,
    pub(crate) operation: &'static str,
}

impl<K> RecordApi<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    pub(crate) async fn read(&self, name: &str) -> Result<Option<K>, Error> {
        let read = within(self.limit, self.operation, self.api.get_opt(name)).await;
        // A missing record is no error, unlike a kind that is not served.
        read.map_err(|error| match error.kind() {
            ErrorKind::NotFound => not_served(self.operation, error.message()),
            _ => error,
        })
    }

    /// Executes the action that `judge` returns for `seen`. If the object changed meanwhile, reads the object
    /// and tries again.
    pub(crate) async fn settle(
        &self,
        name: &str,
        seen: Option<K>,
        judge: impl Fn(Option<&K>) -> Result<RecordAction<K>, Error>,
    ) -> Result<RecordOutcome<K>, Error> {
        let mut there = seen;
        // The first attempt uses the cache; the precondition fails if the cache is outdated.
        for _ in 0..TRIES {
            let done = match (judge(there.as_ref())?, &there) {
                (RecordAction::Keep, _) | (RecordAction::Delete, None) => {
                    return Ok(RecordOutcome::Kept(there));
                }
                (RecordAction::Write(wanted), _) => self.write(name, there.as_ref(), wanted).await?,
                (RecordAction::Delete, Some(object)) => self.delete(name, object.meta()).await?,
            };
            match done {
                Some(outcome) => return Ok(outcome),
                None => there = self.read(name).await?,
            }
        }
        let message =
            format!("cannot write record `{name}`: other clients write the record at the same time");
        Err(Error::new(ErrorKind::Conflict, self.operation, message).transient())
    }

    /// Creates the object, or replaces `there`. Returns `None` if the object changed since it was read.
    async fn write(
        &self,
        name: &str,
        there: Option<&K>,
        mut wanted: K,
    ) -> Result<Option<RecordOutcome<K>>, Error> {
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let answer = match there {
            None => self.timed(self.api.create(&params, &wanted)).await?,
            Some(there) => {
                merge_meta(there.meta(), wanted.meta_mut());
                self.timed(self.api.replace(name, &params, &wanted)).await?
            }
        };
        match answer {
            Ok(object) => Ok(Some(RecordOutcome::Written(object))),
            Err(kube::Error::Api(status)) if changed(&status, there.is_some()) => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                Err(not_served(self.operation, &status.message))
            }
            Err(error) => {
                let verbs: &'static [_] = if there.is_some() { &["update"] } else { &["create"] };
                Err(self.judged(error, verbs).await)
            }
        }
    }

    async fn delete(&self, name: &str, meta: &ObjectMeta) -> Result<Option<RecordOutcome<K>>, Error> {
        let params = deleting(meta);
        let uid = meta.uid.clone().unwrap_or_default();
        match self.timed(self.api.delete(name, &params)).await? {
            Ok(_) => Ok(Some(RecordOutcome::Deleted(uid))),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Some(RecordOutcome::Deleted(uid))),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(None),
            Err(error) => Err(self.judged(error, &["delete"]).await),
        }
    }

    /// Adds the cause to the error of a denied call (403): a missing RBAC right, or a rejection by admission
    /// control.
    async fn judged(&self, error: kube::Error, verbs: &'static [&'static str]) -> Error {
        let error = from_kube(self.operation, error);
        let attempt = Attempt::at::<K>(verbs, self.api.namespace());
        let client = self.api.clone().into_client();
        rights::judged(&client, self.limit, &attempt, error).await
    }

    async fn timed<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<kube::Result<T>, Error> {
        within(self.limit, self.operation, async { Ok(call.await) }).await
    }
}

/// Returns the error for a missing kind or namespace, which the API server reports as 404. A later request
/// can succeed.
fn not_served(operation: &'static str, message: &str) -> Error {
    let message = format!(
        "cannot access the record: {message}; check the CustomResourceDefinitions of deploy/crds and the namespace of \
         the records"
    );
    Error::new(ErrorKind::Unavailable, operation, message)
}

/// Returns true if a write failed because the object changed since it was read.
fn changed(status: &kube::core::Status, was_there: bool) -> bool {
    let gone = was_there && status.is_not_found();
    gone || status.is_conflict() || status.is_already_exists()
}

/// Merges the metadata. Labels and annotations of the provider come from `wanted`, all other metadata from
/// `there`.
fn merge_meta(there: &ObjectMeta, wanted: &mut ObjectMeta) {
    let ours = wanted.labels.take().unwrap_or_default();
    let mut merged = there.labels.clone().unwrap_or_default();
    merged.retain(|key, _| !key.starts_with(labels::MANAGED));
    merged.extend(ours);
    let annotations = wanted.annotations.take().unwrap_or_default();
    let mut all = there.annotations.clone().unwrap_or_default();
    all.retain(|key, _| !key.starts_with(labels::OURS));
    all.extend(annotations);
    *wanted = ObjectMeta {
        labels: Some(merged),
        annotations: Some(all),
        // The API server preserves missing managed fields.
        managed_fields: None,
        ..there.clone()
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> Option<labels::Labels> {
        let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
        Some(pairs.iter().map(owned).collect())
    }

    #[test]
    fn a_kind_that_is_not_served_is_unavailable_and_not_invalid() {
        let error = not_served("record", "404 page not found");
        assert_eq!(
            (error.kind(), error.is_transient()),
            (ErrorKind::Unavailable, true)
        );
        assert!(error.message().contains("deploy/crds"), "{error}");
    }

    #[test]
    fn metadata_of_others_is_preserved() {
        let there = ObjectMeta {
            name: Some("x".to_owned()),
            resource_version: Some("7".to_owned()),
            finalizers: Some(vec!["theirs".to_owned()]),
            labels: map(&[
                ("team", "a"),
                ("akash.network", "true"),
                ("akash.network/lease.id.oseq", "9"),
            ]),
            annotations: map(&[("note", "b"), (labels::EXTRA, "{}")]),
            ..ObjectMeta::default()
        };
        let mut wanted = ObjectMeta {
            labels: map(&[("akash.network", "true")]),
            annotations: map(&[(labels::CHAIN_ID, "c")]),
            ..ObjectMeta::default()
        };
        merge_meta(&there, &mut wanted);
        assert_eq!(wanted.labels, map(&[("akash.network", "true"), ("team", "a")]));
        assert_eq!(wanted.annotations, map(&[("note", "b"), (labels::CHAIN_ID, "c")]));
        assert_eq!(
            (wanted.resource_version, wanted.finalizers),
            (there.resource_version, there.finalizers)
        );
    }
}

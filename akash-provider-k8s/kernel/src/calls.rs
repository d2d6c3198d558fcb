//! API calls that read and write objects, each with a timeout.

use crate::error::{from_kube, is_absent};
use crate::labels;
use crate::ownership::{self, MANAGER};
use crate::rights::{self, Attempt};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::error::{Error, ErrorKind};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

/// Maximum number of attempts to change an object that other clients write concurrently.
const TRIES: usize = 6;
/// Rights needed for a server-side apply.
const APPLY: [&str; 2] = ["create", "patch"];

/// API calls of one operation.
#[derive(Clone)]
pub struct KubeCalls {
    client: Client,
    limit: Duration,
    operation: &'static str,
    /// Gate that permits writes only while this instance leads; `None` without an election.
    gate: Option<LeadershipGate>,
}

impl std::fmt::Debug for KubeCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeCalls")
            .field("operation", &self.operation)
            .finish_non_exhaustive()
    }
}

/// Returns the parameters that delete an object only if its uid and its version are those in `meta`.
#[must_use]
pub fn deleting(meta: &ObjectMeta) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
        }),
        ..DeleteParams::default()
    }
}

impl KubeCalls {
    /// Creates the calls of `operation`, each with the timeout `limit`. The name of the operation is part of
    /// each error.
    #[must_use]
    pub const fn new(client: Client, limit: Duration, operation: &'static str) -> Self {
        Self {
            client,
            limit,
            operation,
            gate: None,
        }
    }

    /// Permits writes only while this instance leads, and adds the election term to applied objects.
    #[must_use]
    pub fn guarded(self, gate: LeadershipGate) -> Self {
        let gate = Some(gate);
        Self { gate, ..self }
    }

    /// Returns the election term to write, or `None` without an election.
    fn term(&self) -> Result<Option<u64>, Error> {
        let Some(gate) = &self.gate else {
            return Ok(None);
        };
        match gate.term() {
            Some(term) => Ok(Some(term).filter(|term| *term > 0)),
            None => {
                let message = "this instance does not lead any more; the write was not sent";
                Err(Error::new(ErrorKind::Conflict, self.operation, message).transient())
            }
        }
    }

    /// Returns the client of the calls.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the timeout of one call.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns the name of the operation.
    #[must_use]
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// Returns the API of a namespace, or of the whole cluster if `namespace` is empty.
    #[must_use]
    pub fn api(&self, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        let client = self.client.clone();
        if namespace.is_empty() {
            return Api::all_with(client, resource);
        }
        Api::namespaced_with(client, namespace, resource)
    }

    /// Converts the error of a call. The message names the object.
    fn failed(&self, what: &str, error: kube::Error) -> Error {
        let error = from_kube(self.operation, error);
        let message = format!("{what}: {error}");
        let named = Error::new(error.kind(), self.operation, message);
        // The kind of an error alone does not determine if it is transient.
        let named = if error.is_transient() {
            named.transient()
        } else {
            named.permanent()
        };
        named.with_source(error)
    }

    async fn limited<T>(&self, what: &str, call: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
        match tokio::time::timeout(self.limit, call).await {
            Ok(answer) => answer.map_err(|e| self.failed(what, e)),
            Err(_) => {
                let message = format!("{what}: no response from the API server within {:?}", self.limit);
                Err(Error::new(ErrorKind::Timeout, self.operation, message))
            }
        }
    }

    /// Applies an object (server-side apply). Fields of an earlier apply are removed if `body` lacks them.
    ///
    /// # Errors
    /// The errors of the API server; a transient [`ErrorKind::Conflict`] if this instance does not lead.
    pub async fn apply(
        &self,
        resource: &ApiResource,
        ns: &str,
        name: &str,
        body: &Value,
    ) -> Result<ObjectMeta, Error> {
        // Forced: the record decides, so fields of other managers are taken back.
        let params = PatchParams::apply(MANAGER).force();
        self.apply_as(&params, resource, ns, name, body).await
    }

    /// Creates an object. Returns a conflict if the name exists.
    ///
    /// # Errors
    /// The errors of the API server; a transient [`ErrorKind::Conflict`] if this instance does not lead.
    pub async fn create(
        &self,
        resource: &ApiResource,
        ns: &str,
        name: &str,
        body: &Value,
    ) -> Result<ObjectMeta, Error> {
        let what = format!("{} {name}", resource.kind);
        self.term()?;
        let object: DynamicObject = serde_json::from_value(body.clone())
            .map_err(|error| Error::new(ErrorKind::Internal, self.operation, error.to_string()))?;
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let api = self.api(resource, ns);
        match self.limited(&what, api.create(&params, &object)).await {
            Ok(made) => Ok(made.metadata),
            Err(error) => Err(self.judged(error, &["create"], resource, ns).await),
        }
    }

    /// Reads an object. Returns `None` if the object does not exist.
    ///
    /// # Errors
    /// The errors of the API server.
    pub async fn get(
        &self,
        resource: &ApiResource,
        ns: &str,
        name: &str,
    ) -> Result<Option<DynamicObject>, Error> {
        let what = format!("{} {name}", resource.kind);
        let api = self.api(resource, ns);
        match self.limited(&what, api.get_opt(name)).await {
            Ok(found) => Ok(found),
            Err(error) => Err(self.judged(error, &["get"], resource, ns).await),
        }
    }

    /// Applies an object (server-side apply). Returns a conflict if another field manager owns a field with a
    /// different value.
    ///
    /// # Errors
    /// The errors of the API server; a transient [`ErrorKind::Conflict`] if this instance does not lead.
    pub async fn apply_new(
        &self,
        resource: &ApiResource,
        ns: &str,
        name: &str,
        body: &Value,
    ) -> Result<ObjectMeta, Error> {
        self.apply_as(&PatchParams::apply(MANAGER), resource, ns, name, body)
            .await
    }

    /// Applies an existing object (server-side apply). Fails if the name now belongs to an object with
    /// another uid.
    ///
    /// # Errors
    /// The errors of the API server; a transient [`ErrorKind::Conflict`] if this instance does not lead.
    pub async fn apply_again(
        &self,
        resource: &ApiResource,
        ns: &str,
        name: &str,
        uid: &str,
        body: &Value,
    ) -> Result<ObjectMeta, Error> {
        let mut body = body.clone();
        body["metadata"]["uid"] = Value::from(uid);
        let params = PatchParams::apply(MANAGER).force();
        self.apply_as(&params, resource, ns, name, &body).await
    }

    async fn apply_as(
        &self,
        params: &PatchParams,
        resource: &ApiResource,
        ns: &str,
        name: &str,
        body: &Value,
    ) -> Result<ObjectMeta, Error> {
        let body = self.with_term(Cow::Borrowed(body))?;
        let patch = Patch::Apply(&body);
        self.patched(&APPLY, (resource, ns, name), params, &patch).await
    }

    /// Adds the election term of the leader to an object, if there is an election.
    fn with_term<'a>(&self, mut body: Cow<'a, Value>) -> Result<Cow<'a, Value>, Error> {
        if let Some(term) = self.term()? {
            body.to_mut()["metadata"]["annotations"][labels::OPERATOR_TERM] = Value::from(term.to_string());
        }
        Ok(body)
    }

    /// Patches an object. `verbs` are the required rights.
    async fn patched(
        &self,
        verbs: &'static [&'static str],
        (resource, ns, name): (&ApiResource, &str, &str),
        params: &PatchParams,
        patch: &Patch<&Cow<'_, Value>>,
    ) -> Result<ObjectMeta, Error> {
        let what = format!("{} {name}", resource.kind);
        let api = self.api(resource, ns);
        let answer = self.limited(&what, api.patch_metadata(name, params, patch)).await;
        match answer {
            Ok(answer) => Ok(answer.metadata),
            Err(error) => Err(self.judged(error, verbs, resource, ns).await),
        }
    }

    /// Changes the metadata of a cluster-scoped object. Returns a conflict if the object was written since
    /// `version`.
    ///
    /// # Errors
    /// The errors of the API server; a transient [`ErrorKind::Conflict`] if this instance does not lead.
    pub async fn change_at(
        &self,
        manager: &str,
        resource: &ApiResource,
        name: &str,
        version: u64,
        change: &Value,
    ) -> Result<ObjectMeta, Error> {
        let mut change = change.clone();
        change["metadata"]["resourceVersion"] = Value::from(version.to_string());
        let change = self.with_term(Cow::Owned(change))?;
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(&change);
        self.patched(&["patch"], (resource, "", name), &params, &patch)
            .await
    }

    /// Sends a merge patch for an object of a lease. Fails if the uid in the patch is not the uid of the
    /// object.
    ///
    /// # Errors
    /// The errors of the API server; a transient [`ErrorKind::Conflict`] if this instance does not lead.
    pub async fn restore(
        &self,
        resource: &ApiResource,
        ns: &str,
        name: &str,
        patch: &Value,
    ) -> Result<ObjectMeta, Error> {
        let patch = self.with_term(Cow::Borrowed(patch))?;
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(&patch);
        self.patched(&["patch"], (resource, ns, name), &params, &patch)
            .await
    }

    /// Deletes an object with the uid and the version in `meta`. Returns false if the object is missing or
    /// has changed.
    ///
    /// # Errors
    /// The errors of the API server; a transient [`ErrorKind::Conflict`] if this instance does not lead.
    pub async fn delete_version(
        &self,
        resource: &ApiResource,
        ns: &str,
        meta: &ObjectMeta,
    ) -> Result<bool, Error> {
        let name = meta.name.as_deref().unwrap_or_default();
        let only = deleting(meta).preconditions;
        self.delete_only(resource, ns, name, only, None).await
    }

    /// Reads the metadata of an object. Returns `None` if the object does not exist.
    ///
    /// # Errors
    /// The errors of the API server.
    pub async fn metadata(
        &self,
        resource: &ApiResource,
        ns: &str,
        name: &str,
    ) -> Result<Option<ObjectMeta>, Error> {
        let what = format!("{} {name}", resource.kind);
        let api = self.api(resource, ns);
        let answer = self.limited(&what, api.get_metadata_opt(name)).await;
        match answer {
            Ok(found) => Ok(found.map(|object| object.metadata)),
            Err(error) => Err(self.judged(error, &["get"], resource, ns).await),
        }
    }

    /// Applies a namespace (server-side apply).
    ///
    /// # Errors
    /// The errors of the API server; a transient [`ErrorKind::Conflict`] if this instance does not lead.
    pub async fn apply_namespace(&self, name: &str, body: &Value) -> Result<(), Error> {
        let api = Api::<Namespace>::all(self.client.clone());
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(body);
        let call = api.patch_metadata(name, &params, &patch);
        match self.limited(&format!("Namespace {name}"), call).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let attempt = Attempt::at::<Namespace>(&APPLY, None);
                Err(rights::judged(&self.client, self.limit, &attempt, error).await)
            }
        }
    }

    /// Adds the cause to the error of a denied call (403): a missing RBAC right, or a rejection by admission
    /// control.
    async fn judged(
        &self,
        error: Error,
        verbs: &'static [&'static str],
        resource: &ApiResource,
        ns: &str,
    ) -> Error {
        let attempt = Attempt {
            verbs,
            resource: resource.clone(),
            namespace: Some(ns).filter(|ns| !ns.is_empty()),
        };
        rights::judged(&self.client, self.limit, &attempt, error).await
    }

    /// Makes the provider the manager of the fields of an adopted object. A missing object is not an error.
    ///
    /// # Errors
    /// The errors of the API server; a transient [`ErrorKind::Conflict`] if other clients write the object.
    pub async fn take_over(&self, resource: &ApiResource, ns: &str, name: &str) -> Result<(), Error> {
        let what = format!("{} {name}", resource.kind);
        let api = self.api(resource, ns);
        let mut tries = 0;
        loop {
            let Some(meta) = self.limited(&what, api.get_metadata_opt(name)).await? else {
                return Ok(());
            };
            let entries = meta.metadata.managed_fields.unwrap_or_default();
            let Some(entries) = ownership::taken_over(&entries) else {
                return Ok(());
            };
            let version = meta.metadata.resource_version.unwrap_or_default();
            let patch = ownership::patch(&version, &entries);
            let patch = Patch::Merge(&patch);
            let params = PatchParams::default();
            let answer = tokio::time::timeout(self.limit, api.patch_metadata(name, &params, &patch)).await;
            tries += 1;
            match answer {
                Ok(Ok(_)) => return Ok(()),
                // A concurrent write; the object is read again.
                Ok(Err(kube::Error::Api(status))) if status.is_conflict() && tries < TRIES => {}
                Ok(Err(error)) => {
                    let error = self.failed(&what, error);
                    // Every attempt met a concurrent write; a later deploy succeeds.
                    if error.kind() == ErrorKind::Conflict {
                        return Err(error.transient());
                    }
                    return Err(self.judged(error, &["patch"], resource, ns).await);
                }
                Err(_) => {
                    let message = format!("{what}: no response from the API server within {:?}", self.limit);
                    return Err(Error::new(ErrorKind::Timeout, self.operation, message));
                }
            }
        }
    }

    /// Deletes an object. Returns false if the object is missing, or if the object with this name has another
    /// UID.
    ///
    /// # Errors
    /// The errors of the API server; a transient [`ErrorKind::Conflict`] if this instance does not lead.
    pub async fn delete(
        &self,
        resource: &ApiResource,
        ns: &str,
        name: &str,
        uid: Option<&str>,
        policy: Option<PropagationPolicy>,
    ) -> Result<bool, Error> {
        let only = uid.map(|uid| Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        self.delete_only(resource, ns, name, only, policy).await
    }

    async fn delete_only(
        &self,
        resource: &ApiResource,
        ns: &str,
        name: &str,
        only: Option<Preconditions>,
        policy: Option<PropagationPolicy>,
    ) -> Result<bool, Error> {
        self.term()?;
        let params = DeleteParams {
            propagation_policy: policy,
            preconditions: only,
            ..DeleteParams::default()
        };
        let what = format!("{} {name}", resource.kind);
        let api = self.api(resource, ns);
        match tokio::time::timeout(self.limit, api.delete(name, &params)).await {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(error)) if is_absent(&error) || is_other(&error) => Ok(false),
            Ok(Err(error)) => {
                let error = self.failed(&what, error);
                Err(self.judged(error, &["delete"], resource, ns).await)
            }
            Err(_) => {
                let message = format!("{what}: no response from the API server within {:?}", self.limit);
                Err(Error::new(ErrorKind::Timeout, self.operation, message))
            }
        }
    }
}

/// Returns true if a precondition failed: the object has changed, or the name belongs to another object.
fn is_other(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use serde_json::json;

    #[tokio::test]
    async fn an_instance_that_does_not_lead_writes_and_deletes_nothing() {
        let nobody = tower::service_fn(async |request: http::Request<Body>| {
            let asked = format!("{} {}", request.method(), request.uri());
            Err::<http::Response<Body>, _>(std::io::Error::other(asked))
        });
        let gate = LeadershipGate::new(false);
        let calls = KubeCalls::new(Client::new(nobody, "default"), Duration::from_secs(1), "route");
        let calls = calls.guarded(gate.clone());
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&());
        let write = async || {
            calls
                .apply_new(&resource, "ns", "name", &json!({}))
                .await
                .unwrap_err()
        };
        let delete = async || {
            calls
                .delete(&resource, "ns", "name", None, None)
                .await
                .unwrap_err()
        };
        for refused in [write().await, delete().await] {
            assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
        }
        // The leader sends the request.
        gate.set(true);
        for asked in [write().await, delete().await] {
            assert_eq!(asked.kind(), ErrorKind::Unavailable, "{asked}");
        }
    }
}

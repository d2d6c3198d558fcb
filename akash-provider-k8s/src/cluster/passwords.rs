//! Registry passwords, in a Secret next to the record of their lease.

use super::ClusterContext;
use super::unwatched::{ByNamespace, is_in};
use crate::apply::item::{ItemKind, ObjectId};
use crate::error::within;
use crate::labels;
use akash_provider_core::error::Error;
use akash_provider_core::manifest::Credentials;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::pages;
use akash_provider_kube_kernel::time::timestamp;
use akash_provider_kube_model::crd::{Manifest, convert};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::ListParams;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Cached registry passwords, by the name of their Secret.
#[derive(Default)]
pub(crate) struct Passwords(Mutex<BTreeMap<String, BTreeMap<String, String>>>);

impl Passwords {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<String, String>>> {
        // Each change is a single call to the map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, secret: Secret) {
        let name = secret.metadata.name.unwrap_or_default();
        let data = secret.data.unwrap_or_default().into_iter();
        // The provider writes UTF-8 only.
        let texts = data.filter_map(|(key, value)| Some((key, String::from_utf8(value.0).ok()?)));
        self.lock().insert(name, texts.collect());
    }

    pub(super) fn remove(&self, secret: &str) {
        self.lock().remove(secret);
    }

    pub(crate) fn get(&self, lease_namespace: &str) -> Option<BTreeMap<String, String>> {
        self.lock().get(&secret_name(lease_namespace)).cloned()
    }
}

pub(super) fn secret_name(lease_namespace: &str) -> String {
    format!("{lease_namespace}-registry")
}

impl ClusterContext {
    pub(crate) async fn write_passwords(
        &self,
        lease: &LeaseId,
        passwords: &BTreeMap<String, String>,
        operation: &'static str,
    ) -> Result<(), Error> {
        let home = lease.namespace();
        let name = secret_name(&home);
        let mut labels = labels::selector(&home);
        labels.extend(labels::lease(lease));
        let mut annotations = self.chain_annotation();
        annotations.insert(labels::UPDATED_AT.to_owned(), timestamp());
        let data = passwords
            .iter()
            .map(|(key, value)| (key.clone(), ByteString(value.clone().into_bytes())));
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(labels),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            data: Some(data.collect()),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        };
        let body = serde_json::to_value(&secret).unwrap_or_default();
        let namespace = &self.settings.manifest_namespace;
        self.calls(operation)
            .apply(&ItemKind::Secret.resource(), namespace, &name, &body)
            .await?;
        self.passwords.lock().insert(name, passwords.clone());
        Ok(())
    }

    /// Deletes the password Secret of a lease. Does not delete a Secret with the labels of another lease.
    /// Records the deletion with `reason` in the audit log. A teardown has its own record.
    pub(crate) async fn delete_passwords(
        &self,
        lease: &LeaseId,
        reason: Option<&str>,
        operation: &'static str,
    ) -> Result<(), Error> {
        let name = secret_name(&lease.namespace());
        let (api, limit) = (self.secrets(), self.settings.call_timeout);
        let there = within(limit, operation, api.get_metadata_opt(&name)).await?;
        let Some(there) = there else {
            self.passwords.remove(&name);
            return Ok(());
        };
        // Not an error: a foreign Secret is not deleted, and the teardown must continue.
        if let Err(error) = self.check_holder(lease, &there.metadata, "Secret", operation) {
            tracing::warn!(%lease, secret = name, %error, "Secret with registry passwords not deleted: the labels of the Secret do not name the lease");
            return Ok(());
        }
        let (namespace, uid) = (&self.settings.manifest_namespace, there.metadata.uid);
        let secrets = ItemKind::Secret.resource();
        let is_deleted = self
            .calls(operation)
            .delete(&secrets, namespace, &name, uid.as_deref(), None)
            .await?;
        self.passwords.remove(&name);
        match reason.filter(|_| is_deleted) {
            Some(reason) => {
                let secret = (&**namespace, &*name, uid.as_deref());
                self.settings.deletions.record_secret(reason, lease, secret).await
            }
            None => Ok(()),
        }
    }

    pub(super) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.settings.manifest_namespace)
    }

    pub(crate) async fn read_secret(
        &self,
        lease_namespace: &str,
        operation: &'static str,
    ) -> Result<(), Error> {
        let api = self.secrets();
        let name = secret_name(lease_namespace);
        let call = api.get_opt(&name);
        if let Some(secret) = within(self.settings.call_timeout, operation, call).await? {
            self.passwords.read(secret);
        }
        Ok(())
    }

    pub(crate) async fn read_secrets(&self, operation: &'static str) -> Result<(), Error> {
        let (api, limit) = (self.secrets(), self.settings.call_timeout);
        let params = ListParams::default().labels(labels::SELECTOR);
        let secrets = pages::objects(&api, params, limit, operation).await?;
        secrets.into_iter().for_each(|secret| self.passwords.read(secret));
        Ok(())
    }

    /// Returns the namespace and the id of the password Secret if passwords are cached, but the Secret is
    /// missing.
    pub(crate) fn lost_passwords(
        &self,
        lease_namespace: &str,
        there: &ByNamespace,
    ) -> Option<(String, ObjectId)> {
        let stored = self.passwords.get(lease_namespace)?;
        let id = ObjectId::new(ItemKind::Secret, secret_name(lease_namespace));
        let home = self.settings.manifest_namespace.clone();
        (!stored.is_empty() && !is_in(there, &home, &id)).then_some((home, id))
    }

    /// Returns true if a login has no password and the password Secret was not read yet.
    pub(crate) fn lacks_password(&self, manifest: &Manifest) -> bool {
        let name = manifest.metadata.name.as_deref().unwrap_or_default();
        has_logins(manifest) && self.passwords.get(name).is_none()
    }
}

/// Returns true if a registry login in the Manifest has no password.
pub(crate) fn has_logins(manifest: &Manifest) -> bool {
    let Ok(recorded) = convert::from_manifest(manifest) else {
        return false;
    };
    let lacks = |login: &Credentials| login.password.is_empty();
    recorded.deployment.group.services.iter().any(|service| {
        let in_params = service.params.as_ref().and_then(|p| p.credentials.as_ref());
        service.credentials.iter().chain(in_params).any(lacks)
    })
}

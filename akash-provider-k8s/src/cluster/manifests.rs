//! The durable record of a lease: its Manifest object, and a Secret for passwords.

use super::ClusterContext;
use super::passwords::{has_logins, secret_name};
use super::records::{RecordAction, RecordOutcome};
use crate::error::from_kube;
use crate::labels;
use akash_provider_core::cluster::{HostnameDeclaration, WorkloadSpec};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::audit::UNUSED;
use akash_provider_kube_kernel::hash;
use akash_provider_kube_model::crd::convert::{self, BadObject};
use akash_provider_kube_model::crd::lease_of_host;
use akash_provider_kube_model::crd::{Manifest, ManifestService};
use akash_provider_kube_model::objects::{self, RenderError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Annotation of an adopted Manifest: [`AdoptedServices`] as JSON.
const ADOPTED: &str = "provider.akash.network/adopted";

/// Services that another program deployed: name of the service and hash of its manifest entry.
pub(crate) type AdoptedServices = BTreeMap<String, String>;

/// Place from which the existing Manifest object is read, to compare a new record with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// The cache, which may be slightly outdated.
    Cached,
    /// The API server. Necessary before a caller reports that the record is stored.
    Live,
}

pub(crate) fn refused(operation: &'static str, refusal: RenderError) -> Error {
    Error::new(ErrorKind::Invalid, operation, refusal.to_string()).with_source(refusal)
}

impl ClusterContext {
    /// Writes the Manifest record of a deployment unless the existing object already contains the deployment.
    /// Returns the current object.
    pub(crate) async fn record(
        &self,
        deployment: &WorkloadSpec,
        basis: Basis,
        operation: &'static str,
    ) -> Result<Manifest, Error> {
        self.check_provider(&deployment.lease, operation)?;
        let name = deployment.lease.namespace();
        let wanted = convert::to_manifest(deployment, &self.settings).map_err(|r| refused(operation, r))?;
        let mut seen = self.look(self.manifests(), &name, operation).await?;
        let records = self.records::<Manifest>(operation);
        let passwords = convert::passwords(&deployment.group);
        if !passwords.is_empty()
            && !self
                .has_passwords(deployment, &wanted, seen.as_ref(), &passwords, operation)
                .await?
        {
            // Live: a Secret has no epoch, so a late writer must be rejected here, before the Secret is written.
            seen = records.read(&name).await?;
            self.judge(deployment, &wanted, seen.as_ref(), operation)?;
            self.write_passwords(&deployment.lease, &passwords, operation)
                .await?;
        }
        let is_current = |there: &Manifest| is_recorded(deployment, &wanted, there);
        if basis == Basis::Live && seen.as_ref().is_some_and(is_current) {
            seen = records.read(&name).await?;
        }
        let (is_new, had_logins) = (seen.is_none(), seen.as_ref().is_some_and(has_logins));
        let outcome = records
            .settle(&name, seen, |there| {
                self.judge(deployment, &wanted, there, operation)
            })
            .await;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                // After a transient error the record may exist and need its passwords.
                if is_new && !passwords.is_empty() && !error.is_transient() {
                    self.take_back_passwords(&deployment.lease, operation).await;
                }
                return Err(error);
            }
        };
        // After the record, which does not need them any more.
        if passwords.is_empty() && (had_logins || self.passwords.get(&name).is_some()) {
            self.delete_passwords(&deployment.lease, Some(UNUSED), operation)
                .await?;
        }
        let manifest = match outcome {
            RecordOutcome::Written(manifest) => {
                self.until_seen(|| self.holds(self.manifests(), &manifest.metadata))
                    .await;
                manifest
            }
            RecordOutcome::Kept(Some(manifest)) => manifest,
            RecordOutcome::Kept(None) | RecordOutcome::Deleted(_) => wanted,
        };
        Ok(manifest)
    }

    /// Returns true if the passwords are stored, in the Secret or in the Manifest.
    async fn has_passwords(
        &self,
        deployment: &WorkloadSpec,
        wanted: &Manifest,
        seen: Option<&Manifest>,
        passwords: &BTreeMap<String, String>,
        operation: &'static str,
    ) -> Result<bool, Error> {
        let Some(seen) = seen else { return Ok(false) };
        if has_logins(seen) {
            let home = deployment.lease.namespace();
            // Cached passwords may have been deleted manually since.
            return Ok(self.passwords.get(&home).as_ref() == Some(passwords)
                && self.is_there(&home, &secret_name(&home), operation).await?);
        }
        let verdict = self.judge(deployment, wanted, Some(seen), operation)?;
        Ok(matches!(verdict, RecordAction::Keep))
    }

    fn judge(
        &self,
        deployment: &WorkloadSpec,
        wanted: &Manifest,
        there: Option<&Manifest>,
        operation: &'static str,
    ) -> Result<RecordAction<Manifest>, Error> {
        // Also without a write: a late writer must get an error.
        self.check_record(deployment, there, operation)?;
        let mut wanted = wanted.clone();
        if let Some(there) = there {
            if is_recorded(deployment, &wanted, there) {
                return Ok(RecordAction::Keep);
            }
            if let Some(adopted) = self.still_adopted(there) {
                let text = serde_json::to_string(&adopted).unwrap_or_default();
                let annotations = wanted.metadata.annotations.get_or_insert_default();
                annotations.insert(ADOPTED.to_owned(), text);
            }
        }
        // Rejects a deployment that cannot be rendered before it is recorded.
        objects::check(deployment, &self.settings).map_err(|r| refused(operation, r))?;
        Ok(RecordAction::Write(wanted))
    }

    /// Returns an error if the existing Manifest record must not be replaced with `deployment`.
    fn check_record(
        &self,
        deployment: &WorkloadSpec,
        there: Option<&Manifest>,
        operation: &'static str,
    ) -> Result<(), Error> {
        let Some(there) = there else { return Ok(()) };
        let lease = &deployment.lease;
        self.check_holder(lease, &there.metadata, "Manifest object", operation)?;
        if there.metadata.deletion_timestamp.is_some() {
            let message = format!("the Manifest object of lease {lease} is being deleted");
            return Err(Error::new(ErrorKind::Conflict, operation, message).transient());
        }
        let (now, then) = (convert::epoch(there), deployment.epoch);
        // Writes of one epoch come from one leader, in order.
        if now > then {
            let message = format!(
                "write of epoch {then} refused: a later leader has written lease {lease} in epoch {now}"
            );
            return Err(Error::new(ErrorKind::Conflict, operation, message));
        }
        let before: BTreeSet<&str> = there
            .spec
            .group
            .services
            .iter()
            .map(|s| s.name.as_str())
            .collect();
        let after: BTreeSet<&str> = deployment
            .group
            .services
            .iter()
            .map(|s| s.name.as_str())
            .collect();
        if before == after {
            return Ok(());
        }
        let message =
            format!("the names of services cannot change; before {before:?}, in the new manifest {after:?}");
        Err(Error::new(ErrorKind::Invalid, operation, message))
    }

    /// Returns an error unless the object belongs to this lease and chain.
    pub(crate) fn check_holder(
        &self,
        lease: &LeaseId,
        meta: &ObjectMeta,
        what: &str,
        operation: &'static str,
    ) -> Result<(), Error> {
        let name = meta.name.as_deref().unwrap_or_default();
        let holder = meta.labels.as_ref().and_then(labels::lease_of);
        let problem = if holder.as_ref() != Some(lease) {
            format!("the labels of {what} `{name}` do not name lease {lease}")
        } else if self.is_of_other_chain(meta) {
            format!(
                "{what} `{name}` belongs to another chain than `{}`",
                self.settings.chain_id
            )
        } else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::Conflict,
            operation,
            format!("{problem}; the object was not changed"),
        ))
    }

    /// Returns the services that another program deployed. Returns `None` if this program has applied the
    /// lease.
    pub(crate) fn still_adopted(&self, manifest: &Manifest) -> Option<AdoptedServices> {
        let name = manifest.metadata.name.as_deref().unwrap_or_default();
        let namespace = self.state.lease_in(name).namespace?;
        let annotations = namespace.metadata.annotations.as_ref();
        if annotations.is_some_and(|a| a.contains_key(labels::APPLIED)) {
            return None;
        }
        adopted(manifest)
    }

    pub(crate) async fn recorded_of(
        &self,
        lease: &LeaseId,
        operation: &'static str,
    ) -> Result<Option<WorkloadSpec>, Error> {
        let name = lease.namespace();
        let Some(manifest) = self.look(self.manifests(), &name, operation).await? else {
            return Ok(None);
        };
        if !self.is_ours(&manifest)
            || manifest
                .metadata
                .labels
                .as_ref()
                .and_then(labels::lease_of)
                .as_ref()
                != Some(lease)
        {
            return Ok(None);
        }
        if self.lacks_password(&manifest) {
            self.read_secret(&name, operation).await?;
        }
        let read = self.read_manifest(&manifest);
        read.map(Some)
            .map_err(|bad| Error::new(ErrorKind::Internal, operation, bad.to_string()).with_source(bad))
    }

    pub(super) fn read_manifest(&self, manifest: &Manifest) -> Result<WorkloadSpec, BadObject> {
        let name = manifest.metadata.name.as_deref().unwrap_or_default();
        let recorded = convert::from_manifest(manifest)?;
        for remark in &recorded.remarks {
            tracing::warn!(
                manifest = name,
                remark,
                "Manifest object was edited by another client; the field `remark` describes the edit"
            );
        }
        let mut deployment = recorded.deployment;
        if let Some(passwords) = self.passwords.get(name) {
            convert::restore_passwords(Arc::make_mut(&mut deployment.group), &passwords);
        }
        // A record of another provider has no hostnames; the ProviderHost objects have.
        if is_foreign(manifest) {
            deployment.hostnames = self.declared(&deployment.lease);
        }
        Ok(deployment)
    }

    /// Returns the hostnames of a lease from its ProviderHost objects.
    fn declared(&self, lease: &LeaseId) -> Vec<HostnameDeclaration> {
        let view = self.state.lease(lease);
        let declared = view
            .hosts
            .values()
            .filter(|h| lease_of_host(&h.spec).as_ref() == Some(lease));
        let names = declared.filter_map(|host| {
            Some(HostnameDeclaration {
                hostname: host.spec.hostname.clone(),
                service: host.spec.service_name.clone(),
                external_port: host.spec.external_port.try_into().ok()?,
            })
        });
        names.collect()
    }

    pub(super) fn is_ours(&self, manifest: &Manifest) -> bool {
        manifest.spec.lease_id.provider == self.settings.provider.to_string()
            && !self.is_of_other_chain(&manifest.metadata)
    }

    pub(crate) async fn server_version(&self) -> Result<String, Error> {
        let call = self.client.apiserver_version();
        let response = tokio::time::timeout(self.settings.call_timeout, call).await;
        let version = response
            .map_err(|_| Error::new(ErrorKind::Timeout, "version", "the API server does not respond"))?;
        Ok(version.map_err(|e| from_kube("version", e))?.git_version)
    }
}

fn is_recorded(deployment: &WorkloadSpec, wanted: &Manifest, there: &Manifest) -> bool {
    if is_foreign(there) {
        return convert::from_manifest(there).is_ok_and(|read| {
            let read = read.deployment;
            read.group == deployment.group && read.params == deployment.params
        });
    }
    let extra = |m: &Manifest| {
        let annotations = m.metadata.annotations.clone().unwrap_or_default();
        [labels::EXTRA, labels::CHAIN_ID].map(|key| annotations.get(key).cloned())
    };
    there.spec == wanted.spec && extra(there) == extra(wanted)
}

/// Returns true if another program wrote the Manifest object last: the annotation `EXTRA` is missing.
fn is_foreign(manifest: &Manifest) -> bool {
    let annotations = manifest.metadata.annotations.as_ref();
    !annotations.is_some_and(|a| a.contains_key(labels::EXTRA))
}

/// Returns the services that another program deployed, with their hashes, from the annotation [`ADOPTED`].
/// Returns all services of the Manifest if it has no annotation of this provider.
fn adopted(manifest: &Manifest) -> Option<AdoptedServices> {
    let annotations = manifest.metadata.annotations.clone().unwrap_or_default();
    if let Some(text) = annotations.get(ADOPTED) {
        return serde_json::from_str(text).ok();
    }
    if annotations.contains_key(labels::EXTRA) {
        return None;
    }
    Some(entries(&manifest.spec.group.services))
}

/// Returns the hash of each service, by name. Passwords and empty fields do not affect the hash.
pub(crate) fn entries(services: &[ManifestService]) -> AdoptedServices {
    let entry = |service: &ManifestService| {
        let mut value = serde_json::to_value(service).unwrap_or_default();
        if let Some(login) = value.get_mut("credentials").and_then(Value::as_object_mut) {
            login.remove("password");
        }
        (service.name.clone(), hash::hash_value(&without_empty(value)))
    };
    services.iter().map(entry).collect()
}

fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields = map.into_iter().map(|(k, v)| (k, without_empty(v)));
            Value::Object(fields.filter(|(_, v)| !is_empty(v)).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_empty).collect()),
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

//! Conversion of a deployment to a Manifest object and back.
//!
//! The spec has the format of the Go provider. The annotation [`labels::EXTRA`] stores what the spec cannot
//! express: whether a list is empty or missing, declared hostnames and addresses, newer fields, the epoch.
//! The annotation contains the difference between the deployment and the decoded spec. If another client
//! changed the spec, the spec takes precedence.

mod extra;
mod logins;
mod read;
mod write;

pub use logins::{passwords, restore_passwords};
pub(crate) use read::expose;

use super::Manifest;
use crate::refusal::RenderError;
use crate::settings::KubeSettings;
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::labels;
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum size of the annotation [`EXTRA`](akash_provider_kube_kernel::labels::EXTRA), in bytes. Kubernetes allows 256 KiB for all
/// annotations of an object.
pub const MAX_EXTRA_BYTES: usize = 200 * 1024;

/// Deployment decoded from a Manifest object.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RecordedDeployment {
    /// Decoded deployment. Passwords that the Manifest object lacks are empty.
    pub deployment: WorkloadSpec,
    /// Chain id of the lease; `None` if another program wrote the object.
    pub chain_id: Option<String>,
    /// Ignored parts of the Manifest object, each with the reason.
    pub remarks: Vec<String>,
}

/// Invalid object with the labels of the provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object}, {field}: {problem}")]
#[non_exhaustive]
pub struct BadObject {
    /// Kind and name of the object.
    pub object: String,
    /// Field, for example `spec.group.services[0].count`.
    pub field: String,
    /// Problem of the field.
    pub problem: String,
}

/// Converts a deployment to its Manifest object. Passwords are omitted unless [`KubeSettings::plain_registry_passwords`] is
/// set; see [`passwords`].
///
/// # Errors
/// [`RenderError`] for the first value that the object cannot hold, and for an object that is too large.
pub fn to_manifest(deployment: &WorkloadSpec, settings: &KubeSettings) -> Result<Manifest, RenderError> {
    let name = deployment.lease.namespace();
    let mut spec = write::spec(deployment)?;
    if !settings.plain_registry_passwords {
        for service in &mut spec.group.services {
            if let Some(credentials) = &mut service.credentials {
                // Readers of Manifest objects must not see the password.
                credentials.password.clear();
            }
        }
    }
    let extra = extra::write(deployment, &spec)?;
    let mut manifest = Manifest::new(&name, spec);
    let metadata = &mut manifest.metadata;
    metadata.namespace = Some(settings.manifest_namespace.clone());
    let mut object_labels = labels::selector(&name);
    // The API server assigns the version at the write.
    object_labels.insert(labels::MANIFEST_VERSION.to_owned(), String::new());
    object_labels.extend(labels::lease(&deployment.lease));
    metadata.labels = Some(object_labels);
    metadata.annotations = Some(BTreeMap::from([
        (labels::CHAIN_ID.to_owned(), settings.chain_id.clone()),
        (labels::EXTRA.to_owned(), extra),
    ]));
    // The limit applies to the whole object, with its annotations.
    write::small_enough(&manifest)?;
    Ok(manifest)
}

/// Decodes the deployment in a Manifest object. If another program wrote the object, the result contains no
/// hostnames.
///
/// # Errors
/// [`BadObject`] for the first invalid field.
pub fn from_manifest(manifest: &Manifest) -> Result<RecordedDeployment, BadObject> {
    let object = format!("Manifest {}", manifest.name_any());
    let bad = |(field, problem): (String, String)| BadObject {
        object: object.clone(),
        field,
        problem,
    };
    let lease = lease(manifest).map_err(bad)?;
    let deployment = read::deployment(lease, &manifest.spec).map_err(bad)?;
    let annotation = |key: &str| manifest.annotations().get(key);
    let (deployment, remarks) = match annotation(labels::EXTRA) {
        Some(text) => extra::read(deployment, &manifest.spec, text),
        None => (deployment, Vec::new()),
    };
    Ok(RecordedDeployment {
        deployment,
        chain_id: annotation(labels::CHAIN_ID).cloned(),
        remarks,
    })
}

/// Returns the lease of a Manifest. Returns an error if the name of the Manifest is not the namespace of the
/// lease.
fn lease(manifest: &Manifest) -> Result<LeaseId, (String, String)> {
    let lease = read::lease(&manifest.spec.lease_id)?;
    let name = manifest.name_any();
    if name != lease.namespace() {
        let problem = format!(
            "`{name}` is not the name of lease {lease}, which is `{}`",
            lease.namespace()
        );
        return Err(("metadata.name".to_owned(), problem));
    }
    Ok(lease)
}

/// Returns the leadership epoch in which a Manifest was written, or 0 if the Manifest has no epoch.
#[must_use]
pub fn epoch(manifest: &Manifest) -> u64 {
    manifest
        .annotations()
        .get(labels::EXTRA)
        .map_or(0, |text| extra::epoch(text))
}

/// Returns true if both deployments have the same lease and convert to the same Manifest spec. Passwords are
/// not compared.
#[must_use]
pub fn same_spec(a: &WorkloadSpec, b: &WorkloadSpec) -> bool {
    let spec = |deployment: &WorkloadSpec| write::spec(&without_passwords(deployment)).ok();
    a.lease == b.lease && spec(a) == spec(b)
}

fn without_passwords(deployment: &WorkloadSpec) -> WorkloadSpec {
    let mut group = (*deployment.group).clone();
    logins::clear_passwords(&mut group);
    WorkloadSpec {
        group: Arc::new(group),
        ..deployment.clone()
    }
}

/// Decodes a custom resource of the API group `akash.network` from JSON. Unknown fields are ignored.
///
/// # Errors
/// [`BadObject`] that names the object and the field.
pub fn decode<K: DeserializeOwned>(kind: &str, value: &serde_json::Value) -> Result<K, BadObject> {
    let name = value.pointer("/metadata/name").and_then(|name| name.as_str());
    serde_path_to_error::deserialize(value).map_err(|error| BadObject {
        object: format!("{kind} {}", name.unwrap_or("without a name")),
        field: error.path().to_string(),
        problem: error.inner().to_string(),
    })
}

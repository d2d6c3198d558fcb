//! A deployment as a Manifest object, and back.
//!
//! The spec is what the Go provider reads and writes. What it cannot say (empty lists beside none, hostnames and
//! addresses as declared, newer fields, the epoch) is kept in the annotation [`labels::EXTRA`]: the difference
//! between the deployment and what the spec alone would be read as. A spec that somebody else changed since wins
//! over the annotation.

mod extra;
mod logins;
mod read;
mod write;

pub use logins::{passwords, restore_passwords};

use super::Manifest;
use crate::labels;
use crate::objects::Refusal;
use crate::settings::Settings;
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::types::LeaseId;
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes the annotation may have; Kubernetes takes 256 KiB of all annotations of an object together.
pub const MAX_EXTRA_BYTES: usize = 200 * 1024;

/// A deployment as it was read from a Manifest object.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// What runs. Passwords that are not in the object are empty.
    pub deployment: WorkloadSpec,
    /// Chain the lease lives on; `None` in objects of other providers.
    pub chain_id: Option<String>,
    /// What was ignored and why, for the log.
    pub remarks: Vec<String>,
}

/// An object of ours, or with our label, that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object}, {field}: {problem}")]
pub struct BadObject {
    /// Kind and name of the object.
    pub object: String,
    /// Field, for example `spec.group.services[0].count`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The Manifest object of a deployment, without what the API server adds. Passwords are left out unless
/// [`Settings::plain_registry_passwords`] is set; see [`passwords`].
///
/// # Errors
/// [`Refusal`] for the first amount the object cannot hold, and for objects that are too large.
pub fn to_manifest(deployment: &WorkloadSpec, settings: &Settings) -> Result<Manifest, Refusal> {
    let name = deployment.lease.namespace();
    let mut spec = write::spec(deployment)?;
    if !settings.plain_registry_passwords {
        for service in &mut spec.group.services {
            if let Some(credentials) = &mut service.credentials {
                // Whoever may read Manifest objects would read it.
                credentials.password.clear();
            }
        }
    }
    let extra = extra::write(deployment, &spec)?;
    let mut manifest = Manifest::new(&name, spec);
    let metadata = &mut manifest.metadata;
    metadata.namespace = Some(settings.manifest_namespace.clone());
    let mut object_labels = labels::selector(&name);
    // Its own version is known only after it is written.
    object_labels.insert(labels::MANIFEST_VERSION.to_owned(), String::new());
    object_labels.extend(labels::lease(&deployment.lease));
    metadata.labels = Some(object_labels);
    metadata.annotations = Some(BTreeMap::from([
        (labels::CHAIN_ID.to_owned(), settings.chain_id.clone()),
        (labels::EXTRA.to_owned(), extra),
    ]));
    // As a whole, annotation included: the limit is of the object.
    write::small_enough(&manifest)?;
    Ok(manifest)
}

/// The deployment a Manifest object stands for. Without our annotation (another provider wrote it) the hostnames
/// are none; whoever reads takes them from the ProviderHost objects.
///
/// # Errors
/// [`BadObject`] for the first field that makes no sense.
pub fn from_manifest(manifest: &Manifest) -> Result<Recorded, BadObject> {
    let object = format!("Manifest {}", manifest.name_any());
    let bad = |(field, problem): (String, String)| BadObject {
        object: object.clone(),
        field,
        problem,
    };
    let lease = lease(manifest).map_err(bad)?;
    let said = read::deployment(lease, &manifest.spec).map_err(bad)?;
    let annotation = |key: &str| manifest.annotations().get(key);
    let (deployment, remarks) = match annotation(labels::EXTRA) {
        Some(text) => extra::read(said, &manifest.spec, text),
        None => (said, Vec::new()),
    };
    Ok(Recorded {
        deployment,
        chain_id: annotation(labels::CHAIN_ID).cloned(),
        remarks,
    })
}

/// The lease an object names in its spec; it must be the one it is named after.
fn lease(manifest: &Manifest) -> Result<LeaseId, (String, String)> {
    let lease = read::lease(&manifest.spec.lease_id)?;
    let name = manifest.name_any();
    if name != lease.namespace() {
        let problem = format!(
            "`{name}` is not the name of the lease {lease}, which is `{}`",
            lease.namespace()
        );
        return Err(("metadata.name".to_owned(), problem));
    }
    Ok(lease)
}

/// The epoch a Manifest was written in; 0 where it has none.
#[must_use]
pub fn epoch(manifest: &Manifest) -> u64 {
    manifest
        .annotations()
        .get(labels::EXTRA)
        .map_or(0, |text| extra::epoch(text))
}

/// True when both say the same group runs with the same scheduling facts, as far as a spec can say it.
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

/// Reads any of our kinds from JSON, as far as it has the fields we know.
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

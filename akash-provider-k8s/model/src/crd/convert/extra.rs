//! Annotation of a Manifest with the values that the spec cannot express.

use super::{MAX_EXTRA_BYTES, read, without_passwords};
use crate::crd::ManifestSpec;
use crate::refusal::RenderError;
use akash_provider_core::cluster::{HostnameDeclaration, IpDeclaration, WorkloadSpec};
use akash_provider_core::manifest::{Group, SchedulerParamsById, canonical_json};
use data_encoding::HEXLOWER;
use json_patch::Patch;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Content of the annotation [`EXTRA`](akash_provider_kube_kernel::labels::EXTRA), as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Extra {
    /// Hash of the Manifest spec to which this annotation belongs. Passwords are not part of the hash.
    spec: String,
    /// Leadership epoch of the writer.
    #[serde(default)]
    epoch: u64,
    /// Declared hostnames.
    #[serde(default)]
    hostnames: Vec<HostnameDeclaration>,
    /// Declared leased addresses.
    #[serde(default)]
    ips: Vec<IpDeclaration>,
    /// JSON patch that converts the decoded spec into the original deployment.
    #[serde(default, skip_serializing_if = "is_empty")]
    patch: Patch,
}

/// Deployment, reduced to the parts that a Manifest spec can contain.
#[derive(Debug, Serialize, Deserialize)]
struct Covered {
    group: Arc<Group>,
    params: Arc<SchedulerParamsById>,
}

impl Covered {
    fn json(deployment: &WorkloadSpec) -> Result<Value, String> {
        let scrubbed = without_passwords(deployment);
        let covered = Self {
            group: scrubbed.group,
            params: scrubbed.params,
        };
        serde_json::to_value(covered).map_err(|e| e.to_string())
    }
}

/// Returns the annotation text for `deployment`. `spec` is the encoded form of `deployment`.
pub(super) fn write(deployment: &WorkloadSpec, spec: &ManifestSpec) -> Result<String, RenderError> {
    let cannot = |problem: String| RenderError::new("", "manifest", problem);
    // Decoded before the write: an undecodable record could not be deployed.
    let decoded = read::deployment(deployment.lease.clone(), spec);
    let decoded = decoded.map_err(|(field, problem)| {
        cannot(format!(
            "cannot decode the Manifest record of the manifest: {field}: {problem}"
        ))
    })?;
    let patch = json_patch::diff(
        &Covered::json(&decoded).map_err(cannot)?,
        &Covered::json(deployment).map_err(cannot)?,
    );
    let extra = Extra {
        spec: hash(spec),
        epoch: deployment.epoch,
        hostnames: deployment.hostnames.clone(),
        ips: deployment.ips.clone(),
        patch,
    };
    let text = serde_json::to_string(&extra).map_err(|e| cannot(e.to_string()))?;
    if text.len() > MAX_EXTRA_BYTES {
        return Err(cannot(format!(
            "{} bytes of additional values exceed the limit of {MAX_EXTRA_BYTES} bytes; declare fewer hostnames",
            text.len()
        )));
    }
    Ok(text)
}

/// Completes `decoded` with the values in the annotation `text`. Returns the complete deployment, and a
/// remark for each ignored part of the annotation.
pub(super) fn read(decoded: WorkloadSpec, spec: &ManifestSpec, text: &str) -> (WorkloadSpec, Vec<String>) {
    let extra: Extra = match serde_json::from_str(text) {
        Ok(extra) => extra,
        // Not an error: the spec alone determines what runs.
        Err(error) => {
            return (
                decoded,
                vec![format!("annotation ignored: cannot decode: {error}")],
            );
        }
    };
    if extra.spec != hash(spec) {
        let remark =
            "the spec was changed by another client and takes precedence over the annotation".to_owned();
        return (changed(decoded, extra), vec![remark]);
    }
    match covered(&decoded, &extra.patch) {
        Ok(covered) => {
            let deployment = WorkloadSpec {
                group: covered.group,
                params: covered.params,
                hostnames: extra.hostnames,
                ips: extra.ips,
                epoch: extra.epoch,
                ..decoded
            };
            (with_passwords(deployment, spec), Vec::new())
        }
        Err(error) => {
            let remark = format!("patch in the annotation ignored: {error}");
            (changed(decoded, extra), vec![remark])
        }
    }
}

/// Returns the decoded spec with the hostnames and the epoch of an annotation. The patch of the annotation is
/// not applied. Omits hostnames without a matching exposed port.
fn changed(decoded: WorkloadSpec, extra: Extra) -> WorkloadSpec {
    let leads = |name: &HostnameDeclaration| {
        let mut services = decoded.group.services.iter();
        services.any(|service| {
            let mut ports = service.expose.iter().map(|e| e.effective_external_port());
            service.name == name.service && ports.any(|port| port == name.external_port)
        })
    };
    let hostnames = extra
        .hostnames
        .iter()
        .filter(|name| leads(name))
        .cloned()
        .collect();
    WorkloadSpec {
        hostnames,
        epoch: extra.epoch,
        ..decoded
    }
}

fn covered(decoded: &WorkloadSpec, patch: &Patch) -> Result<Covered, String> {
    let mut value = Covered::json(decoded)?;
    json_patch::patch(&mut value, patch).map_err(|e| e.to_string())?;
    serde_json::from_value(value).map_err(|e| e.to_string())
}

/// Adds the plain-text passwords of the spec to the deployment.
fn with_passwords(deployment: WorkloadSpec, spec: &ManifestSpec) -> WorkloadSpec {
    let logins = spec.group.services.iter().filter_map(|service| {
        let login = service.credentials.as_ref()?;
        Some((service.name.clone(), login.password.clone()))
    });
    let mut group = (*deployment.group).clone();
    super::restore_passwords(&mut group, &logins.collect());
    WorkloadSpec {
        group: Arc::new(group),
        ..deployment
    }
}

/// Returns the epoch in an annotation, or 0 if the annotation is invalid.
pub(super) fn epoch(text: &str) -> u64 {
    serde_json::from_str::<Extra>(text).map_or(0, |extra| extra.epoch)
}

/// Returns the hash of a spec without its passwords.
fn hash(spec: &ManifestSpec) -> String {
    // The hash must not depend on whether passwords are stored in plain text.
    let mut spec = spec.clone();
    for service in &mut spec.group.services {
        if let Some(login) = &mut service.credentials {
            login.password.clear();
        }
    }
    let json = serde_json::to_value(&spec).unwrap_or_default();
    HEXLOWER.encode(&Sha256::digest(canonical_json(&json)))
}

fn is_empty(patch: &Patch) -> bool {
    patch.0.is_empty()
}

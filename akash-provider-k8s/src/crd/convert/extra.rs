//! The annotation with what a spec cannot say.

use super::{MAX_EXTRA_BYTES, read, without_passwords};
use crate::crd::ManifestSpec;
use crate::objects::Refusal;
use akash_provider_core::cluster::{HostnameDeclaration, IpDeclaration, WorkloadSpec};
use akash_provider_core::manifest::{Group, SchedulerParamsById, canonical_json};
use data_encoding::HEXLOWER;
use json_patch::Patch;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The annotation's content, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Extra {
    /// Hash of the spec it belongs to, without passwords.
    spec: String,
    /// Leadership epoch of the writer.
    #[serde(default)]
    epoch: u64,
    /// Hostnames as they were declared.
    #[serde(default)]
    hostnames: Vec<HostnameDeclaration>,
    /// Leased addresses as they were declared.
    #[serde(default)]
    ips: Vec<IpDeclaration>,
    /// From what the spec says to what was meant.
    #[serde(default, skip_serializing_if = "is_empty")]
    patch: Patch,
}

/// The part of a deployment a spec speaks of.
#[derive(Debug, Serialize, Deserialize)]
struct Meant {
    group: Arc<Group>,
    params: Arc<SchedulerParamsById>,
}

impl Meant {
    fn json(deployment: &WorkloadSpec) -> Result<Value, String> {
        let scrubbed = without_passwords(deployment);
        let meant = Self {
            group: scrubbed.group,
            params: scrubbed.params,
        };
        serde_json::to_value(meant).map_err(|e| e.to_string())
    }
}

/// The annotation of a deployment that is written as this spec.
pub(super) fn write(deployment: &WorkloadSpec, spec: &ManifestSpec) -> Result<String, Refusal> {
    let cannot = |problem: String| Refusal::new("", "manifest", problem);
    // Read back before it is written: a record that cannot be read deploys nothing.
    let said = read::deployment(deployment.lease.clone(), spec);
    let said = said
        .map_err(|(field, problem)| cannot(format!("its record cannot be read back: {field}: {problem}")))?;
    let patch = json_patch::diff(
        &Meant::json(&said).map_err(cannot)?,
        &Meant::json(deployment).map_err(cannot)?,
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
            "what its record cannot hold has {} bytes and may have {MAX_EXTRA_BYTES}; declare fewer hostnames",
            text.len()
        )));
    }
    Ok(text)
}

/// What was meant, from what the spec says and the annotation; and what of the annotation was ignored.
pub(super) fn read(said: WorkloadSpec, spec: &ManifestSpec, text: &str) -> (WorkloadSpec, Vec<String>) {
    let extra: Extra = match serde_json::from_str(text) {
        Ok(extra) => extra,
        // Ignored and not refused: the spec alone says what runs.
        Err(error) => {
            return (
                said,
                vec![format!(
                    "the annotation is ignored, it is no record of ours: {error}"
                )],
            );
        }
    };
    if extra.spec != hash(spec) {
        let remark = "the spec was changed by another writer and wins over the annotation".to_owned();
        return (changed(said, extra), vec![remark]);
    }
    match meant(&said, &extra.patch) {
        Ok(meant) => {
            let deployment = WorkloadSpec {
                group: meant.group,
                params: meant.params,
                hostnames: extra.hostnames,
                ips: extra.ips,
                epoch: extra.epoch,
                ..said
            };
            (with_passwords(deployment, spec), Vec::new())
        }
        Err(error) => {
            let remark = format!("the patch in the annotation is ignored: {error}");
            (changed(said, extra), vec![remark])
        }
    }
}

/// The spec as it is, with the hostnames that still lead somewhere.
fn changed(said: WorkloadSpec, extra: Extra) -> WorkloadSpec {
    let leads = |name: &HostnameDeclaration| {
        let mut services = said.group.services.iter();
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
        ..said
    }
}

fn meant(said: &WorkloadSpec, patch: &Patch) -> Result<Meant, String> {
    let mut value = Meant::json(said)?;
    json_patch::patch(&mut value, patch).map_err(|e| e.to_string())?;
    serde_json::from_value(value).map_err(|e| e.to_string())
}

/// Passwords that stand in the spec in clear.
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

/// The epoch of an annotation; 0 where it makes no sense.
pub(super) fn epoch(text: &str) -> u64 {
    serde_json::from_str::<Extra>(text).map_or(0, |extra| extra.epoch)
}

/// Hash of a spec without its passwords.
fn hash(spec: &ManifestSpec) -> String {
    // Without them it is the same hash whether the operator keeps passwords in clear or not.
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

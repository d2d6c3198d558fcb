//! Features that a tenant can request, but no cluster offers, whatever the provider declares.

use super::{Decline, attributes};
use crate::manifest::{Group, ServiceParams};
use crate::types::{Attribute, GroupSpec};

/// First part of the GPU attributes that request a network between the GPUs of several replicas.
const INTERCONNECT: &str = "interconnect";

/// Checks that a group requests no confidential computing and no GPU interconnect.
///
/// # Errors
/// Returns [`Decline::Unsupported`].
pub(super) fn check(group: &GroupSpec) -> Result<(), Decline> {
    let tee = |a: &&Attribute| attributes::glob(&a.key, Attribute::TEE);
    let required = group.requirements.attributes.iter().find(tee);
    let gpus = group.resources.iter().map(|unit| &unit.resources.gpu);
    let mut wanted = gpus.filter(|gpu| gpu.units > 0).flat_map(|gpu| &gpu.attributes);
    let decline = |feature: &str, Attribute { key, value }: &Attribute| {
        let wanted = format!("{feature} ({key}={value})");
        Err(Decline::Unsupported { wanted })
    };
    if let Some(tee) = required {
        return decline("confidential computing", tee);
    }
    match wanted.find(|a| a.key.split('/').next() == Some(INTERCONNECT)) {
        Some(interconnect) => decline("a GPU interconnect", interconnect),
        None => Ok(()),
    }
}

/// Returns the refusal of a manifest with confidential computing, or `None` for other manifests.
pub(crate) fn refuse_manifest(group: &Group) -> Option<String> {
    let requests = |params: &ServiceParams| params.tee.is_some();
    let mut services = group.services.iter();
    let service = services.find(|service| service.params.as_ref().is_some_and(requests))?;
    Some(format!(
        "service `{}`: this provider does not offer confidential computing; remove `params.tee`",
        service.name
    ))
}

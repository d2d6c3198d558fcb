//! The attributes that a provider must declare so that it may bid on given groups. Development environments
//! use this module to configure the provider for their orders.

use super::{auditors, capabilities};
use crate::types::{Attribute, AuditedAttributes, GroupSpec};
use std::collections::BTreeSet;

/// Returns the attributes and the audits that permit a provider to bid on all `groups`. The attributes are
/// placement attributes, storage capabilities and GPU models.
///
/// The placement attributes are signed by `auditor` and by every auditor in the groups. A wildcard at
/// the end of a key is replaced: `region/*` becomes `region/any`.
#[must_use]
pub fn accepting_profile(groups: &[GroupSpec], auditor: &str) -> (Vec<Attribute>, Vec<AuditedAttributes>) {
    // Sorted, so that the same groups always result in the same profile.
    let mut placement = BTreeSet::new();
    let mut volumes = BTreeSet::new();
    let mut gpus = BTreeSet::new();
    let mut signers = BTreeSet::from([auditor]);
    for group in groups {
        placement.extend(group.requirements.attributes.iter().map(concrete));
        signers.extend(auditors(group));
        for resources in group.resources.iter().map(|u| &u.resources) {
            let wanted = resources
                .storage
                .iter()
                .map(|v| &v.attributes)
                .filter(|a| !a.is_empty());
            volumes.extend(wanted.map(|attributes| attributes.iter().map(concrete).collect::<Vec<_>>()));
            gpus.extend(resources.gpu.attributes.iter().map(concrete));
        }
    }
    let signed: Vec<Attribute> = placement.iter().cloned().collect();
    let audited = signers
        .into_iter()
        .map(|auditor| AuditedAttributes::new(auditor, signed.clone()));
    let mut declared = signed.clone();
    for (number, set) in volumes.iter().enumerate() {
        let key = |a: &Attribute| format!("{}{}/{}", capabilities::STORAGE, number + 1, a.key);
        declared.extend(set.iter().map(|a| Attribute::new(key(a), &a.value)));
    }
    let gpu = |a: &Attribute| Attribute::new(format!("{}{}", capabilities::GPU, a.key), &a.value);
    declared.extend(gpus.iter().map(gpu));
    (declared, audited.collect())
}

/// Returns an attribute that satisfies the requirement and contains no wildcard.
fn concrete(required: &Attribute) -> Attribute {
    let Some(stem) = required.key.strip_suffix('*') else {
        return required.clone();
    };
    let filled = if stem.ends_with('/') {
        format!("{stem}any")
    } else {
        stem.to_owned()
    };
    Attribute::new(filled, &required.value)
}

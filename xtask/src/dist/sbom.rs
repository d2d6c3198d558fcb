//! Bill of materials of the daemon in the format CycloneDX.

use super::PROGRAM;
use super::packages::{Key, LinkedPackage};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Returns the bill of materials as JSON.
pub(super) fn text(components: &[LinkedPackage<'_>], checksums: &BTreeMap<Key, String>) -> Result<String> {
    let is_daemon = |component: &&LinkedPackage<'_>| component.package.name == PROGRAM;
    let daemon = components
        .iter()
        .find(is_daemon)
        .context("the tree has no daemon")?;
    let mut application = entry(daemon, checksums);
    application["type"] = "application".into();
    let others = components.iter().filter(|component| !is_daemon(component));
    let links = components.iter().map(|component| {
        let names = component
            .dependencies
            .iter()
            .map(|(name, version)| url(name, version));
        json!({"ref": reference(component), "dependsOn": names.collect::<Vec<_>>()})
    });
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": application},
        "components": others.map(|component| entry(component, checksums)).collect::<Vec<_>>(),
        "dependencies": links.collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

fn url(name: &str, version: &str) -> String {
    // A version can contain `+`, which has another meaning in a URL.
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

fn reference(component: &LinkedPackage<'_>) -> String {
    url(&component.package.name, &component.package.version)
}

fn entry(component: &LinkedPackage<'_>, checksums: &BTreeMap<Key, String>) -> Value {
    let package = component.package;
    let mut entry = json!({
        "type": "library",
        "bom-ref": reference(component),
        "name": package.name,
        "version": package.version,
        "purl": reference(component),
    });
    if let Some(description) = &package.description {
        entry["description"] = description.trim().into();
    }
    if let Some(licence) = package.licence_expression() {
        entry["licenses"] = json!([{"expression": licence}]);
    }
    if let Some(sum) = checksums.get(&(package.name.clone(), package.version.clone())) {
        entry["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    if let Some(repository) = &package.repository {
        entry["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    entry
}

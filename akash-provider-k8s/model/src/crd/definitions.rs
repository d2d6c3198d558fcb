//! Definitions of the custom resources for installation in a cluster.

use super::{Manifest, ProviderHost, ProviderLeasedIP};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, CustomResourceValidation, JSONSchemaProps,
    JSONSchemaPropsOrArray as Items,
};
use kube::CustomResourceExt;

/// Former version of the objects, which some clusters still list as stored.
const OLD_VERSION: &str = "v2beta1";
/// Annotation of a definition: Helm does not delete the definition when its chart is uninstalled. A deletion
/// of the definition would delete all its records.
const KEEP: (&str, &str) = ("helm.sh/resource-policy", "keep");

/// Returns all definitions. Unknown fields are preserved, so that older providers do not remove fields of
/// newer providers.
#[must_use]
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let all = [Manifest::crd(), ProviderHost::crd(), ProviderLeasedIP::crd()];
    all.into_iter().map(complete).collect()
}

fn complete(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let (key, value) = KEEP;
    let annotations = definition.metadata.annotations.get_or_insert_default();
    annotations.insert(key.to_owned(), value.to_owned());
    for version in &mut definition.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        let properties = schema.and_then(|schema| schema.properties.as_mut());
        if let Some(spec) = properties.and_then(|properties| properties.get_mut("spec")) {
            relax(spec);
        }
    }
    definition.spec.versions.push(old_version());
    definition
}

/// Preserves unknown fields, and removes defaults. Replaces unsigned number formats, because Kubernetes does
/// not support these formats.
fn relax(schema: &mut JSONSchemaProps) {
    // The API server would add a default to objects of other clients.
    schema.default = None;
    if schema.type_.as_deref() == Some("object") {
        schema.x_kubernetes_preserve_unknown_fields = Some(true);
    }
    // Kubernetes has no unsigned formats.
    match schema.format.as_deref() {
        Some("uint32") => {
            schema.format = None;
            schema.maximum = Some(f64::from(u32::MAX));
        }
        Some("uint64") => schema.format = Some("int64".to_owned()),
        _ => {}
    }
    schema
        .properties
        .iter_mut()
        .flatten()
        .for_each(|(_, field)| relax(field));
    if let Some(items) = &mut schema.items {
        match items {
            Items::Schema(item) => relax(item),
            Items::Schemas(items) => items.iter_mut().for_each(relax),
        }
    }
}

/// Returns the former version of a definition. The version is listed for old objects, but not served.
fn old_version() -> CustomResourceDefinitionVersion {
    let anything = JSONSchemaProps {
        type_: Some("object".to_owned()),
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..JSONSchemaProps::default()
    };
    CustomResourceDefinitionVersion {
        name: OLD_VERSION.to_owned(),
        served: false,
        storage: false,
        schema: Some(CustomResourceValidation {
            open_api_v3_schema: Some(anything),
        }),
        ..CustomResourceDefinitionVersion::default()
    }
}

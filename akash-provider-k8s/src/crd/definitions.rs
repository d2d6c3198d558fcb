//! The definitions of our kinds, as a cluster installs them.

use super::{Manifest, ProviderHost, ProviderLeasedIP};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, CustomResourceValidation, JSONSchemaProps,
    JSONSchemaPropsOrArray as Items,
};
use kube::CustomResourceExt;

/// Version of objects from the past; some clusters still list it as stored once.
const OLD_VERSION: &str = "v2beta1";
/// Annotation that keeps a definition, and with it every lease's record, when its chart is uninstalled.
const KEEP: (&str, &str) = ("helm.sh/resource-policy", "keep");

/// All definitions. Fields that are not in them are kept as they are, so that objects of newer providers survive
/// being written by older ones.
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

/// Keeps fields that are not named, fills none in, and gives numbers the limits of their types in words the API
/// server knows.
fn relax(schema: &mut JSONSchemaProps) {
    // The API server would write a default into objects that others made.
    schema.default = None;
    if schema.type_.as_deref() == Some("object") {
        schema.x_kubernetes_preserve_unknown_fields = Some(true);
    }
    // Kubernetes knows no unsigned formats.
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

/// The old version: listed, so that a cluster that stored it once takes the definition, and not served.
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

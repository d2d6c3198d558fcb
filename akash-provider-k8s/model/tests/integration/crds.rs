//! `deploy/crds` matches the Rust types. `BLESS_CRDS=1` (`cargo xtask crds`) rewrites the files.

use akash_provider_kube_model::crd;
use serde_json::Value;
use std::path::Path;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds")
}

#[test]
fn files_match_the_types() {
    let definitions = crd::definitions();
    assert_eq!(definitions.len(), 3);
    for definition in definitions {
        let path = folder().join(format!("{}.yaml", definition.spec.names.plural));
        let text = format!(
            "# Made from the types of akash-provider-kube-model by `cargo xtask crds`.\n{}",
            serde_saphyr::to_string(&definition).unwrap()
        );
        if std::env::var_os("BLESS_CRDS").is_some() {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(stored, text, "{} is old; run `cargo xtask crds`", path.display());
    }
}

#[test]
fn versions_are_served_and_stored_as_in_existing_clusters() {
    for definition in crd::definitions() {
        let versions: Vec<_> = definition
            .spec
            .versions
            .iter()
            .map(|v| (v.name.as_str(), v.served, v.storage))
            .collect();
        assert_eq!(versions, [("v2beta2", true, true), ("v2beta1", false, false)]);
        let annotations = definition.metadata.annotations.unwrap();
        assert_eq!(annotations["helm.sh/resource-policy"], "keep");
        assert_eq!(definition.spec.group, crd::GROUP);
        assert_eq!(definition.spec.scope, "Namespaced");
    }
}

/// Checks a schema against the API server's rules for structural schemas.
fn structural(at: &str, schema: &Value) {
    let schema = schema.as_object().unwrap();
    for word in [
        "default",
        "$ref",
        "definitions",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "additionalProperties",
    ] {
        assert!(!schema.contains_key(word), "{at} has {word}");
    }
    let kind = schema.get("type").and_then(Value::as_str);
    let kind = kind.unwrap_or_else(|| panic!("{at} has no type"));
    if !at.is_empty() && kind == "object" {
        assert_eq!(
            schema["x-kubernetes-preserve-unknown-fields"], true,
            "{at} drops unknown fields"
        );
    }
    if kind == "integer" {
        assert_eq!(schema["minimum"].as_f64(), Some(0.0), "{at}");
        let limited = schema.get("maximum").and_then(Value::as_f64) == Some(f64::from(u32::MAX));
        assert!(limited || schema["format"] == "int64", "{at} has no limit");
    }
    for (name, field) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        structural(&format!("{at}.{name}"), field);
    }
    if let Some(items) = schema.get("items") {
        structural(&format!("{at}[]"), items);
    }
}

#[test]
fn schemas_are_structural_and_retain_unknown_fields() {
    for definition in crd::definitions() {
        let schema = definition.spec.versions[0].schema.as_ref().unwrap();
        let schema = serde_json::to_value(schema.open_api_v3_schema.as_ref().unwrap()).unwrap();
        structural("", &schema);
        assert!(
            schema["properties"]["spec"]["properties"]
                .as_object()
                .unwrap()
                .len()
                >= 2
        );
    }
}

//! Generated files of the Helm charts: the names of the values, and the schema of the provider's values.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;

const CHARTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/chart");
/// Values files with all values of the Go charts.
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/values");
const PROVIDER: &str = "akash-provider";
/// Values with fields of Kubernetes, or with fields of the Go charts that have no effect.
const FREE: [&str; 9] = [
    "affinity",
    "attestation",
    "autoscaling",
    "inventoryConfig",
    "letsEncrypt",
    "podSecurityContext",
    "resources",
    "securityContext",
    "settings",
];

/// Returns the schema of a value that has the type of its default. A value without structure can be text, a
/// number or a boolean, because Helm converts values of the command line.
fn schema(default: &Value) -> Value {
    match default {
        Value::Object(fields) if fields.is_empty() => json!({"type": ["object", "null"]}),
        Value::Object(fields) => {
            let properties: serde_json::Map<String, Value> = fields
                .iter()
                .map(|(name, default)| (name.clone(), schema(default)))
                .collect();
            json!({"type": ["object", "null"], "properties": properties})
        }
        Value::Array(_) => json!({"type": ["array", "null"]}),
        _ => json!({"type": ["string", "number", "boolean", "null"]}),
    }
}

fn settings() -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_provider-daemon"))
        .args(["config", "schema"])
        .output()
        .unwrap();
    let mut settings: Value = serde_json::from_slice(&output.stdout).unwrap();
    for only_in_a_document in ["$schema", "title"] {
        settings.as_object_mut().unwrap().remove(only_in_a_document);
    }
    settings
}

/// Compares a file with its expected content, or writes it with `UPDATE_SNAPSHOTS=1`.
fn check(name: &str, expected: &str) {
    let path = format!("{CHARTS}/{name}");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some_and(|value| value == "1") {
        std::fs::write(&path, expected).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(
        found == expected,
        "{path} differs; run the test with UPDATE_SNAPSHOTS=1"
    );
}

fn read(path: &str) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The notes of a release warn of values that are not in this list.
#[test]
fn each_chart_lists_its_values_and_those_of_the_go_chart() {
    for chart in [
        PROVIDER,
        "akash-hostname-operator",
        "akash-inventory-operator",
        "akash-ip-operator",
    ] {
        let values = read(&format!("{CHARTS}/{chart}/values.yaml"));
        let sample = read(&format!("{SAMPLES}/{chart}.yaml"));
        let mut names = BTreeSet::from(["global".to_owned()]);
        for values in [&values, &sample] {
            names.extend(values.as_object().unwrap().keys().cloned());
        }
        for (name, default) in values.as_object().unwrap() {
            let Some(fields) = default.as_object().filter(|_| !FREE.contains(&name.as_str())) else {
                continue;
            };
            let old = sample[name].as_object().into_iter().flatten();
            names.extend(
                fields
                    .iter()
                    .chain(old)
                    .map(|(field, _)| format!("{name}.{field}")),
            );
        }
        let lines: Vec<String> = names.into_iter().map(|name| name + "\n").collect();
        check(&format!("{chart}/files/values.txt"), &lines.concat());
    }
}

#[test]
fn schema_of_the_chart_has_all_values_and_settings() {
    let values = read(&format!("{CHARTS}/{PROVIDER}/values.yaml"));
    let mut properties = schema(&values)["properties"].clone();
    assert_eq!(properties["settings"], json!({"type": ["object", "null"]}));
    properties["settings"] = settings();
    assert!(properties["settings"]["properties"].as_object().unwrap().len() > 150);
    let whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the chart akash-provider",
        "type": "object",
        "properties": properties,
    });
    check(
        &format!("{PROVIDER}/values.schema.json"),
        &format!("{}\n", serde_json::to_string_pretty(&whole).unwrap()),
    );
}

//! The schema of the values of the Helm chart, generated from the values and from the settings of `run`.

use serde_json::{Value, json};
use std::process::Command;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/chart/akash-provider");

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
    let path = format!("{CHART}/{name}");
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

#[test]
fn schema_of_the_chart_has_all_values_and_settings() {
    let text = std::fs::read_to_string(format!("{CHART}/values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    let mut properties = schema(&values)["properties"].clone();
    assert_eq!(properties["settings"], json!({"type": ["object", "null"]}));
    properties["settings"] = settings();
    assert!(properties["settings"]["properties"].as_object().unwrap().len() > 150);
    let names: Vec<&str> = values.as_object().unwrap().keys().map(String::as_str).collect();
    check("files/values.txt", &format!("{}\nglobal\n", names.join("\n")));
    let whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the chart akash-provider",
        "type": "object",
        "properties": properties,
    });
    check(
        "values.schema.json",
        &format!("{}\n", serde_json::to_string_pretty(&whole).unwrap()),
    );
}

//! JSON Schema of settings files, derived from the flags of `run`.

use super::keys::{RECORD, SettableFlags};
use crate::args::go_flags::{is_secret, without_effect};
use clap::{Arg, ArgAction, Command};
use serde_json::{Map, Number, Value, json};
use std::any::TypeId;
use std::path::PathBuf;

/// Values that show which JSON types a flag accepts: each range of numbers contains at least one of them.
const INTEGERS: [&str; 9] = ["0", "1", "2", "5", "16", "100", "1000", "65536", "1048576"];
const FRACTIONS: [&str; 2] = ["0.5", "1.5"];
/// Numbers with a unit, which a file must write as text.
const WITH_UNIT: [&str; 2] = ["64Mi", "500m"];

/// Returns the JSON Schema of a settings file. Keys have the names of the flags of the command `run`.
#[must_use]
pub fn schema(run: &Command) -> Value {
    let properties = properties(run);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of provider-daemon run",
        "description": "Keys are names of flags. The provider also accepts keys in other spellings, and values of the Helm chart.",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

fn properties(run: &Command) -> Map<String, Value> {
    let record = RECORD.iter().map(|key| {
        let described =
            json!({ "description": "Part of the provider record on the chain, ignored by `run`" });
        ((*key).to_owned(), described)
    });
    let flags = SettableFlags::from_command(run);
    let flags = flags
        .args()
        .filter_map(|arg| Some((arg.get_long()?.to_owned(), property(arg))));
    record.chain(flags).collect()
}

/// Returns the schema of one setting.
fn property(arg: &Arg) -> Value {
    let name = arg.get_long().unwrap_or_default();
    let mut schema = values(arg);
    if let Some(help) = arg.get_help() {
        schema.insert("description".to_owned(), json!(help.to_string()));
    }
    if let Some(default) = default(arg) {
        schema.insert("default".to_owned(), default);
    }
    if is_secret(name) {
        schema.insert("writeOnly".to_owned(), json!(true));
    }
    if without_effect().any(|flag| flag.name() == name) {
        schema.insert("deprecated".to_owned(), json!(true));
    }
    Value::Object(schema)
}

/// Returns the schema of the values of a flag: one value, or a list if the flag has several values.
fn values(arg: &Arg) -> Map<String, Value> {
    let types = types(arg);
    let possible = arg.get_possible_values();
    let names = possible.iter().filter(|value| !value.is_hide_set());
    let names: Vec<&str> = names.flat_map(|value| value.get_name_and_aliases()).collect();
    let is_enum = !names.is_empty() && !types.contains(&"boolean");
    let one = if is_enum {
        json!({ "enum": names })
    } else {
        json!({ "type": named(&types) })
    };
    let schema = if is_list(arg) {
        // A text can contain several values with commas.
        let texts = if is_enum { json!("string") } else { named(&types) };
        json!({ "anyOf": [{ "type": texts }, { "type": "array", "items": one }] })
    } else {
        one
    };
    match schema {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Returns the value of the keyword `type`.
fn named(types: &[&str]) -> Value {
    match types {
        [one] => json!(one),
        all => json!(all),
    }
}

fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append) || arg.get_value_delimiter().is_some()
}

/// Returns the JSON types of one value.
fn types(arg: &Arg) -> Vec<&'static str> {
    let value = arg.get_value_parser().type_id();
    if value == TypeId::of::<bool>() {
        return vec!["boolean"];
    }
    if value == TypeId::of::<PathBuf>() {
        return vec!["string"];
    }
    let numbers = [
        TypeId::of::<f64>(),
        TypeId::of::<i64>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
    ];
    let is_number = numbers.iter().any(|number| value == *number);
    let accepts_any = |texts: &[&str]| texts.iter().any(|text| accepts(arg, text));
    let has_fractions = accepts_any(&FRACTIONS);
    let types = [
        ("string", !is_number || accepts_any(&WITH_UNIT)),
        ("number", has_fractions),
        ("integer", !has_fractions && accepts_any(&INTEGERS)),
    ];
    let types = types.into_iter().filter(|(_, is_accepted)| *is_accepted);
    types.map(|(name, _)| name).collect()
}

/// Returns whether the value parser of a flag accepts a text.
fn accepts(arg: &Arg, text: &str) -> bool {
    let parser = arg.get_value_parser().clone();
    let value = Arg::new("value").allow_hyphen_values(true).value_parser(parser);
    let command = Command::new("value").no_binary_name(true).arg(value);
    command.try_get_matches_from([text]).is_ok()
}

fn default(arg: &Arg) -> Option<Value> {
    let types = types(arg);
    let typed = |text: &str| {
        if types.contains(&"boolean") {
            return json!(text == "true");
        }
        let is_number = types.contains(&"integer") || types.contains(&"number");
        let number = is_number.then(|| text.parse::<Number>().ok()).flatten();
        number.map_or_else(|| json!(text), Value::Number)
    };
    let texts = arg.get_default_values().iter();
    let texts: Vec<_> = texts.map(|text| text.to_string_lossy()).collect();
    match (texts.as_slice(), arg.get_value_delimiter()) {
        ([], _) => None,
        ([text], None) => Some(typed(text)),
        (texts, delimiter) => {
            let parts = texts
                .iter()
                .flat_map(move |text| text.split(move |c: char| Some(c) == delimiter));
            Some(parts.map(typed).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::run_line::RunLine;

    #[test]
    fn derives_types_defaults_and_values_from_the_flags() {
        let schema = schema(&RunLine::run_command());
        let property = |name: &str| {
            let mut property = schema["properties"][name].clone();
            property.as_object_mut().unwrap().remove("description").unwrap();
            property
        };
        for (name, expected) in [
            (
                "bid-timeout",
                json!({ "type": ["string", "integer"], "default": "5m" }),
            ),
            ("breaker-floor", json!({ "type": "integer", "default": 3 })),
            ("cluster-k8s", json!({ "type": "boolean", "default": false })),
            ("probe", json!({ "type": "boolean", "default": false })),
            ("audit-log", json!({ "type": "string" })),
            (
                "audit-log-bytes",
                json!({ "type": ["string", "integer"], "default": "256Mi" }),
            ),
            (
                "bid-price-cpu-scale",
                json!({ "type": ["string", "number"], "default": 0 }),
            ),
            ("drift", json!({ "enum": ["heal", "report"], "default": "heal" })),
        ] {
            assert_eq!(property(name), expected, "{name}");
        }
        assert_eq!(
            property("bid-deposit")["default"],
            json!(["500000uact", "500000uakt"])
        );
        assert_eq!(property("cert-issuer-hmac")["writeOnly"], true);
        assert_eq!(property("monitor-max-retries")["deprecated"], true);
        for name in ["home", "config", "provider-config", "help"] {
            assert_eq!(schema["properties"][name], Value::Null, "{name}");
        }
        assert_eq!(schema["additionalProperties"], false);
    }
}

//! Messages of the chain, printed in the form of the Go tools: JSON with all fields in the order of the messages, or
//! YAML with sorted keys.
//!
//! Scripts compare this text, so it has the JSON form of the network: 64-bit numbers as strings, enums by name, bytes
//! as base64, decimals with 18 digits, missing messages as `null`.

mod message;

pub use message::{decoded, from_message, unsigned};

use serde_json::Value;

/// Formats JSON as YAML in block style; ambiguous strings are quoted.
#[must_use]
pub fn yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => block(value, 0, &mut out),
        Value::Array(items) if !items.is_empty() => block(value, 0, &mut out),
        _ => {
            out.push_str(&scalar(value));
            out.push('\n');
        }
    }
    out
}

fn block(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(fields) => {
            for (at, (key, value)) in fields.iter().enumerate() {
                if at > 0 {
                    out.push_str(&pad);
                }
                out.push_str(&text(key));
                out.push(':');
                below(value, indent, out);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(&pad);
                }
                out.push_str("- ");
                if is_block(item) {
                    block(item, indent + 2, out);
                } else {
                    out.push_str(&scalar(item));
                    out.push('\n');
                }
            }
        }
        _ => {}
    }
}

/// Appends the value of a key as YAML. List items have the indentation of the key.
fn below(value: &Value, indent: usize, out: &mut String) {
    if !is_block(value) {
        out.push(' ');
        out.push_str(&scalar(value));
        out.push('\n');
        return;
    }
    let indent = if value.is_array() { indent } else { indent + 2 };
    out.push('\n');
    out.push_str(&" ".repeat(indent));
    block(value, indent, out);
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(string) => text(string),
        Value::Array(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
        other => other.to_string(),
    }
}

/// Formats a string as a YAML scalar.
fn text(text: &str) -> String {
    let reads_as_more = || {
        let value = serde_saphyr::from_str::<Value>(text);
        !matches!(value, Ok(Value::String(read)) if read == text)
    };
    // YAML 1.1 parses these as booleans, as many parsers still do.
    let is_old_truth = matches!(
        text.to_ascii_lowercase().as_str(),
        "y" | "yes" | "n" | "no" | "on" | "off"
    );
    let is_plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_./+@:=".contains(c));
    if is_plain && !text.is_empty() && !text.contains(": ") && !is_old_truth && !reads_as_more() {
        return text.to_owned();
    }
    let is_active = |c: char| c.is_control() || akash_provider_cli::plain::is_active(c);
    if text.chars().any(is_active) || is_plain {
        return quoted(text);
    }
    if text.starts_with(|c: char| c.is_alphanumeric()) && !is_old_truth && !reads_as_more() {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "''"))
}

/// Formats a string in double quotes, with JSON escapes and escaped control characters.
fn quoted(text: &str) -> String {
    let escaped = Value::from(text).to_string();
    let one = |c: char| match c {
        c if c.is_control() || akash_provider_cli::plain::is_active(c) => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    escaped.chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn writes_yaml_in_block_style_with_sorted_keys() {
        let value = json!({
            "owner": "akash1x", "attributes": [{"value": "true", "key": "feat"}, {"key": "n", "value": "5"}],
            "info": {"website": "", "email": "a@b.example"}, "none": [], "nothing": null, "more": [["a", "b"], "c"],
        });
        let expected = "attributes:\n- key: feat\n  value: \"true\"\n- key: \"n\"\n  value: \"5\"\ninfo:\n  email: \
                        a@b.example\n  website: \"\"\nmore:\n- - a\n  - b\n- c\nnone: []\nnothing: null\nowner: \
                        akash1x\n";
        assert_eq!(yaml(&value), expected);
        assert_eq!(yaml(&json!([])), "[]\n");
    }

    #[test]
    fn writes_yaml_that_parses_to_the_same_value() {
        let odd = [
            "",
            "true",
            "no",
            "0x1f",
            "1e3",
            "~",
            "null",
            "a: b",
            "- a",
            "#x",
            "a #b",
            "{\"a\":1}",
            "it's",
            "two\nlines",
            "tab\t",
            "*x",
            "&x",
            "!x",
            "%x",
            "@x",
            "`x",
            " pad ",
            "ü",
            "1.10",
            "a:",
            "=",
            "<<",
            "2026-11-21",
            "[x",
            "\u{7f}",
            "\u{85}",
            "turned \u{202e}round",
        ];
        for text in odd {
            let value = json!({ text: [text, { "k": text }] });
            let written = yaml(&value);
            let read: Value = serde_saphyr::from_str(&written).unwrap_or_else(|e| panic!("{written}: {e}"));
            assert_eq!(read, value, "{written}");
        }
    }
}

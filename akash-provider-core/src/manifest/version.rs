//! The manifest's hash, which the chain calls the deployment's version, and reading a manifest from bytes.
//!
//! The hash is SHA-256 over canonical JSON: no white space, keys sorted by their bytes at every level, and
//! strings escaped the way the network's tools (written in Go) do it.

use super::fault::ManifestError;
use super::{Group, Manifest, Service, ServiceExpose, tree, validate};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::io::Write as _;

/// Longest manifest accepted, in bytes. The largest real ones are tens of kilobytes.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Keys the network leaves out when their value is empty, so that leaving them out or sending them empty is the
/// same manifest.
const LEFT_OUT_WHEN_EMPTY: [&str; 9] = [
    "attributes",
    "credentials",
    "kind",
    "nextCases",
    "params",
    "permissions",
    "proxyBufferSize",
    "read",
    "tee",
];

/// Reads and validates a manifest, and hashes it as it was received.
///
/// Fields this version does not know are ignored in the manifest and counted in the hash, so that a tenant with
/// newer tools is still understood. Known fields count as the network counts them: a missing `env` hashes like
/// `null`, an empty `attributes` list like none.
///
/// # Errors
/// [`ManifestError`]: too large, not JSON, not a manifest, or against a rule of [`validate()`].
pub fn parse(bytes: &[u8]) -> Result<(Manifest, [u8; 32]), ManifestError> {
    if bytes.len() > MAX_BYTES {
        return Err(ManifestError::TooLarge {
            bytes: bytes.len(),
            limit: MAX_BYTES,
        });
    }
    let received = tree::read(bytes).map_err(|e| ManifestError::NotJson {
        line: e.line(),
        column: e.column(),
        reason: reason(&e),
    })?;
    let manifest = Manifest::deserialize(&received).map_err(|e| shape(&received, &e))?;
    validate(&manifest)?;
    let counted = counted(received, known(&manifest));
    Ok((manifest, digest(&counted)))
}

/// The hash of a manifest, as the chain keeps it with the deployment.
#[must_use]
pub fn hash(manifest: &Manifest) -> [u8; 32] {
    digest(&known(manifest))
}

/// Canonical JSON: compact, keys sorted, `<`, `>`, `&`, U+2028 and U+2029 escaped, other UTF-8 as it is.
#[must_use]
pub fn canonical_json(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_value(value, &mut out);
    out
}

fn digest(value: &Value) -> [u8; 32] {
    Sha256::digest(canonical_json(value)).into()
}

fn known(manifest: &Manifest) -> Value {
    // The model has text keys and no maps that could fail, so this is always the manifest.
    serde_json::to_value(manifest).unwrap_or_default()
}

/// What is hashed: the known part as the network writes it, and what was received beyond it.
fn counted(received: Value, known: Value) -> Value {
    match (received, known) {
        (Value::Object(received), Value::Object(known)) => Value::Object(counted_object(received, known)),
        (Value::Array(received), Value::Array(known)) if received.len() == known.len() => Value::Array(
            received
                .into_iter()
                .zip(known)
                .map(|(r, k)| counted(r, k))
                .collect(),
        ),
        // A list that was sent as null is hashed as null.
        (Value::Null, Value::Array(_)) => Value::Null,
        (_, known) => known,
    }
}

fn counted_object(received: Map<String, Value>, mut known: Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for (key, value) in received {
        if let Some(known) = known.remove(&key) {
            all.insert(key, counted(value, known));
        } else if !(LEFT_OUT_WHEN_EMPTY.contains(&key.as_str()) && is_empty(&value)) {
            all.insert(key, value);
        }
    }
    all.append(&mut known);
    all
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_u64() == Some(0),
        Value::String(value) => value.is_empty(),
        Value::Array(value) => value.is_empty(),
        Value::Object(value) => value.is_empty(),
    }
}

/// Where the tree is not a manifest: the deepest group, service or expose that does not read by itself.
fn shape(tree: &Value, error: &serde_json::Error) -> ManifestError {
    let mut found = (String::from("manifest"), reason(error));
    for (g, group) in items(Some(tree)) {
        narrow::<Group>(format!("[{g}]"), group, &mut found);
        for (s, service) in items(group.get("services")) {
            narrow::<Service>(format!("[{g}].services[{s}]"), service, &mut found);
            for (e, expose) in items(service.get("expose")) {
                narrow::<ServiceExpose>(format!("[{g}].services[{s}].expose[{e}]"), expose, &mut found);
            }
        }
    }
    let (at, reason) = found;
    ManifestError::Shape { at, reason }
}

fn items(value: Option<&Value>) -> impl Iterator<Item = (usize, &Value)> {
    value.and_then(Value::as_array).into_iter().flatten().enumerate()
}

fn narrow<'a, T: Deserialize<'a>>(at: String, value: &'a Value, found: &mut (String, String)) {
    // Only ever deeper into the first that fails.
    if !(found.0 == "manifest" || at.starts_with(&found.0)) {
        return;
    }
    if let Err(error) = T::deserialize(value) {
        *found = (at, reason(&error));
    }
}

fn reason(error: &serde_json::Error) -> String {
    super::fault::shown(&error.to_string())
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(b',');
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => write_object(map, out),
    }
}

fn write_object(map: &Map<String, Value>, out: &mut Vec<u8>) {
    // Sorted here, because whether the map is depends on a feature any crate may turn on.
    let mut entries: Vec<(&String, &Value)> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    out.push(b'{');
    for (n, (key, value)) in entries.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        write_text(key, out);
        out.push(b':');
        write_value(value, out);
    }
    out.push(b'}');
}

/// Whole numbers as they are; others as Go writes a 64-bit float.
fn write_number(number: &serde_json::Number, out: &mut Vec<u8>) {
    let text = match number.as_f64() {
        Some(float) if number.is_f64() => {
            let size = float.abs();
            if float != 0.0 && !(1e-6..1e21).contains(&size) {
                let text = format!("{float:e}");
                if size >= 1e21 {
                    text.replace('e', "e+")
                } else {
                    text
                }
            } else {
                float.to_string()
            }
        }
        _ => number.to_string(),
    };
    out.extend_from_slice(text.as_bytes());
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a Vec cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;

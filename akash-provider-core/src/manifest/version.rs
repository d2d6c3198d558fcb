//! The manifest's hash, which the chain calls the deployment's version, and reading a manifest from bytes.
//!
//! The hash is SHA-256 over canonical JSON: no white space, keys sorted by their bytes at every level, and
//! strings escaped the way the network's tools (written in Go) do it.

use super::fault::ManifestError;
use super::{Group, Manifest, Service, ServiceExpose, tree, validate};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::io::Write as _;

/// Longest manifest accepted, in bytes. The largest real ones are tens of kilobytes.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Keys the network leaves out when their value is empty, so that leaving them out or sending them empty is the
/// same manifest.
const LEFT_OUT_WHEN_EMPTY: [&str; 11] = [
    "attributes",
    "credentials",
    "key",
    "kind",
    "nextCases",
    "params",
    "permissions",
    "proxyBufferSize",
    "read",
    "tee",
    "value",
];

/// The hashes by which the chain may know a manifest that was received.
///
/// Who hashed it either knew every field, or dropped those that its tools do not know. So a field that this version
/// does not know may count or not; without such a field both hashes are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hashes {
    received: [u8; 32],
    known: [u8; 32],
}

impl Hashes {
    /// Over everything that was received.
    #[must_use]
    pub const fn received(&self) -> &[u8; 32] {
        &self.received
    }

    /// Over the fields that this version knows, as the Go provider counts.
    #[must_use]
    pub const fn known(&self) -> &[u8; 32] {
        &self.known
    }

    /// True for either of them.
    #[must_use]
    pub fn contain(&self, hash: &[u8; 32]) -> bool {
        self.received == *hash || self.known == *hash
    }
}

/// Those of a manifest in which every field is known.
impl From<[u8; 32]> for Hashes {
    fn from(hash: [u8; 32]) -> Self {
        Self {
            received: hash,
            known: hash,
        }
    }
}

/// Reads and validates a manifest, and hashes it as it was received.
///
/// Fields this version does not know are ignored in the manifest; how they count in its hash, [`Hashes`] says. Known
/// fields count as the network counts them: a missing `env` hashes like `null`, an empty `attributes` list like none.
///
/// # Errors
/// [`ManifestError`]: too large, not JSON, not a manifest, or against a rule of [`validate()`].
pub fn parse(bytes: &[u8]) -> Result<(Manifest, Hashes), ManifestError> {
    // Before it is read, because the work grows with the length.
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
    // Before it is hashed: what is refused needs no hash.
    validate(&manifest)?;
    let hashes = hashes(received, &manifest);
    Ok((manifest, hashes))
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

fn hashes(received: Value, manifest: &Manifest) -> Hashes {
    // From the model and not from the bytes: fields that were left out hash as the network's tools fill them in.
    let mut tree = known(manifest);
    keep_nulls(&received, &mut tree);
    let known = digest(&tree);
    let received = if add_unknown(received, &mut tree) {
        digest(&tree)
    } else {
        known
    };
    Hashes { received, known }
}

/// A list that was sent as null is hashed as null.
fn keep_nulls(received: &Value, known: &mut Value) {
    match (received, known) {
        (Value::Object(received), Value::Object(known)) => {
            for (key, known) in known {
                if let Some(received) = received.get(key) {
                    keep_nulls(received, known);
                }
            }
        }
        (Value::Array(received), Value::Array(known)) => {
            for (received, known) in received.iter().zip(known) {
                keep_nulls(received, known);
            }
        }
        (Value::Null, known @ Value::Array(_)) => *known = Value::Null,
        _ => {}
    }
}

/// Adds what was received and is not known; true if there was anything.
fn add_unknown(received: Value, known: &mut Value) -> bool {
    let mut any = false;
    match (received, known) {
        (Value::Object(received), Value::Object(known)) => {
            for (key, value) in received {
                if let Some(known) = known.get_mut(&key) {
                    any |= add_unknown(value, known);
                } else if !(LEFT_OUT_WHEN_EMPTY.contains(&key.as_str()) && is_empty(&value)) {
                    known.insert(key, value);
                    any = true;
                }
            }
        }
        (Value::Array(received), Value::Array(known)) => {
            // As long as each other, because the model was read from this very tree.
            for (received, known) in received.into_iter().zip(known) {
                any |= add_unknown(received, known);
            }
        }
        _ => {}
    }
    any
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
            // Where Go goes over to exponents.
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
            // Go escapes these too, so that JSON may stand inside HTML and JavaScript.
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

//! Parsing of a manifest, and its hash, which the chain stores as the version of the deployment.
//!
//! The hash is SHA-256 over canonical JSON: no white space, keys sorted by bytes at every level, and strings
//! escaped like in Go.

use super::fault::ManifestError;
use super::{Group, Manifest, Service, ServiceExpose, tree, validate};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::io::Write as _;

/// Maximum length of a manifest, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Keys that the Akash network omits from the hashed JSON if their value is empty.
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

/// Two hashes of a received manifest: one with its unknown fields, one without them. The manifest matches the
/// deployment if the chain contains one of these hashes.
///
/// Without unknown fields, both hashes are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hashes {
    received: [u8; 32],
    typed: [u8; 32],
}

impl Hashes {
    /// Returns the hash over all received fields.
    #[must_use]
    pub const fn received(&self) -> &[u8; 32] {
        &self.received
    }

    /// Returns the hash without the unknown fields of the manifest. The Go provider computes the same hash.
    #[must_use]
    pub const fn known(&self) -> &[u8; 32] {
        &self.typed
    }

    /// Returns true if `hash` equals [`received`](Self::received) or [`known`](Self::known).
    #[must_use]
    pub fn contain(&self, hash: &[u8; 32]) -> bool {
        self.received == *hash || self.typed == *hash
    }
}

/// Creates the hashes of a manifest without unknown fields.
impl From<[u8; 32]> for Hashes {
    fn from(hash: [u8; 32]) -> Self {
        Self {
            received: hash,
            typed: hash,
        }
    }
}

/// Parses, validates and hashes a received manifest.
///
/// Unknown fields do not appear in the returned manifest, but affect its [`Hashes`]. For missing fields, the
/// hash follows the rules of the Akash network: a missing `env` has the same hash as `null`.
///
/// # Errors
/// Returns a [`ManifestError`] if the text is too large, is not JSON, is not a manifest, or violates a rule
/// of [`validate()`].
pub fn parse(bytes: &[u8]) -> Result<(Manifest, Hashes), ManifestError> {
    // Checked before parsing, because the cost grows with the length.
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
    // Validated before hashing, because a refused manifest needs no hash.
    validate(&manifest)?;
    let hashes = hashes(received, &manifest);
    Ok((manifest, hashes))
}

/// Returns the manifest hash that the chain stores with the deployment.
#[must_use]
pub fn hash(manifest: &Manifest) -> [u8; 32] {
    digest(&typed_value(manifest))
}

/// Returns canonical JSON: compact, with sorted keys. As in Go, the characters `<`, `>`, `&`, U+2028 and
/// U+2029 are escaped.
#[must_use]
pub fn canonical_json(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_value(value, &mut out);
    out
}

fn digest(value: &Value) -> [u8; 32] {
    Sha256::digest(canonical_json(value)).into()
}

fn typed_value(manifest: &Manifest) -> Value {
    // The model has text keys and no fallible maps, so the conversion never fails.
    serde_json::to_value(manifest).unwrap_or_default()
}

fn hashes(received: Value, manifest: &Manifest) -> Hashes {
    // Based on the model, so that omitted fields hash like the defaults of the network's tools.
    let mut tree = typed_value(manifest);
    keep_nulls(&received, &mut tree);
    let typed = digest(&tree);
    let received = if add_unknown(received, &mut tree) {
        digest(&tree)
    } else {
        typed
    };
    Hashes { received, typed }
}

/// Sets each list in `typed` to null if the list is null in the received manifest.
fn keep_nulls(received: &Value, typed: &mut Value) {
    match (received, typed) {
        (Value::Object(received), Value::Object(typed)) => {
            for (key, typed) in typed {
                if let Some(received) = received.get(key) {
                    keep_nulls(received, typed);
                }
            }
        }
        (Value::Array(received), Value::Array(typed)) => {
            for (received, typed) in received.iter().zip(typed) {
                keep_nulls(received, typed);
            }
        }
        (Value::Null, typed @ Value::Array(_)) => *typed = Value::Null,
        _ => {}
    }
}

/// Adds the unknown fields of the received manifest to `typed`. Returns whether there are unknown fields.
fn add_unknown(received: Value, typed: &mut Value) -> bool {
    let mut any = false;
    match (received, typed) {
        (Value::Object(received), Value::Object(typed)) => {
            for (key, value) in received {
                if let Some(typed) = typed.get_mut(&key) {
                    any |= add_unknown(value, typed);
                } else if !(LEFT_OUT_WHEN_EMPTY.contains(&key.as_str()) && is_empty(&value)) {
                    typed.insert(key, value);
                    any = true;
                }
            }
        }
        (Value::Array(received), Value::Array(typed)) => {
            // The lists have equal lengths, because the model was parsed from the same tree.
            for (received, typed) in received.into_iter().zip(typed) {
                any |= add_unknown(received, typed);
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

/// Returns the error of the innermost invalid object. An expose is inside a service, and a service is inside
/// a group.
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
    // Only descends into the first invalid part.
    if !(found.0 == "manifest" || at.starts_with(&found.0)) {
        return;
    }
    if let Err(error) = T::deserialize(value) {
        *found = (at, reason(&error));
    }
}

fn reason(error: &serde_json::Error) -> String {
    super::fault::truncated(&error.to_string())
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
    // Sorted here, because a feature of serde_json that any crate can enable determines the order of the map.
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

/// Writes integers unchanged, and other numbers in the format in which Go writes a 64-bit float.
fn write_number(number: &serde_json::Number, out: &mut Vec<u8>) {
    let text = match number.as_f64() {
        Some(float) if number.is_f64() => {
            let size = float.abs();
            // Go uses exponents outside this range.
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
            // Go escapes these characters too, so that JSON can be embedded in HTML and JavaScript.
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

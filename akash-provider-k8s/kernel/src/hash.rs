//! Hash of JSON content that does not depend on the order of keys.

use crate::labels;
use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Length of a hash in bytes: sufficient to compare versions of one object.
const BYTES: usize = 16;

/// Returns the hash of a rendered object without its version label.
#[must_use]
pub fn hash_value(value: &Value) -> String {
    let mut hasher = Sha256::new();
    feed(&mut hasher, value);
    finish(hasher)
}

/// Returns the hash of several texts, in their order.
#[must_use]
pub fn hash_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        feed_text(&mut hasher, text);
    }
    finish(hasher)
}

fn finish(hasher: Sha256) -> String {
    let digest = hasher.finalize();
    HEXLOWER.encode(digest.get(..BYTES).unwrap_or(&digest))
}

fn feed_text(hasher: &mut Sha256, text: &str) {
    // The length prefix distinguishes `ab`, `c` from `a`, `bc`.
    hasher.update(text.len().to_le_bytes());
    hasher.update(text);
}

fn feed(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map
                .iter()
                .filter(|(k, _)| *k != labels::MANIFEST_VERSION)
                .collect();
            fields.sort_by_key(|(key, _)| key.as_str());
            hasher.update(b"{");
            for (key, value) in fields {
                feed_text(hasher, key);
                feed(hasher, value);
            }
            hasher.update(b"}");
        }
        Value::Array(list) => {
            hasher.update(b"[");
            for value in list {
                feed(hasher, value);
            }
            hasher.update(b"]");
        }
        Value::String(text) => {
            // The letter distinguishes the text `1` from the number 1.
            hasher.update(b"s");
            feed_text(hasher, text);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            hasher.update(b"v");
            feed_text(hasher, &value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_hash_depends_on_content_alone() {
        let one = json!({"a": 1, "b": [1, "2"], "labels": {"akash.network/manifest.resource.version": "7"}});
        let two = json!({"labels": {"akash.network/manifest.resource.version": "8"}, "b": [1, "2"], "a": 1});
        assert_eq!(hash_value(&one), hash_value(&two));
        for other in [
            json!({"a": 1, "b": ["2", 1], "labels": {}}),
            json!({"a": "1", "b": [1, "2"], "labels": {}}),
            json!({"a": 1, "b": [1, "2"], "labels": {"c": ""}}),
            json!({"a": 1, "b": [[1], "2"], "labels": {}}),
        ] {
            assert_ne!(hash_value(&one), hash_value(&other), "{other}");
        }
    }
}

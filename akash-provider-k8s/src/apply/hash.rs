//! One text for one content: a hash of JSON that does not depend on the order of keys.

use crate::labels;
use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Bytes of SHA-256 that are kept: enough that two contents of one object never meet.
const BYTES: usize = 16;

/// Hash of a rendered object. Its version label does not count: it says when, not what.
#[must_use]
pub fn of(value: &Value) -> String {
    let mut hasher = Sha256::new();
    feed(&mut hasher, value);
    finish(hasher)
}

/// Hash of several texts, in their order.
#[must_use]
pub fn of_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
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
    // With its length before it: `ab`, `c` and `a`, `bc` must differ.
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
            // The letter tells the text `1` from the number 1.
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
    fn the_content_counts_and_neither_order_nor_version() {
        let one = json!({"a": 1, "b": [1, "2"], "labels": {"akash.network/manifest.resource.version": "7"}});
        let two = json!({"labels": {"akash.network/manifest.resource.version": "8"}, "b": [1, "2"], "a": 1});
        assert_eq!(of(&one), of(&two));
        for other in [
            json!({"a": 1, "b": ["2", 1], "labels": {}}),
            json!({"a": "1", "b": [1, "2"], "labels": {}}),
            json!({"a": 1, "b": [1, "2"], "labels": {"c": ""}}),
            json!({"a": 1, "b": [[1], "2"], "labels": {}}),
        ] {
            assert_ne!(of(&one), of(&other), "{other}");
        }
    }
}

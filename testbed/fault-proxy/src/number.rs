//! Numbers in JSON-RPC messages.

use serde_json::Value;

/// Returns the number in a JSON number or a JSON string; 0 for any other value.
pub(crate) fn number(value: &Value) -> u64 {
    let text = value.as_str().and_then(|text| text.parse().ok());
    text.or_else(|| value.as_u64()).unwrap_or_default()
}

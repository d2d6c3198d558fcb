//! Recordings of today's provider, for tests; where the folder is absent a test says that it is skipped.

use serde_json::Value;
use std::path::Path;
pub(crate) use testbed::recordings as folder;

/// Reads a recording as JSON; panics with the path where it cannot.
pub(crate) fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

//! Recordings of today's provider, for tests; where the folder is absent a test says that it is skipped.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// A folder of the shared golden data; says so when it is absent.
pub(crate) fn folder(name: &str) -> Option<PathBuf> {
    let all = std::env::var_os("AKASH_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures"),
        PathBuf::from,
    );
    let folder = all.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: fixtures folder {} is absent", folder.display());
    None
}

/// A JSON file.
pub(crate) fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

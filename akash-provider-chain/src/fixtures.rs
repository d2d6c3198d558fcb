//! Recordings of a live chain, for tests; where the folder is absent a test says that it is skipped.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The shared golden data; says so when it is absent.
pub(crate) fn fixtures() -> Option<PathBuf> {
    let folder = std::env::var_os("AKASH_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures"),
        PathBuf::from,
    );
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: fixtures folder {} is absent", folder.display());
    None
}

/// Entries of a folder with that ending, in order.
pub(crate) fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    files
}

/// A JSON file.
pub(crate) fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A folder of them.
pub(crate) fn folder(name: &str) -> Option<PathBuf> {
    fixtures().map(|all| all.join(name))
}

//! Recordings of a live chain and of the Go provider, for tests: they lie beside the repository, not in it.

use std::path::{Path, PathBuf};

/// A folder of the recordings, for example `chain/tx`; prints `skipped: …` and returns nothing where it is absent.
///
/// They are looked for in `shared/fixtures` beside the repository, or where `AKASH_FIXTURES` says.
#[must_use]
pub fn recordings(name: &str) -> Option<PathBuf> {
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

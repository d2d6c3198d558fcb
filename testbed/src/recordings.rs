//! Recordings of a live chain and of the Go provider, for tests.
//!
//! The repository has them in one archive, `testbed/recordings/recordings.tar.gz`; the README beside the archive
//! lists its contents. A test fails if its recordings are missing.

#![expect(
    clippy::panic,
    reason = "only tests call these functions, and a test without its data must fail"
)]

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{env, fs, io, process};

const ARCHIVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/recordings/recordings.tar.gz");

/// Returns the path of a folder of recordings, such as `chain/tx`. Tests must not write to it.
///
/// # Panics
/// Panics if the archive cannot be unpacked or does not contain the folder.
#[must_use]
pub fn folder(name: &str) -> PathBuf {
    static ALL: LazyLock<PathBuf> = LazyLock::new(|| {
        unpack(Path::new(ARCHIVE)).unwrap_or_else(|e| panic!("cannot unpack {ARCHIVE}: {e}"))
    });
    existing(ALL.join(name))
}

/// Returns the paths in `folder` that end with `ending`, sorted.
///
/// # Panics
/// Panics if the folder cannot be read.
#[must_use]
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| {
            entry
                .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
                .path()
        })
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    files
}

/// Reads a JSON file.
///
/// # Panics
/// Panics if the file cannot be read or is not JSON.
#[must_use]
pub fn json(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn existing(folder: PathBuf) -> PathBuf {
    assert!(
        folder.is_dir(),
        "recordings missing: no folder {}",
        folder.display()
    );
    folder
}

/// Unpacks the archive beside the test program, into a folder named by the archive's hash. An existing folder
/// is not written again.
fn unpack(archive: &Path) -> io::Result<PathBuf> {
    let hash = Sha256::digest(fs::read(archive)?);
    let beside = env::current_exe()?.with_file_name("recordings");
    let folder = beside.join(data_encoding::HEXLOWER.encode(&hash[..8]));
    if folder.is_dir() {
        return Ok(folder);
    }
    // Several test programs may unpack at once: each renames its own complete copy, and the first one wins.
    let own = beside.join(format!("unpacking-{}", process::id()));
    fs::create_dir_all(&own)?;
    let status = Command::new("tar")
        .arg("-xzf")
        .arg(archive)
        .arg("-C")
        .arg(&own)
        .status()?;
    if !status.success() {
        return Err(io::Error::other(format!("`tar` failed: {status}")));
    }
    match fs::rename(&own, &folder) {
        Err(_) if folder.is_dir() => fs::remove_dir_all(&own)?,
        renamed => renamed?,
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_is_unpacked_once_and_read_by_name() {
        let chain = folder("chain");
        assert_eq!(folder("chain"), chain);
        let transactions = files(&folder("chain/tx"), ".tx.b64");
        assert!(transactions.len() >= 90, "{} transactions", transactions.len());
        assert_eq!(json(&chain.join("genesis.json"))["chain_id"], "local");
    }

    #[test]
    #[should_panic(expected = "recordings missing: no folder")]
    fn missing_recordings_fail_the_test() {
        let _ = folder("chain/none");
    }
}

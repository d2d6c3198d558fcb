//! Directory of a recording.

use crate::numbered_files::{NumberedFiles, files as numbered};
use akash_provider_cli::error::WithHelp;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};

const EXTENSION: &str = "flight";

/// Opens or creates the directory of a recording. `limit` is its maximum size in bytes.
pub(super) fn open(dir: &Path, limit: u64) -> anyhow::Result<NumberedFiles> {
    NumberedFiles::open(dir, EXTENSION, limit).context("cannot use the directory of the recording")
}

/// Returns the file size at which the recorder starts the next file. `limit` is the size limit of the
/// directory.
pub(super) fn rotation_size(limit: u64) -> u64 {
    (limit / 8).clamp(64 << 10, 32 << 20)
}

/// Returns the files of a recording, the oldest first.
pub(super) fn files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let found = numbered(dir, EXTENSION).with_context(|| dir.display().to_string())?;
    if found.is_empty() {
        bail!(WithHelp::new(
            format!("no recording in {}: no file *.{EXTENSION}", dir.display()),
            "pass the directory of `run --record`"
        ));
    }
    Ok(found)
}

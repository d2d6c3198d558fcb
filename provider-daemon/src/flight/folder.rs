//! Folder of numbered files: the newest is written, and the oldest is removed first.

use crate::error::WithHelp;
use anyhow::{Context, bail};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const ENDING: &str = "flight";

/// Folder of a recording.
#[derive(Debug)]
pub(super) struct RecordingFolder {
    dir: PathBuf,
    limit: u64,
    /// File number and size in bytes of each complete file, the oldest first.
    old: Vec<(u64, u64)>,
    newest: u64,
}

impl RecordingFolder {
    /// Opens the folder, and creates a missing one.
    pub(super) fn open(dir: &Path, limit: u64) -> anyhow::Result<Self> {
        let cannot_open = || format!("cannot open the folder of the recording, {}", dir.display());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.with_context(cannot_open)?;
        let old = numbered(dir).with_context(cannot_open)?;
        let newest = old.last().map_or(0, |(number, _)| *number);
        Ok(Self {
            dir: dir.to_owned(),
            limit,
            old,
            newest,
        })
    }

    /// Returns the size of a file at which the recorder starts the next file.
    pub(super) fn rotation_size(&self) -> u64 {
        (self.limit / 8).clamp(64 << 10, 32 << 20)
    }

    /// Creates the next file.
    pub(super) fn next(&mut self) -> io::Result<File> {
        self.newest += 1;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(path(&self.dir, self.newest))
    }

    /// Finishes the newest file, which has `bytes` bytes, and removes the file if `is_useless` is true.
    pub(super) fn finish(&mut self, bytes: u64, is_useless: bool) {
        let removed = is_useless && fs::remove_file(path(&self.dir, self.newest)).is_ok();
        if !removed {
            self.old.push((self.newest, bytes));
        }
    }

    /// Removes old files until the total size, with `newest` bytes for the newest file, is below the limit.
    pub(super) fn remove_oldest(&mut self, newest: u64) -> io::Result<()> {
        let total = |old: &[(u64, u64)]| old.iter().map(|(_, bytes)| bytes).sum::<u64>();
        while total(&self.old).saturating_add(newest) > self.limit {
            if self.old.is_empty() {
                return Err(io::Error::other(
                    "the state of the engine is larger than --record-bytes; raise the limit",
                ));
            }
            let (number, _) = self.old.remove(0);
            match fs::remove_file(path(&self.dir, number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.{ENDING}"))
}

/// Returns the file number and the size in bytes of each recording file in a folder, sorted by number.
fn numbered(dir: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if path.extension().is_some_and(|ending| ending == ENDING)
            && let Some(number) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok())
        {
            found.push((number, entry.metadata()?.len()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns the files of a recording, the oldest first.
pub(super) fn files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let found = numbered(dir).with_context(|| dir.display().to_string())?;
    if found.is_empty() {
        bail!(WithHelp::new(
            format!("no recording in {}: no file *.{ENDING}", dir.display()),
            "set the directory that `run --record` has"
        ));
    }
    Ok(found.into_iter().map(|(number, _)| path(dir, number)).collect())
}

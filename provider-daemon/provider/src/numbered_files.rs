//! Directory of numbered files: the newest file is written, and the oldest file is removed first.

use anyhow::Context;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Directory of numbered files with the same extension.
#[derive(Debug)]
pub(crate) struct NumberedFiles {
    dir: PathBuf,
    extension: &'static str,
    limit: u64,
    /// Number and size in bytes of each complete file, the oldest first.
    old: Vec<(u64, u64)>,
    newest: u64,
}

impl NumberedFiles {
    /// Opens or creates the directory. `limit` is its maximum size in bytes.
    pub(crate) fn open(dir: &Path, extension: &'static str, limit: u64) -> anyhow::Result<Self> {
        let said = || format!("cannot open the directory {}", dir.display());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.with_context(said)?;
        let old = numbered(dir, extension).with_context(said)?;
        let newest = old.last().map_or(0, |(number, _)| *number);
        Ok(Self {
            dir: dir.to_owned(),
            extension,
            limit,
            old,
            newest,
        })
    }

    /// Returns the size limit of the directory, in bytes.
    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the path and size in bytes of the newest file that existed when the directory was opened.
    pub(crate) fn last(&self) -> Option<(PathBuf, u64)> {
        let (number, bytes) = self.old.last()?;
        Some((path(&self.dir, *number, self.extension), *bytes))
    }

    /// Creates the next file.
    pub(crate) fn next(&mut self) -> io::Result<File> {
        self.newest += 1;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(path(&self.dir, self.newest, self.extension))
    }

    /// Ends the newest file, which has a size of `bytes`. A useless file is deleted; any other file is added
    /// to the complete files.
    pub(crate) fn finish(&mut self, bytes: u64, is_useless: bool) {
        let newest = path(&self.dir, self.newest, self.extension);
        let removed = is_useless && fs::remove_file(newest).is_ok();
        if !removed {
            self.old.push((self.newest, bytes));
        }
    }

    pub(crate) fn keep_newest(&mut self, files: usize) -> io::Result<()> {
        while self.old.len() > files {
            self.remove_first()?;
        }
        Ok(())
    }

    /// Removes old files until the total size is within the limit. `newest` is the size of the newest file in
    /// bytes. Returns false if this file alone exceeds the limit.
    pub(crate) fn remove_oldest(&mut self, newest: u64) -> io::Result<bool> {
        let total = |old: &[(u64, u64)]| old.iter().map(|(_, bytes)| bytes).sum::<u64>();
        while total(&self.old).saturating_add(newest) > self.limit {
            if self.old.is_empty() {
                return Ok(false);
            }
            self.remove_first()?;
        }
        Ok(true)
    }

    fn remove_first(&mut self) -> io::Result<()> {
        let (number, _) = self.old.remove(0);
        match fs::remove_file(path(&self.dir, number, self.extension)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn path(dir: &Path, number: u64, extension: &str) -> PathBuf {
    dir.join(format!("{number:06}.{extension}"))
}

/// Returns the number and size of each file with a number as its name. Ignores other files.
fn numbered(dir: &Path, extension: &str) -> io::Result<Vec<(u64, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if path.extension().is_some_and(|ending| ending == extension)
            && let Some(number) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok())
        {
            found.push((number, entry.metadata()?.len()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns the numbered files of a directory, the oldest first.
///
/// # Errors
/// Returns an error if the directory cannot be read.
pub(crate) fn files(dir: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let found = numbered(dir, extension)?;
    let path = |(number, _)| path(dir, number, extension);
    Ok(found.into_iter().map(path).collect())
}

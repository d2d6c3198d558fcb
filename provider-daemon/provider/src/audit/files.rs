//! Files of the log: append, rotation, and the lock between processes.

use crate::numbered_files::{NumberedFiles, files};
use akash_provider_cli::error::WithHelp;
use anyhow::{Context, bail};
use nix::unistd::{AccessFlags, access};
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

pub(super) const EXTENSION: &str = "jsonl";
/// Smallest permitted size limit of a file, in bytes. A single write is always smaller than this value.
pub(super) const FILE_MIN: u64 = 64 << 10;
/// Name of the lock file. A writer locks this file during a write.
const LOCK: &str = "lock";
/// Maximum time to wait for the lock.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Directory and size limit of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// Directory of the files.
    pub dir: PathBuf,
    /// Maximum size of all files, in bytes.
    pub bytes: u64,
    /// Maximum number of files.
    pub files: usize,
}

impl AuditSettings {
    /// Appends complete lines, and returns when the lines are durable. Starts the next file and removes the
    /// oldest files as necessary.
    pub(super) fn append(&self, lines: &[u8]) -> anyhow::Result<()> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.with_context(|| format!("cannot create {}", self.dir.display()))?;
        let _lock = lock(&self.dir)?;
        let mut numbered = NumberedFiles::open(&self.dir, EXTENSION, self.bytes)?;
        let room = (self.bytes / self.files.max(1) as u64).max(FILE_MIN);
        let fits = |(_, bytes): &(PathBuf, u64)| bytes.saturating_add(lines.len() as u64) <= room;
        let Some((path, bytes)) = numbered.last().filter(fits) else {
            numbered.keep_newest(self.files.saturating_sub(1))?;
            numbered.remove_oldest(room)?;
            let file = numbered.next().context("cannot create the next file")?;
            write(file, 0, lines)?;
            // Makes the name of the file durable.
            return Ok(File::open(&self.dir)?.sync_all()?);
        };
        let opening = || format!("cannot open {}", path.display());
        let file = OpenOptions::new().read(true).append(true).open(&path);
        write(file.with_context(opening)?, bytes, lines)
    }

    /// Checks write access to the directory (or its nearest existing parent), the newest file and the lock.
    /// Writes nothing.
    ///
    /// # Errors
    /// Returns the reason with the path.
    pub fn check_access(&self) -> Result<(), String> {
        let about = |path: &Path, error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let dir = std::path::absolute(&self.dir).map_err(|error| about(&self.dir, &error))?;
        let existing = dir.ancestors().find(|path| path.exists()).unwrap_or(&dir);
        if !existing.is_dir() {
            return Err(about(existing, &"not a directory"));
        }
        let mut paths = vec![existing.to_owned()];
        if existing == dir {
            paths.extend(files(&dir, EXTENSION).map_err(|error| about(&dir, &error))?.pop());
            paths.push(dir.join(LOCK));
        }
        for path in paths.iter().filter(|path| path.exists()) {
            let needed = match path.is_dir() {
                true => AccessFlags::W_OK | AccessFlags::X_OK,
                false => AccessFlags::W_OK,
            };
            access(path, needed).map_err(|error| about(path, &error.desc()))?;
        }
        Ok(())
    }
}

/// Appends lines to a file of `bytes` bytes. After a failure, truncates the file to this size.
fn write(mut file: File, bytes: u64, lines: &[u8]) -> anyhow::Result<()> {
    let written = end_last_line(&mut file, bytes)
        .and_then(|()| file.write_all(lines))
        .and_then(|()| file.sync_data());
    if let Err(error) = written {
        // A later append ends the incomplete line if this fails, too.
        drop(file.set_len(bytes));
        return Err(error).context("cannot write the file");
    }
    Ok(())
}

/// Adds a missing newline at the end of the file, so that the next line is readable. A crash can truncate the
/// last line.
fn end_last_line(file: &mut File, bytes: u64) -> std::io::Result<()> {
    let Some(last) = bytes.checked_sub(1) else {
        return Ok(());
    };
    let mut end = [0];
    file.read_exact_at(&mut end, last)?;
    if end == *b"\n" {
        Ok(())
    } else {
        file.write_all(b"\n")
    }
}

/// Locks the directory for this process, until the returned file is dropped.
fn lock(dir: &Path) -> anyhow::Result<File> {
    let path = dir.join(LOCK);
    let locking = || format!("cannot lock {}", path.display());
    let options = &mut OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600);
    let file = file.open(&path).with_context(locking)?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_WAIT => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => bail!(WithHelp::new(
                format!("{}: another process holds the lock", locking()),
                format!(
                    "run `fuser {}` to find the process, and end it if it hangs",
                    path.display()
                )
            )),
            Err(TryLockError::Error(error)) => return Err(error).with_context(locking),
        }
    }
}

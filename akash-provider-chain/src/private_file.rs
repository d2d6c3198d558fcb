//! Atomic replacement of files with secrets.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Replaces a file atomically. The new file is readable only by its owner.
///
/// The contents are first written to the file `temporary` in the same folder. After an error, `temporary` is
/// removed.
///
/// # Errors
/// Returns an error if the file cannot be written, synced or renamed.
pub fn replace(path: &Path, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(temporary)
        // Synced before the rename. Otherwise a crash could leave an empty file.
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(temporary, path))
        // The sync of the folder persists the rename.
        .and_then(|()| File::open(folder)?.sync_all());
    if written.is_err() {
        // The first error is returned, so an error of the removal is ignored.
        drop(fs::remove_file(temporary));
    }
    written
}

//! Files that hold secrets.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Replaces a file as a whole, readable by its owner alone: after a crash there is the old one or the new one.
/// `temporary` is where the new one is made, in the same folder; nothing stays there.
pub(crate) fn replace(path: &Path, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(temporary)
        // On the disk before the rename: else a crash could leave an empty file under the name.
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(temporary, path))
        // The rename itself is on the disk only when the folder is.
        .and_then(|()| File::open(folder)?.sync_all());
    if written.is_err() {
        // The first error is the one to tell.
        drop(fs::remove_file(temporary));
    }
    written
}

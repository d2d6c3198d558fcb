//! Permissions of the home folder: 0700 for folders and 0600 for files, also where they existed before with wider bits.
//!
//! Only the bits of group and others are removed. Symbolic links are not followed: the target of a
//! link keeps its permissions.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Bits of group and others, and the special bits, which have no use in a home folder.
const TOO_WIDE: u32 = 0o7077;
/// Most entries that are looked at; a home folder has some dozens. A folder of many thousands is no home of a provider.
const ENTRIES_MAX: usize = 10_000;
/// Deepest folder that is looked into; a keyring is two deep.
const DEPTH_MAX: usize = 8;

/// Creates the folder with mode 0700 where it is missing.
pub(super) fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates the file with mode 0600 where it is missing.
pub(super) fn file(path: &Path) -> io::Result<()> {
    let options = &mut OpenOptions::new();
    // Write access and no truncation: an existing file stays as it is.
    let opened = options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path);
    opened.map(drop)
}

/// Removes the access of group and others from the home folder and everything in it. Logs a warning for what cannot
/// be changed: a read-only mount or another owner must not stop a provider.
///
/// The home directory of a user and the root of a file system also hold files of others: there only `owned` is changed.
pub(super) fn close(home: &Path, owned: &Path) {
    let is_shared = home.parent().is_none() || std::env::home_dir().is_some_and(|user| user == home);
    let mut failures = Vec::new();
    if is_shared {
        narrow(owned, &mut failures);
    } else {
        let mut entries = ENTRIES_MAX;
        close_all(home, DEPTH_MAX, &mut entries, &mut failures);
    }
    if let Some(first) = failures.first() {
        tracing::warn!(
            home = %home.display(),
            count = failures.len(),
            first,
            "cannot restrict permissions of the home folder: other accounts of this machine may read it; run chmod -R go-rwx on it"
        );
    }
}

fn close_all(path: &Path, depth: usize, entries: &mut usize, failures: &mut Vec<String>) {
    let Some(left) = entries.checked_sub(1) else {
        return;
    };
    *entries = left;
    let is_folder = narrow(path, failures);
    if !is_folder || depth == 0 {
        return;
    }
    match fs::read_dir(path) {
        Ok(found) => {
            for entry in found.flatten() {
                close_all(&entry.path(), depth - 1, entries, failures);
            }
        }
        Err(error) => failures.push(format!("{}: {error}", path.display())),
    }
}

/// Narrows one entry; true for a folder.
fn narrow(path: &Path, failures: &mut Vec<String>) -> bool {
    let about = match fs::symlink_metadata(path) {
        Ok(about) => about,
        // Removed since it was listed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return false,
        Err(error) => {
            failures.push(format!("{}: {error}", path.display()));
            return false;
        }
    };
    if about.is_symlink() {
        return false;
    }
    let mode = about.permissions().mode();
    if mode & TOO_WIDE != 0 {
        let narrowed = Permissions::from_mode(mode & 0o700);
        if let Err(error) = fs::set_permissions(path, narrowed) {
            failures.push(format!("{}: {error}", path.display()));
        }
    }
    about.is_dir()
}

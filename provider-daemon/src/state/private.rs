//! Permissions of the home directory: 0700 for directories and 0600 for files, including existing ones with wider
//! permissions.
//!
//! Only the permission bits of the group and of other users are removed. Symbolic links are not followed, so their
//! targets are unchanged.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Permission bits of the group and of other users, and the special bits.
const TOO_WIDE: u32 = 0o7077;
/// Maximum number of checked entries. A home directory has some dozens of entries. A directory with many thousands also
/// contains files of other programs.
const ENTRIES_MAX: usize = 10_000;
/// Maximum depth of checked directories; a keyring has a depth of two.
const DEPTH_MAX: usize = 8;

/// Creates the directory with mode 0700 if it is missing.
pub(super) fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates the file with mode 0600 if it is missing.
pub(super) fn file(path: &Path) -> io::Result<()> {
    let options = &mut OpenOptions::new();
    // Opened without truncation, so that an existing file is unchanged.
    let opened = options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path);
    opened.map(drop)
}

/// Removes the access of the group and of other users to the home directory and its content. Failures are logged,
/// because a read-only mount or another owner must not stop a provider.
///
/// The home directory of a user and the root of a file system also contain other files, so only `owned` is changed
/// there.
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
            "cannot restrict permissions of the home directory: other accounts of this machine may read it; run chmod -R go-rwx on it"
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

/// Removes the access of the group and of other users to one file or directory. Returns whether it is a directory.
fn narrow(path: &Path, failures: &mut Vec<String>) -> bool {
    let about = match fs::symlink_metadata(path) {
        Ok(about) => about,
        // Deleted since it was listed.
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

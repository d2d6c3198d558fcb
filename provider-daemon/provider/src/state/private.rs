//! Permissions of the home directory. New directories have the mode 0700 and new files 0600. Existing ones
//! keep only the permissions of their owner.
//!
//! Symbolic links are not followed, so their targets are unchanged.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Permission bits that must not be set: those of group and others, and the special bits.
const TOO_WIDE: u32 = 0o7077;
/// Maximum number of checked entries. A directory with more entries probably contains files of other
/// programs.
const ENTRIES_MAX: usize = 10_000;
/// Maximum depth of checked directories. A keyring has depth two.
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

/// Function that receives the path and the mode of each entry with a permission bit of [`TOO_WIDE`].
type EntryVisitor<'a> = dyn FnMut(&Path, u32) -> io::Result<()> + 'a;

/// Denies group and others access to the home directory and its content. In the user's Unix home and in `/`,
/// changes only `owned`. Logs failures.
pub(super) fn close(home: &Path, owned: &Path) {
    let failures = restrict(home, owned);
    if let Some(first) = failures.first() {
        tracing::warn!(
            home = %home.display(),
            count = failures.len(),
            first,
            "cannot deny other system users access to the home directory; run `chmod -R go-rwx` on the directory"
        );
    }
}

/// Removes the permissions of other users, as [`close`] does, but logs nothing. Returns one line for each
/// failure.
pub(super) fn restrict(home: &Path, owned: &Path) -> Vec<String> {
    visit(home, owned, &mut |path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode & 0o700))
    })
}

/// Returns the path and mode of each entry that [`close`] would change, and one line for each unreadable
/// entry.
pub(super) fn accessible(home: &Path, owned: &Path) -> (Vec<(PathBuf, u32)>, Vec<String>) {
    let mut found = Vec::new();
    let failures = visit(home, owned, &mut |path, mode| {
        found.push((path.to_owned(), mode & 0o7777));
        Ok(())
    });
    (found, failures)
}

/// Calls `act` for each entry that is too accessible. Returns one line for each failure.
fn visit(home: &Path, owned: &Path, act: &mut EntryVisitor<'_>) -> Vec<String> {
    let is_shared = home.parent().is_none() || std::env::home_dir().is_some_and(|user| user == home);
    let mut failures = Vec::new();
    if is_shared {
        check(owned, act, &mut failures);
    } else {
        let mut entries = ENTRIES_MAX;
        visit_all(home, DEPTH_MAX, &mut entries, act, &mut failures);
    }
    failures
}

fn visit_all(
    path: &Path,
    depth: usize,
    entries: &mut usize,
    act: &mut EntryVisitor<'_>,
    failures: &mut Vec<String>,
) {
    let Some(left) = entries.checked_sub(1) else {
        return;
    };
    *entries = left;
    let is_folder = check(path, act, failures);
    if !is_folder || depth == 0 {
        return;
    }
    match fs::read_dir(path) {
        Ok(found) => {
            for entry in found.flatten() {
                visit_all(&entry.path(), depth - 1, entries, act, failures);
            }
        }
        Err(error) => failures.push(format!("{}: {error}", path.display())),
    }
}

/// Calls `act` if the mode of an entry grants too much access. Returns true for a directory.
fn check(path: &Path, act: &mut EntryVisitor<'_>, failures: &mut Vec<String>) -> bool {
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
    if mode & TOO_WIDE != 0
        && let Err(error) = act(path, mode)
    {
        failures.push(format!("{}: {error}", path.display()));
    }
    about.is_dir()
}

//! Mounts below a folder.

use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, umount2};

use crate::error::{Error, Result};

/// Returns the mount points in the folder, deepest first.
pub(crate) fn under(folder: &Path) -> Result<Vec<PathBuf>> {
    let table = Path::new("/proc/self/mountinfo");
    let text = std::fs::read_to_string(table).map_err(|error| Error::at(table, error))?;
    Ok(parse(&text, folder))
}

/// Unmounts the folder and everything below it.
pub(crate) fn release(folder: &Path) -> Result<()> {
    for mount in under(folder)? {
        match umount2(&mount, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
            // Another unmount removed this one too.
            Ok(()) | Err(nix::errno::Errno::EINVAL | nix::errno::Errno::ENOENT) => {}
            Err(error) => return Err(Error::at(&mount, format!("cannot unmount: {error}"))),
        }
    }
    Ok(())
}

/// Parses a mount table, with the mount point in the fifth field.
fn parse(table: &str, folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|path| PathBuf::from(plain(path)))
        .filter(|path| path.starts_with(folder))
        .collect();
    // The last mount is on top.
    found.reverse();
    found.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    found
}

/// Decodes a path from a mount table, in which octal codes replace space, tab, newline and backslash.
fn plain(path: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(path.to_owned(), |path, (code, character)| {
            path.replace(code, character)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_the_folder_are_listed_deepest_first() {
        let table = "22 1 0:5 / /s/a rw - tmpfs tmpfs rw\n\
                     23 1 0:6 / /s/a/b rw shared:1 - tmpfs tmpfs rw\n\
                     24 1 0:7 / /s/ab rw - tmpfs tmpfs rw\n\
                     25 1 0:8 / /s/a/with\\040space/c rw - tmpfs tmpfs rw\n\
                     26 1 0:8 / /elsewhere/s/a rw - tmpfs tmpfs rw\n";
        let found = parse(table, Path::new("/s/a"));
        let expected: Vec<PathBuf> = ["/s/a/with space/c", "/s/a/b", "/s/a"].map(PathBuf::from).into();
        assert_eq!(found, expected);
    }

    #[test]
    fn missing_folder_has_no_mounts() {
        assert_eq!(under(Path::new("/no/such/folder")), Ok(vec![]));
    }
}

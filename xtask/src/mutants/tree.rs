//! A copy of the workspace that `cargo-mutants` may change. The copy is retained between runs, so that the next run
//! builds little.

use crate::workspace::entries;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// Folders that are not copied: build output, history, and Node packages.
const LEFT_OUT: [&str; 3] = ["target", ".git", "node_modules"];

/// Copies changed files, and deletes files that exist only in `to`. The modification time of unchanged files
/// stays the same, so cargo does not build these files again.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    let wanted = names(from)?;
    for name in names(to)?.difference(&wanted) {
        let path = to.join(name);
        remove(&path).with_context(|| path.display().to_string())?;
    }
    for name in wanted {
        let (source, copied) = (from.join(&name), to.join(&name));
        if source.is_dir() {
            copy(&source, &copied)?;
        } else {
            file(&source, &copied)?;
        }
    }
    Ok(())
}

fn file(source: &Path, copied: &Path) -> Result<()> {
    let bytes = fs::read(source).with_context(|| source.display().to_string())?;
    // The executable flag is the only retained attribute.
    let allowed = |path| fs::metadata(path).map(|metadata| metadata.permissions());
    let same_mark = matches!((allowed(source), allowed(copied)), (Ok(one), Ok(other)) if one == other);
    if same_mark && fs::read(copied).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::copy(source, copied)
        .map(drop)
        .with_context(|| copied.display().to_string())
}

fn remove(path: &Path) -> std::io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

fn names(folder: &Path) -> Result<BTreeSet<OsString>> {
    let paths = entries(folder)?.into_iter();
    let names = paths.filter_map(|path| Some(path.file_name()?.to_owned()));
    Ok(names
        .filter(|name| !LEFT_OUT.iter().any(|left_out| name == *left_out))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn copy_follows_its_source_and_retains_unchanged_files() {
        let scratch = Workspace::load().unwrap().scratch("xtask-tests/tree").unwrap();
        let _ = fs::remove_dir_all(&scratch);
        let (from, to) = (scratch.join("from"), scratch.join("to"));
        fs::create_dir_all(from.join("a/target")).unwrap();
        fs::write(from.join("a/target/output"), "1").unwrap();
        fs::write(from.join("a/kept"), "1").unwrap();
        fs::write(from.join("a/changed"), "1").unwrap();
        fs::write(from.join("gone"), "1").unwrap();
        copy(&from, &to).unwrap();
        assert!(!to.join("a/target").exists());
        let time = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        let modified = time("a/kept");
        fs::write(to.join("a/changed"), "a mutant").unwrap();
        fs::create_dir_all(to.join("extra/folder")).unwrap();
        fs::remove_file(from.join("gone")).unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("a/changed")).unwrap(), "1");
        assert!(!to.join("gone").exists() && !to.join("extra").exists());
        assert_eq!(time("a/kept"), modified);
    }
}

//! Control groups of a cluster's pods.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::{create_dir, remove_if_present};

const TREE: &str = "/sys/fs/cgroup";

/// Creates the group at the root of every cgroup hierarchy, as the kubelet requires.
pub(crate) fn create(name: &str) -> Result<()> {
    for top in tops(Path::new(TREE)) {
        create_dir(&top.join(name))?;
    }
    Ok(())
}

/// Removes the group and its child groups, after killing their processes.
pub(crate) fn remove(name: &str) -> Result<()> {
    for top in tops(Path::new(TREE)) {
        prune(&top.join(name))?;
    }
    Ok(())
}

/// Returns the roots of the hierarchies: one for cgroup v2, and one per controller for cgroup v1.
fn tops(tree: &Path) -> Vec<PathBuf> {
    if tree.join("cgroup.controllers").exists() {
        return vec![tree.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(tree) else {
        return Vec::new();
    };
    let folders = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders
        .map(|entry| entry.path())
        .filter(|path| path.join("cgroup.procs").exists())
        .collect()
}

fn prune(group: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(group) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::at(group, error)),
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            prune(&entry.path())?;
        }
    }
    // A process that has just ended may still be counted.
    crate::command::until(
        "the control group is empty",
        std::time::Duration::from_secs(10),
        || {
            end_members(group);
            remove_if_present(group, |path| std::fs::remove_dir(path)).map_err(|error| error.to_string())
        },
    )
}

fn end_members(group: &Path) {
    let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let pids = members.lines().filter_map(|line| line.parse::<i32>().ok());
    for pid in pids.filter(|pid| *pid > 1) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cgroup_versions_are_detected() {
        let tree = std::env::temp_dir().join(format!("testbed-cgroups-{}", std::process::id()));
        for controller in ["cpu", "memory"] {
            std::fs::create_dir_all(tree.join(controller)).unwrap();
            std::fs::write(tree.join(controller).join("cgroup.procs"), "").unwrap();
        }
        std::fs::create_dir_all(tree.join("no-controller")).unwrap();
        let mut found = tops(&tree);
        found.sort();
        assert_eq!(found, [tree.join("cpu"), tree.join("memory")]);
        std::fs::write(tree.join("cgroup.controllers"), "cpu memory").unwrap();
        assert_eq!(tops(&tree), std::slice::from_ref(&tree));
        std::fs::remove_dir_all(&tree).unwrap();
    }
}

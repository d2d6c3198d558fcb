//! Removal of a complete or partial cluster. Missing resources are ignored.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::command::Run;
use crate::component::Component;
use crate::error::Result;
use crate::layout::Layout;
use crate::processes::{self, ProcessId};
use crate::{cgroups, files, mounts, network};

/// Kills all processes in reverse start order, and releases the resources of the machine.
pub(super) fn run(layout: &Layout) -> Result<()> {
    for component in layout.tier.components().iter().rev() {
        if let Some(process) = ProcessId::read(&layout.pid(*component)) {
            process.stop(Duration::ZERO)?;
        }
    }
    for process in strays(layout) {
        process.stop(Duration::ZERO)?;
    }
    let leavings = leavings(layout);
    let volumes = volumes(layout);
    mounts::release(&layout.dir)?;
    mounts::release(&layout.run_dir())?;
    cgroups::remove(&layout.netns)?;
    network::delete(layout)?;
    for path in leavings {
        files::remove_if_present(&path, |path| std::fs::remove_file(path))?;
    }
    for path in volumes {
        files::remove_if_present(&path, |path| std::fs::remove_dir_all(path))?;
    }
    files::remove(layout)
}

/// Returns the folders of the remaining containers.
fn containers(layout: &Layout) -> Vec<PathBuf> {
    let tasks = layout
        .run_dir()
        .join("containerd/io.containerd.runtime.v2.task/k8s.io");
    let entries = std::fs::read_dir(tasks).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns files of the node's programs outside of the state folder: sockets of containerd shims, state of
/// network plugins, and links to logs.
fn leavings(layout: &Layout) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for container in containers(layout) {
        let socket = std::fs::read_to_string(container.join("address")).unwrap_or_default();
        found.extend(socket.trim().strip_prefix("unix://").map(PathBuf::from));
        let number = container.file_name().unwrap_or_default().to_string_lossy();
        found.push(format!("/var/lib/cni/results/cni-loopback-{number}-lo").into());
    }
    let network = format!("{}-", layout.netns);
    found.extend(listed("/var/lib/cni/results").filter(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&network))
    }));
    found.extend(
        listed("/var/log/containers")
            .filter(|path| std::fs::read_link(path).is_ok_and(|target| target.starts_with(&layout.dir))),
    );
    found
}

/// Returns the folders of this cluster's persistent volumes. Reads their names from the etcd database,
/// because the API server no longer runs.
fn volumes(layout: &Layout) -> BTreeSet<PathBuf> {
    let store = layout.data(Component::Etcd).join("member");
    let files = ["snap", "wal"].map(|folder| store.join(folder));
    let files = files
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .flatten();
    files
        .filter_map(|file| std::fs::read(file.path()).ok())
        .flat_map(|bytes| named(&bytes))
        .collect()
}

fn named(bytes: &[u8]) -> Vec<PathBuf> {
    // A UUID of 36 characters follows.
    const FOLDER: &[u8] = b"/tmp/hostpath_pv/";
    let starts = bytes
        .windows(FOLDER.len())
        .enumerate()
        .filter(|(_, window)| *window == FOLDER);
    starts
        .filter_map(|(at, _)| bytes.get(at..at + FOLDER.len() + 36))
        .filter_map(|path| std::str::from_utf8(path).ok())
        .filter(|path| {
            path.rsplit('/')
                .next()
                .is_some_and(|uuid| uuid.chars().all(|c| c.is_ascii_hexdigit() || c == '-'))
        })
        .map(PathBuf::from)
        .collect()
}

fn listed(folder: &str) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// Returns the processes in the cluster's network namespace, and their descendants.
fn strays(layout: &Layout) -> Vec<ProcessId> {
    if !network::exists(&layout.netns) {
        return Vec::new();
    }
    let listed = Run::new("ip")
        .args(["netns", "pids", &layout.netns])
        .stdout()
        .unwrap_or_default();
    let roots: Vec<i32> = listed
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect();
    let children = roots.iter().flat_map(|pid| processes::descendants(*pid));
    roots
        .iter()
        .filter_map(|pid| ProcessId::from_pid(*pid))
        .chain(children)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_is_found_in_database_of_the_store() {
        let uuid = "01234567-89ab-cdef-0123-456789abcdef";
        let text =
            format!("\0x/tmp/hostpath_pv/{uuid}\x12/tmp/hostpath_pv/../../../etc/passwd-0123-456789abcde");
        assert_eq!(
            named(text.as_bytes()),
            [PathBuf::from(format!("/tmp/hostpath_pv/{uuid}"))]
        );
        assert!(named(b"/tmp/hostpath_pv/short").is_empty());
    }
}

//! Taking a cluster away, whole or half-made: whatever is not there is no error.

use std::path::PathBuf;
use std::time::Duration;

use crate::command::Run;
use crate::error::Result;
use crate::layout::Layout;
use crate::processes::{self, Known};
use crate::{cgroups, files, mounts, network};

/// Ends what runs, in reverse order of its start, and gives back what was lent from the machine.
///
/// Everything is ended by force: its state is deleted, so there is nothing it could save.
pub(super) fn run(layout: &Layout) -> Result<()> {
    for component in layout.tier.components().iter().rev() {
        if let Some(known) = Known::read(&layout.pid(*component)) {
            known.stop(Duration::ZERO)?;
        }
    }
    for process in strays(layout) {
        process.stop(Duration::ZERO)?;
    }
    let leavings = leavings(layout);
    mounts::release(&layout.dir)?;
    mounts::release(&layout.run_dir())?;
    cgroups::remove(&layout.netns)?;
    network::delete(layout)?;
    for path in leavings {
        files::gone(&path, |path| std::fs::remove_file(path))?;
    }
    files::remove(layout)
}

/// The folders of the containers that were not taken down one by one, each named by its number.
fn containers(layout: &Layout) -> Vec<PathBuf> {
    let tasks = layout
        .run_dir()
        .join("containerd/io.containerd.runtime.v2.task/k8s.io");
    let entries = std::fs::read_dir(tasks).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// What the node's programs leave in folders that they let nobody choose: the sockets of containerd's shims, what
/// network plugins noted, links to logs.
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

fn listed(folder: &str) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// Whatever else lives in the cluster's namespace, and its children in namespaces of their own.
fn strays(layout: &Layout) -> Vec<Known> {
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
        .filter_map(|pid| Known::of(*pid))
        .chain(children)
        .collect()
}

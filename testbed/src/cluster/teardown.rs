//! Taking a cluster away, whole or half-made: whatever is not there is no error.

use std::time::Duration;

use crate::command::Run;
use crate::error::Result;
use crate::layout::Layout;
use crate::processes::{self, Known};
use crate::{files, mounts, network};

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
    mounts::release(&layout.dir)?;
    mounts::release(&layout.run_dir())?;
    network::delete(layout)?;
    files::remove(layout)
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

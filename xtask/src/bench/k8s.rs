//! Figures of the Kubernetes backend: leases on a real API server, capacity of thousands of nodes.

use testbed::{Component, Tier};

use crate::cluster;
use crate::error::{Error, Result};
use crate::figures::{self, Figure};
use crate::process::Process;
use crate::tiers;
use crate::workspace::Workspace;

/// Both benches, each on an API server that is thrown away afterwards.
pub(super) fn figures(workspace: &Workspace) -> Result<Vec<Figure>> {
    if let Some(obstacle) = testbed::obstacle() {
        return Err(Error::new(format!("no cluster can come up: {obstacle}")));
    }
    // Built first: an idle cluster is no use to a compiler.
    bench(workspace)
        .args(["--bench", "cluster", "--bench", "inventory", "--no-run"])
        .run()?;
    let api = |name: &str| cluster::options(workspace, Tier::Api, name, None);
    let mut found = tiers::with_cluster(&api("bench"), |cluster| {
        let leases = bench(workspace).args(["--bench", "cluster", "--", "--kubeconfig"]);
        found_in(leases.args([cluster.kubeconfig()]))
    })?;
    found.extend(tiers::with_cluster(&api("bench-scale"), |cluster| {
        // They would take nodes without a kubelet for lost, and end the pods on them.
        cluster.pause(Component::ControllerManager)?;
        let capacity = bench(workspace).args(["--bench", "inventory", "--", "--fill", "--kubeconfig"]);
        found_in(capacity.args([cluster.kubeconfig()]))
    })?);
    Ok(found)
}

fn bench(workspace: &Workspace) -> Process {
    workspace.cargo(&["bench", "--locked", "-p", "akash-provider-k8s"])
}

fn found_in(bench: Process) -> Result<Vec<Figure>> {
    let lines = bench.lines()?;
    Ok(figures::find(lines.iter().map(String::as_str)))
}

//! Figures of the Kubernetes backend: leases on a real API server, and the capacity of a cluster with
//! thousands of nodes.

use anyhow::Result;
use testbed::{Component, Tier};

use crate::figures::Figure;
use crate::process::Process;
use crate::tiers;
use crate::workspace::Workspace;

/// Runs both benchmarks, each on a temporary API server.
pub(super) fn measure(workspace: &Workspace, found: &mut Vec<Figure>) -> Result<()> {
    super::expect_cluster()?;
    // Build before the cluster starts, because an idle cluster would take CPU time from the compiler.
    bench(workspace)
        .args(["--bench", "cluster", "--bench", "inventory", "--no-run"])
        .run()?;
    let api = |name: &str| tiers::options(workspace, Tier::Api, name, None);
    tiers::with_cluster(&api("bench"), |cluster| {
        let leases = bench(workspace).args(["--bench", "cluster", "--", "--kubeconfig"]);
        super::collect(leases.args([cluster.kubeconfig()]), found)
    })?;
    tiers::with_cluster(&api("bench-scale"), |cluster| {
        // The controllers would treat nodes without a kubelet as lost, and delete their pods.
        cluster.pause(Component::ControllerManager)?;
        let capacity = bench(workspace).args(["--bench", "inventory", "--", "--fill", "--kubeconfig"]);
        super::collect(capacity.args([cluster.kubeconfig()]), found)
    })
}

fn bench(workspace: &Workspace) -> Process {
    workspace.cargo(&["bench", "--locked", "-p", "akash-provider-k8s"])
}

//! Figures of the Kubernetes backend: leases on a real API server, capacity of thousands of nodes.

use testbed::{Component, Tier};

use crate::cluster;
use crate::error::{Error, Result};
use crate::figures::Figure;
use crate::process::Process;
use crate::tiers;
use crate::workspace::Workspace;

/// Both benches, each on an API server that is thrown away afterwards.
pub(super) fn measure(workspace: &Workspace, found: &mut Vec<Figure>) -> Result<()> {
    if let Some(obstacle) = testbed::obstacle() {
        return Err(Error::new(format!("no cluster can come up: {obstacle}")));
    }
    // Built first: an idle cluster is no use to a compiler.
    bench(workspace)
        .args(["--bench", "cluster", "--bench", "inventory", "--no-run"])
        .run()?;
    let api = |name: &str| cluster::options(workspace, Tier::Api, name, None);
    tiers::with_cluster(&api("bench"), |cluster| {
        let leases = bench(workspace).args(["--bench", "cluster", "--", "--kubeconfig"]);
        super::collect(leases.args([cluster.kubeconfig()]), found)
    })?;
    tiers::with_cluster(&api("bench-scale"), |cluster| {
        // They would take nodes without a kubelet for lost, and end the pods on them.
        cluster.pause(Component::ControllerManager)?;
        let capacity = bench(workspace).args(["--bench", "inventory", "--", "--fill", "--kubeconfig"]);
        super::collect(capacity.args([cluster.kubeconfig()]), found)
    })
}

fn bench(workspace: &Workspace) -> Process {
    workspace.cargo(&["bench", "--locked", "-p", "akash-provider-k8s"])
}

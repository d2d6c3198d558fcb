//! Figures of the operators: the release build on a large cluster, measured by `testbed/operator-bench`.

use anyhow::Result;
use testbed::{Component, Tier};

use crate::figures::Figure;
use crate::process::Process;
use crate::tiers;
use crate::workspace::Workspace;

pub(super) fn measure(workspace: &Workspace, found: &mut Vec<Figure>) -> Result<()> {
    super::expect_cluster()?;
    // One build, so that common dependencies are built once, and before the cluster starts, because an idle
    // cluster would take CPU time from the compiler.
    let both = ["-p", "provider-daemon", "-p", "operator-bench"];
    workspace
        .cargo(&["build", "--locked", "--release"])
        .args(both)
        .run()?;
    let scratch = workspace.scratch("operator-bench")?;
    let options = tiers::options(workspace, Tier::Api, "bench-operators", None);
    tiers::with_cluster(&options, |cluster| {
        // The controllers would treat nodes without a kubelet as lost, and delete their pods.
        cluster.pause(Component::ControllerManager)?;
        let bench = Process::new(workspace.released("operator-bench"), &workspace.root)
            .args(["--kubeconfig".as_ref(), cluster.kubeconfig().as_os_str()])
            .args([
                "--program".as_ref(),
                workspace.released("provider-daemon").as_os_str(),
            ])
            .args(["--scratch".as_ref(), scratch.as_os_str()]);
        super::collect(bench, found)
    })
}

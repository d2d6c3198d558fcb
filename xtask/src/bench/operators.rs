//! Figures of the operators: the released program on a large cluster, measured by `testbed/operator-bench`.

use testbed::{Component, Tier};

use crate::cluster;
use crate::error::{Error, Result};
use crate::figures::Figure;
use crate::process::Process;
use crate::tiers;
use crate::workspace::Workspace;

/// All of them, on one API server that is thrown away afterwards.
pub(super) fn measure(workspace: &Workspace, found: &mut Vec<Figure>) -> Result<()> {
    if let Some(obstacle) = testbed::obstacle() {
        return Err(Error::new(format!("no cluster can come up: {obstacle}")));
    }
    // In one build, so that what they share is built once; and first: an idle cluster is no use to a compiler.
    let both = ["-p", "provider-daemon", "-p", "operator-bench"];
    workspace
        .cargo(&["build", "--locked", "--release"])
        .args(both)
        .run()?;
    let scratch = workspace.scratch("operator-bench")?;
    let options = cluster::options(workspace, Tier::Api, "bench-operators", None);
    tiers::with_cluster(&options, |cluster| {
        // They would take nodes without a kubelet for lost, and end the pods on them.
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

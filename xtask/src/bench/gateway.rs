//! Figures of the gateway: a daemon on memory backends, with the load generator in another process.

use crate::error::Result;
use crate::figures::Figure;
use crate::workspace::Workspace;

/// Runs the benchmarks in sequence.
pub(super) fn measure(workspace: &Workspace, found: &mut Vec<Figure>) -> Result<()> {
    let bench = workspace.cargo(&[
        "bench",
        "--locked",
        "-p",
        "akash-provider-gateway",
        "--bench",
        "gateway",
    ]);
    super::collect(bench, found)
}

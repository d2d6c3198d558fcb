//! Figures of the gateway: a daemon on backends in memory, and its load in another process.

use crate::error::Result;
use crate::figures::Figure;
use crate::workspace::Workspace;

/// All of them, one after the other.
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

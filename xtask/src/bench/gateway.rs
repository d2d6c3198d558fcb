//! Figures of the gateway: a daemon on backends in memory, and its load in another process.

use crate::error::Result;
use crate::figures::{self, Figure};
use crate::workspace::Workspace;

/// All of them, one after the other.
pub(super) fn figures(workspace: &Workspace) -> Result<Vec<Figure>> {
    let bench = workspace.cargo(&[
        "bench",
        "--locked",
        "-p",
        "akash-provider-gateway",
        "--bench",
        "gateway",
    ]);
    let lines = bench.lines()?;
    Ok(figures::find(lines.iter().map(String::as_str)))
}

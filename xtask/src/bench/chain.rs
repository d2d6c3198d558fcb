//! Figures of the chain client: signing by itself, the rest before a development network.

use crate::error::Result;
use crate::figures::{self, Figure};
use crate::workspace::Workspace;

/// Both benches.
pub(super) fn figures(workspace: &Workspace) -> Result<Vec<Figure>> {
    let mut found = Vec::new();
    for (package, bench) in [("akash-provider-chain", "sign"), ("provider-daemon", "chain")] {
        let bench = workspace.cargo(&["bench", "--locked", "-p", package, "--bench", bench]);
        let lines = bench.lines()?;
        found.extend(figures::find(lines.iter().map(String::as_str)));
    }
    Ok(found)
}

//! Figures of the chain client: signing, and requests to a development network.

use crate::error::Result;
use crate::figures::Figure;
use crate::workspace::Workspace;

pub(super) fn measure(workspace: &Workspace, found: &mut Vec<Figure>) -> Result<()> {
    for (package, bench) in [("akash-provider-chain", "sign"), ("provider-daemon", "chain")] {
        let bench = workspace.cargo(&["bench", "--locked", "-p", package, "--bench", bench]);
        super::collect(bench, found)?;
    }
    Ok(())
}

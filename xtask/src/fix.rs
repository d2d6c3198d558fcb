//! `cargo xtask fix`: writes what `verify` would complain about and a program can mend.

use crate::error::Result;
use crate::prose::lower_limit;
use crate::verify::write_weights;
use crate::workspace::Workspace;

/// Formats, applies clippy's machine-applicable mends, formats again, writes what dependencies weigh,
/// and records a lower score of the prose.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    workspace.cargo(&["fmt", "--all"]).run()?;
    let dirty = ["--allow-dirty", "--allow-staged"];
    workspace
        .cargo(&[
            "clippy",
            "--fix",
            "--workspace",
            "--all-targets",
            "--all-features",
        ])
        .args(dirty)
        .run()?;
    workspace.cargo(&["fmt", "--all"]).run()?;
    write_weights(workspace)?;
    lower_limit(workspace)
}

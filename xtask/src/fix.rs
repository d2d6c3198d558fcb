//! `cargo xtask fix`: fixes findings of `verify` that a program can fix.

use crate::docs::write_messages;
use crate::prose::lower_limit;
use crate::verify::write_weights;
use crate::workspace::Workspace;
use anyhow::Result;

/// Formats the code and applies clippy's suggestions. Then updates the weights in docs/dependencies.md, the
/// table of log messages, and the limit of the prose score.
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
    write_messages(workspace)?;
    lower_limit(workspace)
}

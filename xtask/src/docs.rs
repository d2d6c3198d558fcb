//! `cargo xtask docs`: builds the documentation without warnings, runs its code and checks its links.

mod links;

use crate::error::Result;
use crate::report::Notes;
use crate::tally;
use crate::workspace::Workspace;

pub(crate) use links::run as links;

/// Builds the documentation, runs its code and checks its links.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    links(workspace)?;
    build(workspace)?;
    examples(workspace).map(drop)
}

/// Builds all documentation, including private items, with warnings as errors.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    workspace
        .cargo(&[
            "doc",
            "--locked",
            "--workspace",
            "--no-deps",
            "--all-features",
            "--document-private-items",
        ])
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}

/// Runs the code in the documentation.
pub(crate) fn examples(workspace: &Workspace) -> Result<Notes> {
    tally::run(
        "doctests",
        workspace.cargo(&["test", "--locked", "--workspace", "--all-features", "--doc"]),
    )
}

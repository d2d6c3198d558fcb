//! `cargo xtask docs`: the documentation builds without a warning, its code runs, its links lead somewhere.

mod links;

use crate::error::Result;
use crate::report::Notes;
use crate::tally;
use crate::workspace::Workspace;

pub(crate) use links::run as links;

/// Builds the documentation, runs the code in it and follows its links.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    links(workspace)?;
    build(workspace)?;
    examples(workspace).map(drop)
}

/// Builds the documentation of everything, private items included, with warnings denied.
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

//! `cargo xtask docs`: builds the documentation without warnings, runs the code examples in it and checks its
//! links.

mod links;
mod messages;

use crate::report::Notes;
use crate::tally;
use crate::workspace::Workspace;
use anyhow::Result;

pub(crate) use links::run as links;
pub(crate) use messages::{verify as verify_messages, write as write_messages};

/// Options of `cargo xtask docs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only writes the table of log messages in docs/log-messages.md, and checks nothing
    #[arg(long)]
    write: bool,
}

/// Checks links and the table of log messages, builds the documentation, and runs the examples of the
/// documentation. With `--write`, only writes the table.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if args.write {
        return write_messages(workspace);
    }
    links(workspace)?;
    verify_messages(workspace)?;
    build(workspace)?;
    examples(workspace).map(drop)
}

/// Builds all documentation, including private items. A warning fails the build.
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

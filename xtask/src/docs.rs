//! `cargo xtask docs`: builds the documentation without warnings, runs the code examples in it and checks its
//! links.

mod links;
mod messages;

use crate::report::Notes;
use crate::tally;
use crate::verify::Extent;
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
    build(workspace, Extent::Full)?;
    examples(workspace).map(drop)
}

/// Builds the documentation, including private items. A warning fails the build. The quick check omits the development
/// tools.
pub(crate) fn build(workspace: &Workspace, extent: Extent) -> Result<()> {
    let excluded: Vec<&str> = match extent {
        Extent::Full => Vec::new(),
        Extent::Quick => workspace
            .tools()
            .flat_map(|tool| ["--exclude", &tool.name])
            .collect(),
    };
    workspace
        .cargo(&[
            "doc",
            "--locked",
            "--workspace",
            "--no-deps",
            "--all-features",
            "--document-private-items",
        ])
        .args(excluded)
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

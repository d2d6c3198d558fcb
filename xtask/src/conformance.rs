//! `cargo xtask conformance`: runs the conformance suites of the core's interface traits (ports) with every
//! implementation: backends, wrappers and examples.
//!
//! The tests of a suite have `conformance` in their names.

use crate::tally;
use crate::workspace::Workspace;
use anyhow::Result;

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let tests = workspace
        .cargo(&[
            "test",
            "--locked",
            "--workspace",
            "--all-features",
            "--lib",
            "--bins",
            "--tests",
        ])
        .args(["conformance", "--", "--show-output"]);
    tally::run("conformance", tests).map(drop)
}

//! `cargo xtask conformance`: the suites of the ports, against every backend, wrapper and example that has them.
//!
//! A suite's tests carry `conformance` in their names; that is how they are found.

use crate::error::Result;
use crate::tally;
use crate::workspace::Workspace;

/// Runs the suites.
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

//! `cargo xtask conformance`: the suites of the ports, against every backend, wrapper and example that has them.
//!
//! A suite's tests carry `conformance` in their names; that is how they are found.

use crate::error::Result;
use crate::report::Notes;
use crate::tally;
use crate::workspace::Workspace;

/// Runs the suites.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    suites(workspace).map(drop)
}

/// Runs the suites; what was skipped is returned.
pub(crate) fn suites(workspace: &Workspace) -> Result<Notes> {
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
    tally::run("conformance", tests)
}

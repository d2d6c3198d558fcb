//! Figures of the operation of a provider: tests with the release build and a development network.

use crate::error::Result;
use crate::figures::Figure;
use crate::workspace::Workspace;

/// Number of leases of the measured provider.
const LEASES: &str = "1000";

/// Runs the measuring tests in sequence.
pub(super) fn measure(workspace: &Workspace, found: &mut Vec<Figure>) -> Result<()> {
    workspace
        .cargo(&["build", "--locked", "--release", "-p", "provider-daemon"])
        .run()?;
    let scrapes = workspace
        .cargo(&["test", "--locked", "-p", "provider-daemon", "--all-features"])
        .args(["--test", "integration", "--", "--exact", "--nocapture"])
        .args(["run::metrics_figures::measures_cost_of_a_scrape"])
        .env("FIGURES_LEASES", LEASES)
        .env("MEASURED_PROGRAM", workspace.released("provider-daemon"));
    super::collect(scrapes, found)
}

//! Figures of the operation of a provider: tests with the program of `cargo xtask dist` and a development network, and a bench of the
//! order history.

use crate::dist;
use crate::figures::Figure;
use crate::workspace::Workspace;
use anyhow::Result;

/// Number of leases of the measured provider.
const LEASES: &str = "1000";
/// Duration for which the provider is idle, in seconds.
const IDLE: &str = "60";

/// Runs the benchmarks in sequence.
pub(super) fn measure(workspace: &Workspace, found: &mut Vec<Figure>) -> Result<()> {
    // The shipped program is measured.
    let program = dist::daemon(workspace)?;
    found.push(Figure::new("binary_mib", dist::mebibytes(&program)?, "MiB"));
    let tests = workspace
        .cargo(&["test", "--locked", "-p", "provider-daemon", "--all-features"])
        .args(["--test", "integration", "--", "--nocapture", "--test-threads=1"])
        .args(["run::metrics_figures::"])
        .env("FIGURES_LEASES", LEASES)
        .env("FIGURES_SECONDS", IDLE)
        .env("MEASURED_PROGRAM", &program);
    super::collect(tests, found)?;
    super::bench(workspace, "akash-provider-service", "history", found)
}

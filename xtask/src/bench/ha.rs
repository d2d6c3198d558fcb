//! Figures of high availability: a bench of the bus crate, tests of recordings with the release build, and a
//! test of fail-overs in the API tier, which can start two daemons.

use anyhow::Result;
use testbed::Tier;

use crate::figures::Figure;
use crate::tiers;
use crate::workspace::Workspace;

pub(super) fn measure(workspace: &Workspace, found: &mut Vec<Figure>) -> Result<()> {
    super::expect_cluster()?;
    // Build before the cluster starts, because an idle cluster would take CPU time from the compiler.
    workspace
        .cargo(&["build", "--locked", "--release", "-p", "provider-daemon"])
        .run()?;
    let test = |target: &str| {
        workspace
            .cargo(&["test", "--locked", "-p", "provider-daemon", "--all-features"])
            .args(["--test", target])
    };
    for target in ["integration", "api_tier"] {
        test(target).args(["--no-run"]).run()?;
    }
    super::bench(workspace, "akash-provider-redis", "bus", found)?;
    let program = workspace.released("provider-daemon");
    let recorded = test("integration")
        .args(["--", "--nocapture", "--test-threads=1"])
        .args(["run::flight_figures::"])
        .env("FIGURES_SECONDS", "40")
        .env("MEASURED_PROGRAM", &program);
    super::collect(recorded, found)?;
    let options = tiers::options(workspace, Tier::Api, "bench-ha", None);
    tiers::with_cluster(&options, |cluster| {
        let measured = test("api_tier")
            .args(["--", "--exact", "--nocapture"])
            .args(["ha_figures::figures_of_takeovers_and_of_leases"])
            .env("FIGURES_SECONDS", "40")
            .env(tiers::VARIABLE, cluster.dir())
            .env("MEASURED_PROGRAM", &program);
        super::collect(measured, found)
    })
}

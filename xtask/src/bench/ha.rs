//! Figures of several instances: the released program on an API server, measured by an ignored test of its api tier, which
//! has all that is needed for two daemons.

use testbed::Tier;

use crate::cluster;
use crate::error::{Error, Result};
use crate::figures::{self, Figure};
use crate::tiers;
use crate::workspace::Workspace;

/// All of them, on one API server that is thrown away afterwards.
pub(super) fn figures(workspace: &Workspace) -> Result<Vec<Figure>> {
    if let Some(obstacle) = testbed::obstacle() {
        return Err(Error::new(format!("no cluster can come up: {obstacle}")));
    }
    // Built first: an idle cluster is no use to a compiler.
    workspace
        .cargo(&["build", "--locked", "--release", "-p", "provider-daemon"])
        .run()?;
    let test = || {
        workspace
            .cargo(&["test", "--locked", "-p", "provider-daemon", "--all-features"])
            .args(["--test", "api_tier"])
    };
    test().args(["--no-run"]).run()?;
    let options = cluster::options(workspace, Tier::Api, "bench-ha", None);
    tiers::with_cluster(&options, |cluster| {
        let measured = test()
            .args(["--", "--ignored", "--exact", "--nocapture"])
            .args(["ha_figures::figures_of_takeovers_and_of_a_thousand_leases"])
            .env(tiers::VARIABLE, cluster.dir())
            .env("MEASURED_PROGRAM", workspace.released("provider-daemon"));
        let lines = measured.lines()?;
        Ok(figures::find(lines.iter().map(String::as_str)))
    })
}

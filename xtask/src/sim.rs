//! `cargo xtask sim`: whole histories of a provider, each from a seed, in release; `cargo xtask test` runs a few of them
//! in a form that is built sooner.
//!
//! The simulation is the test binary `simulation` of the core. It is told what to do by environment
//! variables: `SIM_SEED` (the first), `SIM_SEEDS` (how many from there), `SIM_THREADS`, `SIM_LOG_DIR`
//! (where the event log of a failure goes) or `SIM_REPLAY` (an event log to run again). It prints
//! figures, among them `sim_histories`: how many it ran.

use clap::Args as Arguments;

use crate::error::{Error, Result};
use crate::figures::{self, Figure};
use crate::process::Process;
use crate::workspace::Workspace;

/// Which histories.
#[derive(Debug, Arguments)]
pub(crate) struct Args {
    /// How many seeds.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// How the core is compiled for its histories and its exploration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// As it is shipped and measured: for many histories.
    Released,
    /// Optimised a little, on the dependencies that all tests were built with, and with checks of overflow: for few
    /// histories, which take less time than a build in release.
    Quick,
}

impl Form {
    /// The command that builds and runs tests of the core.
    pub(crate) const fn command(self) -> &'static [&'static str] {
        match self {
            Self::Released => &[
                "test",
                "--locked",
                "-p",
                "akash-provider-core",
                "--release",
                "--features",
                "conformance",
            ],
            Self::Quick => &[
                "test",
                "--locked",
                "--workspace",
                "--all-features",
                "--config",
                "profile.dev.package.akash-provider-core.opt-level=1",
            ],
        }
    }
}

/// Runs the seeds and prints the figures.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    seeds(workspace, Form::Released, args).map(drop)
}

/// Runs the seeds and returns the figures.
///
/// # Errors
/// When a history breaks a rule, and when fewer histories ran than were asked for.
pub(crate) fn seeds(workspace: &Workspace, form: Form, args: &Args) -> Result<Vec<Figure>> {
    let logs = workspace.scratch("sim")?;
    let lines = simulation(workspace, form)
        .env("SIM_SEED", args.seed.to_string())
        .env("SIM_SEEDS", args.seeds.to_string())
        // Two: what the smallest machine we promise times for has.
        .env("SIM_THREADS", "2")
        .env("SIM_LOG_DIR", logs)
        .follow()?;
    let figures = figures::find(lines.iter().map(String::as_str));
    expect_histories(&figures, "sim_histories", args.seeds)?;
    Ok(figures)
}

/// The simulation, ready to be told what to run.
pub(crate) fn simulation(workspace: &Workspace, form: Form) -> Process {
    workspace
        .cargo(form.command())
        .args(["--test", "simulation", "--", "--nocapture"])
}

/// Runs a thousand histories that are written down and done again from what was written.
///
/// # Errors
/// When one of them is not done again as it was, and when fewer ran.
pub(crate) fn tapes(workspace: &Workspace, seed: u64) -> Result<()> {
    const TAPES: u64 = 1_000;
    let lines = simulation(workspace, Form::Released)
        .args(["what_was_recorded_of_a_history_gives_the_same_effects"])
        .env("SIM_SEED", seed.to_string())
        .env("SIM_TAPES", TAPES.to_string())
        .env("SIM_THREADS", "2")
        .env("SIM_LOG_DIR", workspace.scratch("sim")?)
        .follow()?;
    let figures = figures::find(lines.iter().map(String::as_str));
    expect_histories(&figures, "sim_taped_histories", TAPES)
}

/// Builds the exploration and the simulation without running them.
pub(crate) fn build(workspace: &Workspace, form: Form) -> Result<()> {
    workspace
        .cargo(form.command())
        .args(["--test", "simulation", "--test", "explore", "--no-run"])
        .run()
}

fn expect_histories(figures: &[Figure], name: &str, wanted: u64) -> Result<()> {
    let ran = figures
        .iter()
        .find(|figure| figure.name == name)
        .map(|figure| figure.value);
    #[expect(clippy::cast_precision_loss, reason = "nobody runs 2^53 seeds")]
    let enough = ran.is_some_and(|ran| ran >= wanted as f64);
    if enough {
        return Ok(());
    }
    Err(Error::new(format!(
        "simulation: {wanted} histories were asked for, {} ran",
        ran.unwrap_or(0.0)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_that_ran_too_little_is_a_failure() {
        let ran = |value| [Figure::new("sim_histories", value, "histories")];
        assert_eq!(expect_histories(&ran(20.0), "sim_histories", 20), Ok(()));
        assert!(expect_histories(&ran(19.0), "sim_histories", 20).is_err());
        assert!(expect_histories(&[], "sim_histories", 20).is_err());
    }
}

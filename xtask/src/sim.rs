//! `cargo xtask sim`: simulates complete histories of a provider from seeds, in a release build. `cargo xtask
//! test` runs some of them in a build that compiles faster.
//!
//! The simulation is the test binary `simulation` of the core. Environment variables control it: `SIM_SEED`
//! (first seed), `SIM_SEEDS` (number of seeds), `SIM_THREADS`, `SIM_LOG_DIR` (folder for event logs of
//! failures), `SIM_TAPES` (number of seeds that are also recorded by a flight recorder and replayed) or
//! `SIM_REPLAY` (event log to repeat). It prints figures, among them `sim_histories`, the number
//! of executed histories.

use anyhow::{Result, ensure};
use clap::Args as Arguments;

use crate::figures::{self, Figure};
use crate::process::Process;
use crate::workspace::Workspace;

/// Seeds to simulate.
#[derive(Debug, Arguments)]
pub(crate) struct Args {
    /// Number of seeds
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Build profile of the core for the simulation and the exploration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// Release build, for many histories.
    Released,
    /// Slightly optimized build with overflow checks, for few histories.
    Quick,
}

impl Form {
    /// Returns the cargo arguments for tests of the core.
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

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    seeds(workspace, Form::Released, args).map(drop)
}

/// Runs the seeds and returns the figures.
///
/// # Errors
/// Fails if a history violates a rule, or if too few histories ran.
pub(crate) fn seeds(workspace: &Workspace, form: Form, args: &Args) -> Result<Vec<Figure>> {
    let logs = workspace.scratch("sim")?;
    let lines = simulation(workspace, form)
        .env("SIM_SEED", args.seed.to_string())
        .env("SIM_SEEDS", args.seeds.to_string())
        // Two threads: the cores of the smallest machine with documented times.
        .env("SIM_THREADS", "2")
        .env("SIM_LOG_DIR", logs)
        .follow()?;
    let figures = figures::find(lines.iter().map(String::as_str));
    expect_histories(&figures, "sim_histories", args.seeds)?;
    Ok(figures)
}

pub(crate) fn simulation(workspace: &Workspace, form: Form) -> Process {
    workspace
        .cargo(form.command())
        .args(["--test", "simulation", "--", "--nocapture"])
}

/// Records a thousand histories and replays them.
///
/// # Errors
/// Fails if a replay differs, or if too few histories ran.
pub(crate) fn tapes(workspace: &Workspace, seed: u64) -> Result<()> {
    const TAPES: u64 = 1_000;
    let lines = simulation(workspace, Form::Released)
        .args(["recorded_history_replays_to_same_effects"])
        .env("SIM_SEED", seed.to_string())
        .env("SIM_TAPES", TAPES.to_string())
        .env("SIM_THREADS", "2")
        .env("SIM_LOG_DIR", workspace.scratch("sim")?)
        .follow()?;
    let figures = figures::find(lines.iter().map(String::as_str));
    expect_histories(&figures, "sim_taped_histories", TAPES)
}

/// Builds the exploration and the simulation.
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
    #[expect(clippy::cast_precision_loss, reason = "the number of seeds is below 2^53")]
    let enough = ran.is_some_and(|ran| ran >= wanted as f64);
    ensure!(
        enough,
        "simulation: {wanted} histories requested, {} ran",
        ran.unwrap_or(0.0)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_simulation_is_a_failure() {
        let ran = |value| [Figure::new("sim_histories", value, "histories")];
        expect_histories(&ran(20.0), "sim_histories", 20).unwrap();
        assert!(expect_histories(&ran(19.0), "sim_histories", 20).is_err());
        assert!(expect_histories(&[], "sim_histories", 20).is_err());
    }
}

//! `cargo xtask replay FILE`: repeats a failed history from its event log below `target/sim`.

use anyhow::{Context, Result};
use std::path::PathBuf;

use clap::Args as Arguments;

use crate::sim;
use crate::workspace::Workspace;

/// Arguments of `cargo xtask replay`.
#[derive(Debug, Arguments)]
pub(crate) struct Args {
    /// Event log of a failed history, below `target/sim`
    file: PathBuf,
}

/// Repeats the simulation that an event log recorded, and prints its events.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    // The simulation runs in the folder of the core, so a relative path would name another file.
    let file = args
        .file
        .canonicalize()
        .with_context(|| format!("cannot read event log {}", args.file.display()))?;
    sim::simulation(workspace, sim::Form::Released)
        .env("SIM_REPLAY", file)
        .run()
}

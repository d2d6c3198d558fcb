//! `cargo xtask replay FILE`: a failed history once more, from the event log it left under `target/sim`.

use std::path::PathBuf;

use clap::Args as Arguments;

use crate::error::{Error, Result};
use crate::sim;
use crate::workspace::Workspace;

/// Which history.
#[derive(Debug, Arguments)]
pub(crate) struct Args {
    /// The event log.
    file: PathBuf,
}

/// Runs it; the simulation prints what it does.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    // The simulation runs in the core's folder, so a relative path would mean another file there.
    let file = args
        .file
        .canonicalize()
        .map_err(|error| Error::new(format!("event log {}: {error}", args.file.display())))?;
    sim::simulation(workspace, sim::Form::Released)
        .env("SIM_REPLAY", file)
        .run()
}

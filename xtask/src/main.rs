//! Development commands of this workspace, one file each; `cargo xtask help` lists them.
//!
//! Continuous integration runs `cargo xtask test` and nothing else, so a person at a desk and the
//! build machine always run the same checks.

mod alone;
mod bench;
mod campaign;
mod cluster;
mod conformance;
mod crds;
mod docs;
mod error;
mod figures;
mod fix;
#[cfg(test)]
mod forms;
mod fuzz;
mod layers;
mod mutants;
mod process;
mod prose;
mod replay;
mod report;
mod sim;
mod suites;
mod survey;
mod tally;
mod test;
mod tiers;
mod verify;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Result;
use crate::workspace::Workspace;

/// Development commands of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The gate: every check that needs no test run; writes nothing outside the target folder.
    Verify,
    /// Formats the code and applies the mends that clippy knows.
    Fix,
    /// The test command: verify, all tests, exploration, simulation, examples and the daemon on real SDL files.
    Test,
    /// Simulates whole histories from seeds; a failing seed prints how to run it again.
    Sim(sim::Args),
    /// Runs the event log of a failed simulation again.
    Replay(replay::Args),
    /// Speed and size figures, in release; informs and never judges by time.
    Bench(bench::Args),
    /// The shape of the code in numbers: lines, public items, comments, who names the fields of big structs.
    Figures,
    /// Which crate may depend on which, and what the core must never pull in.
    Layers,
    /// Checks every crate by itself, and the core with each of its features.
    Alone,
    /// Lists the words of the prose that have a plainer replacement, and the score.
    Prose(prose::Args),
    /// Builds the documentation with warnings denied, runs its code, follows its links.
    Docs,
    /// A long run, for nights and releases.
    Campaign(campaign::Args),
    /// The suites that every backend of a port passes.
    Conformance,
    /// A real Kubernetes for tests: brings it up, shows it, breaks parts of it, takes it down.
    Cluster(cluster::Args),
    /// Writes the definitions of our Kubernetes kinds, deploy/crds, from their types.
    Crds,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    let workspace = Workspace::load()?;
    match command {
        Command::Verify => verify::run(&workspace),
        Command::Fix => fix::run(&workspace),
        Command::Test => test::run(&workspace),
        Command::Sim(args) => sim::run(&workspace, &args),
        Command::Replay(args) => replay::run(&workspace, &args),
        Command::Bench(args) => bench::run(&workspace, &args),
        Command::Figures => survey::run(&workspace),
        Command::Layers => layers::run(&workspace),
        Command::Alone => alone::run(&workspace),
        Command::Prose(args) => prose::run(&workspace, &args),
        Command::Docs => docs::run(&workspace),
        Command::Campaign(args) => campaign::run(&workspace, &args),
        Command::Conformance => conformance::run(&workspace),
        Command::Cluster(args) => cluster::run(&workspace, &args),
        Command::Crds => crds::run(&workspace),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_can_be_given() {
        Cli::command().debug_assert();
    }
}

//! Development commands of this workspace, one per file. `cargo xtask help` lists them.
//!
//! Continuous integration runs only `cargo xtask test`, so developers and CI always run the same checks.

mod alone;
mod bench;
mod campaign;
mod cluster;
mod conformance;
mod crds;
mod dist;
mod docs;
mod error;
mod failures;
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
mod version;
mod workspace;

use anyhow::Result;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Development commands of this workspace
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs every check that needs no test run; writes only to the target folder
    Verify,
    /// Formats the code and applies fixes of clippy
    Fix,
    /// Runs verify, all tests, exploration, simulation, examples, and the daemon on SDL files
    Test,
    /// Simulates complete histories from seeds; a failed seed prints the command that repeats it
    Sim(sim::Args),
    /// Repeats a failed simulation from its event log
    Replay(replay::Args),
    /// Measures speed and size of release builds; a slow result is not a failure
    Bench(bench::Args),
    /// Prints statistics of the code: lines, public items, comments, and files that use fields of large
    /// structs
    Figures,
    /// Checks that crates depend only on permitted crates, and that the core has no banned dependency
    Layers,
    /// Checks every crate separately, and the core with each of its features
    Alone,
    /// Lists each use of a term to avoid, with its location and a plainer replacement, and prints the score
    Prose(prose::Args),
    /// Builds the documentation with warnings as errors, runs its code, checks its links
    Docs(docs::Args),
    /// Runs one long test, for example at night or before a release
    Campaign(campaign::Args),
    /// Runs the conformance suites of all backends
    Conformance,
    /// Starts, shows, disturbs and stops Kubernetes clusters for tests
    Cluster(cluster::Args),
    /// Writes the CustomResourceDefinitions in deploy/crds from the Rust types
    Crds,
    /// Builds the files of a release: archives with static programs, Debian packages, bills of materials, charts
    Dist(dist::DistArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
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
        Command::Alone => alone::run(&workspace, verify::Extent::Full),
        Command::Prose(args) => prose::run(&workspace, &args),
        Command::Docs(args) => docs::run(&workspace, &args),
        Command::Campaign(args) => campaign::run(&workspace, &args),
        Command::Conformance => conformance::run(&workspace),
        Command::Cluster(args) => cluster::run(&workspace, &args),
        Command::Crds => crds::run(&workspace),
        Command::Dist(args) => dist::run(&workspace, &args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_is_parsed() {
        Cli::command().debug_assert();
    }
}

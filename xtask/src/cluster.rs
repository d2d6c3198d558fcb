//! `cargo xtask cluster`: a real Kubernetes for tests, from the crate `testbed`.

use std::path::{Path, PathBuf};

use clap::{Args as Arguments, Subcommand, ValueEnum};
use testbed::{Cluster, Component, Options, Tier};

use crate::error::{Error, Result};
use crate::tiers;
use crate::workspace::Workspace;

/// What to do with a cluster.
#[derive(Debug, Arguments)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Brings a cluster up; one that is up and healthy is only shown.
    Up {
        #[command(flatten)]
        which: Which,
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Takes it down: processes, containers, mounts, network. The logs stay.
    Down(Which),
    /// Shows its parts; fails when one is not healthy.
    Status {
        #[command(flatten)]
        which: Which,
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Ends a component without a warning.
    Kill(Part),
    /// Starts a component that ended.
    Start(Part),
    /// Stops a component in its tracks.
    Pause(Part),
    /// Lets a paused component go on.
    Resume(Part),
    /// Checks that a tier holds what it promises, on a cluster of its own, which is taken down again.
    Check {
        /// How much of a Kubernetes: api, node or scale.
        #[arg(long, value_parser = str::parse::<Tier>)]
        tier: Tier,
    },
    /// Runs the tests of a tier as the test command does: on a cluster of their own, which is taken down again.
    Test {
        /// How much of a Kubernetes: api or node.
        #[arg(long, value_parser = str::parse::<Tier>)]
        tier: Tier,
    },
    /// Builds the programs of the tiers; what is built already is kept.
    Build {
        /// The tiers; all of them when none is named.
        #[arg(long, value_parser = str::parse::<Tier>)]
        tier: Vec<Tier>,
    },
}

/// Which cluster.
#[derive(Debug, Arguments)]
struct Which {
    /// How much of a Kubernetes: api, node or scale; without it, and without a name or a folder, the cluster that is
    /// up.
    #[arg(long, value_parser = str::parse::<Tier>)]
    tier: Option<Tier>,
    /// Its name, when several stand side by side; the tier's without it.
    #[arg(long)]
    name: Option<String>,
    /// Its state folder; `target/cluster/NAME` without it.
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Debug, Arguments)]
struct Part {
    #[command(flatten)]
    which: Which,
    /// The component, as `status` names it.
    #[arg(value_parser = str::parse::<Component>)]
    component: Component,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Output {
    /// For people: one line each.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Does it.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    match &args.action {
        Action::Up { which, output } => show(&up(workspace, which)?, *output),
        Action::Down(which) => match which.dir(workspace) {
            Some(dir) => down(&dir),
            None => Ok(which.find(workspace)?.down()?),
        },
        Action::Status { which, output } => show(&which.find(workspace)?, *output),
        Action::Kill(part) => Ok(part.which.find(workspace)?.kill(part.component)?),
        Action::Start(part) => Ok(part.which.find(workspace)?.start(part.component)?),
        Action::Pause(part) => Ok(part.which.find(workspace)?.pause(part.component)?),
        Action::Resume(part) => Ok(part.which.find(workspace)?.resume(part.component)?),
        Action::Check { tier } => {
            for line in testbed::check(&options(workspace, *tier, "check", None))? {
                println!("{line}");
            }
            Ok(())
        }
        Action::Test { tier } => tiers::run(workspace, *tier),
        Action::Build { tier } => {
            let tiers = if tier.is_empty() {
                &Tier::ALL
            } else {
                tier.as_slice()
            };
            println!("{}", testbed::build(tiers)?.display());
            Ok(())
        }
    }
}

fn up(workspace: &Workspace, which: &Which) -> Result<Cluster> {
    let tier = which
        .tier
        .ok_or_else(|| Error::new("say with --tier how much of a Kubernetes: api, node or scale"))?;
    let name = which.name.as_deref().unwrap_or_else(|| tier.as_str());
    Ok(Cluster::up(&options(
        workspace,
        tier,
        name,
        which.dir.as_deref(),
    ))?)
}

fn down(dir: &Path) -> Result<()> {
    match Cluster::at(dir)? {
        Some(cluster) => Ok(cluster.down()?),
        None => {
            println!("no cluster came up in {}", dir.display());
            Ok(())
        }
    }
}

/// A cluster with the custom resources of this checkout.
pub(crate) fn options(workspace: &Workspace, tier: Tier, name: &str, dir: Option<&Path>) -> Options {
    Options {
        tier,
        name: name.to_owned(),
        dir: dir.map_or_else(|| default_dir(&workspace.target, name), Path::to_owned),
        crds: workspace.root.join("deploy").join("crds"),
    }
}

fn show(cluster: &Cluster, output: Output) -> Result<()> {
    let status = cluster.status();
    match output {
        Output::Text => print!("{status}"),
        Output::Json => {
            let json =
                serde_json::to_string_pretty(&status).map_err(|error| Error::new(error.to_string()))?;
            println!("{json}");
        }
    }
    if status.is_healthy() {
        return Ok(());
    }
    Err(Error::new("the cluster is not healthy"))
}

impl Which {
    /// Its state folder, where that is said.
    fn dir(&self, workspace: &Workspace) -> Option<PathBuf> {
        if let Some(dir) = &self.dir {
            return Some(dir.clone());
        }
        let name = self
            .name
            .as_deref()
            .or_else(|| self.tier.map(|tier| tier.as_str()))?;
        Some(default_dir(&workspace.target, name))
    }

    fn find(&self, workspace: &Workspace) -> Result<Cluster> {
        let Some(dir) = self.dir(workspace) else {
            let folder = workspace.target.join("cluster");
            return the_one(&folder, all(&folder)?);
        };
        let told = |what: String| Error::new(format!("{}: {what}", dir.display()));
        let cluster = Cluster::at(&dir)?.ok_or_else(|| told("no cluster came up there".to_owned()))?;
        match self.tier {
            Some(tier) if cluster.tier() != tier => {
                Err(told(format!("its tier is {}, not {tier}", cluster.tier())))
            }
            _ => Ok(cluster),
        }
    }
}

/// The clusters that are up in a folder of state folders, with the names of these.
fn all(folder: &Path) -> Result<Vec<(String, Cluster)>> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        if let Some(cluster) = Cluster::at(&entry.path())? {
            found.push((entry.file_name().to_string_lossy().into_owned(), cluster));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// The only one that was found.
fn the_one<T>(folder: &Path, mut found: Vec<(String, T)>) -> Result<T> {
    let told = |what: &str| Error::new(format!("{}: {what}", folder.display()));
    if found.len() > 1 {
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        return Err(told(&format!(
            "several clusters are up: {}; name one with --name",
            names.join(", ")
        )));
    }
    match found.pop() {
        Some((_, cluster)) => Ok(cluster),
        None => Err(told(
            "no cluster is up; `cargo xtask cluster up --tier api` brings one up",
        )),
    }
}

fn default_dir(target: &Path, name: &str) -> PathBuf {
    target.join("cluster").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_that_is_up_needs_no_name_and_several_do() {
        let folder = Path::new("target/cluster");
        let found = |names: &[&'static str]| names.iter().map(|name| ((*name).to_owned(), *name)).collect();
        assert_eq!(the_one(folder, found(&["api"])).unwrap(), "api");
        let none = the_one(folder, found(&[])).unwrap_err().to_string();
        assert!(none.contains("no cluster is up"), "{none}");
        let several = the_one(folder, found(&["api", "node"])).unwrap_err().to_string();
        assert!(several.contains("api, node; name one with --name"), "{several}");
        assert!(all(Path::new("/no/such/folder")).unwrap().is_empty());
    }
}

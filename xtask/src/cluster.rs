//! `cargo xtask cluster`: manages Kubernetes clusters for tests, from the crate `testbed`.

use anyhow::{Context, Result, anyhow, ensure};
use std::path::{Path, PathBuf};

use clap::{Args as Arguments, Subcommand, ValueEnum};
use testbed::{Component, Testbed, Tier};

use crate::tiers::{self, default_dir, options};
use crate::workspace::Workspace;

/// Arguments of `cargo xtask cluster`.
#[derive(Debug, Arguments)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Starts a cluster, or shows the running cluster if it is healthy
    Up {
        #[command(flatten)]
        which: ClusterSelection,
        #[arg(long, value_enum, default_value_t)]
        output: OutputFormat,
    },
    /// Stops the processes, containers, mounts and network of a cluster, and keeps the logs
    Down(ClusterSelection),
    /// Shows the components; fails if one is not healthy
    Status {
        #[command(flatten)]
        which: ClusterSelection,
        #[arg(long, value_enum, default_value_t)]
        output: OutputFormat,
    },
    /// Kills a component without warning
    Kill(ComponentArgs),
    /// Starts a stopped component
    Start(ComponentArgs),
    /// Suspends a component
    Pause(ComponentArgs),
    /// Resumes a suspended component
    Resume(ComponentArgs),
    /// Tests a tier of the testbed on a temporary cluster
    Check {
        /// Tier: api, node or scale
        #[arg(long, value_parser = str::parse::<Tier>)]
        tier: Tier,
    },
    /// Runs the tests of a tier on temporary clusters, like the test command
    Test {
        /// Tier: api or node
        #[arg(long, value_parser = str::parse::<Tier>)]
        tier: Tier,
    },
    /// Builds the missing programs of the tiers
    Build {
        /// Tiers whose programs are built [default: all]
        #[arg(long, value_parser = str::parse::<Tier>)]
        tier: Vec<Tier>,
    },
}

/// Selection of a cluster.
#[derive(Debug, Arguments)]
struct ClusterSelection {
    /// Tier of the cluster: api, node or scale [default: tier of the only running cluster; `up` has no
    /// default]
    #[arg(long, value_parser = str::parse::<Tier>)]
    tier: Option<Tier>,
    /// Name of the cluster, if several clusters run [default: the name of the tier]
    #[arg(long)]
    name: Option<String>,
    /// State folder of the cluster [default: target/cluster/NAME]
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Debug, Arguments)]
struct ComponentArgs {
    #[command(flatten)]
    which: ClusterSelection,
    /// Component, as named by `status`
    #[arg(value_parser = str::parse::<Component>)]
    component: Component,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum OutputFormat {
    /// One line per value
    #[default]
    Text,
    /// JSON
    Json,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    match &args.action {
        ClusterCommand::Up { which, output } => show(&up(workspace, which)?, *output),
        ClusterCommand::Down(which) => match which.dir(workspace) {
            Some(dir) => down(&dir),
            None => Ok(which.find(workspace)?.down()?),
        },
        ClusterCommand::Status { which, output } => show(&which.find(workspace)?, *output),
        ClusterCommand::Kill(part) => Ok(part.which.find(workspace)?.kill(part.component)?),
        ClusterCommand::Start(part) => Ok(part.which.find(workspace)?.start(part.component)?),
        ClusterCommand::Pause(part) => Ok(part.which.find(workspace)?.pause(part.component)?),
        ClusterCommand::Resume(part) => Ok(part.which.find(workspace)?.resume(part.component)?),
        ClusterCommand::Check { tier } => {
            for line in testbed::check(&options(workspace, *tier, "check", None))? {
                println!("{line}");
            }
            Ok(())
        }
        ClusterCommand::Test { tier } => tiers::run(workspace, *tier),
        ClusterCommand::Build { tier } => {
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

fn up(workspace: &Workspace, which: &ClusterSelection) -> Result<Testbed> {
    let tier = which.tier.context("missing --tier: api, node or scale")?;
    let name = which.name.as_deref().unwrap_or_else(|| tier.as_str());
    Ok(Testbed::up(&options(
        workspace,
        tier,
        name,
        which.dir.as_deref(),
    ))?)
}

fn down(dir: &Path) -> Result<()> {
    match Testbed::at(dir)? {
        Some(cluster) => Ok(cluster.down()?),
        None => {
            println!("nothing to remove: no cluster was started in {}", dir.display());
            Ok(())
        }
    }
}

fn show(cluster: &Testbed, output: OutputFormat) -> Result<()> {
    let status = cluster.status();
    match output {
        OutputFormat::Text => print!("{status}"),
        OutputFormat::Json => {
            println!("{}", serde_json::to_string_pretty(&status)?);
        }
    }
    ensure!(status.is_healthy(), "the cluster is not healthy");
    Ok(())
}

impl ClusterSelection {
    /// Returns the state folder from the flags, if any.
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

    fn find(&self, workspace: &Workspace) -> Result<Testbed> {
        let Some(dir) = self.dir(workspace) else {
            let folder = workspace.target.join("cluster");
            return exactly_one(&folder, all(&folder)?);
        };
        let error = |what: String| anyhow!("{}: {what}", dir.display());
        let cluster = Testbed::at(&dir)?.ok_or_else(|| error("no cluster was started there".to_owned()))?;
        match self.tier {
            Some(tier) if cluster.tier() != tier => {
                Err(error(format!("the tier is {}, not {tier}", cluster.tier())))
            }
            _ => Ok(cluster),
        }
    }
}

/// Returns the clusters in a folder, with the names of their state folders.
fn all(folder: &Path) -> Result<Vec<(String, Testbed)>> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        if let Some(cluster) = Testbed::at(&entry.path())? {
            found.push((entry.file_name().to_string_lossy().into_owned(), cluster));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Returns the only element of `found`, or an error for none or several.
fn exactly_one<T>(folder: &Path, mut found: Vec<(String, T)>) -> Result<T> {
    let error = |what: &str| anyhow!("{}: {what}", folder.display());
    if found.len() > 1 {
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        return Err(error(&format!(
            "several clusters run: {}; select one with --name",
            names.join(", ")
        )));
    }
    match found.pop() {
        Some((_, cluster)) => Ok(cluster),
        None => Err(error(
            "no cluster runs; `cargo xtask cluster up --tier api` starts one",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_running_cluster_needs_no_name() {
        let folder = Path::new("target/cluster");
        let found = |names: &[&'static str]| names.iter().map(|name| ((*name).to_owned(), *name)).collect();
        assert_eq!(exactly_one(folder, found(&["api"])).unwrap(), "api");
        let none = exactly_one(folder, found(&[])).unwrap_err().to_string();
        assert!(none.contains("no cluster runs"), "{none}");
        let several = exactly_one(folder, found(&["api", "node"]))
            .unwrap_err()
            .to_string();
        assert!(several.contains("api, node; select one with --name"), "{several}");
        assert!(all(Path::new("/no/such/folder")).unwrap().is_empty());
    }
}

//! How a test finds the cluster that runs for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Cluster, Hold};
use crate::error::{Error, Result};
use crate::tier::Tier;

/// The state folder of the cluster to use, or of several that are alike.
const VARIABLE: &str = "AKASH_TESTBED_DIR";
/// Between two looks for a cluster that nobody holds.
const PAUSE: Duration = Duration::from_millis(50);

impl Cluster {
    /// The cluster that `AKASH_TESTBED_DIR` names, or else one that `cargo xtask cluster up` left running in
    /// this checkout. Where there is none with all that `wanted` asks for, prints `skipped: ` and why. Waits while
    /// another test holds it off to break parts of it.
    ///
    /// # Errors
    /// When the variable names a folder without a healthy cluster of that tier: who names one means it.
    pub fn from_env(wanted: Tier) -> Result<Option<Self>> {
        if let Some(dir) = dirs().first() {
            return named(dir, wanted).map(Some);
        }
        for dir in candidates() {
            if let Some(cluster) = Self::at(&dir)?
                && cluster.tier().holds(wanted)
                && is_well(&cluster)
            {
                return Ok(Some(cluster));
            }
        }
        println!(
            "skipped: no cluster of tier {wanted} runs; `cargo xtask cluster up --tier {wanted}` starts one"
        );
        Ok(None)
    }

    /// As [`Self::from_env`], held off from everybody else. Where `AKASH_TESTBED_DIR` names several clusters (in the
    /// way of `PATH`) it is the last that nobody holds, so that tests which need one to themselves go side by side.
    ///
    /// # Errors
    /// As [`Self::from_env`], and when a state folder cannot be written.
    pub fn exclusive_from_env(wanted: Tier) -> Result<Option<(Self, Hold)>> {
        let dirs = dirs();
        if dirs.len() < 2 {
            let Some(cluster) = Self::from_env(wanted)? else {
                return Ok(None);
            };
            let hold = cluster.exclusive()?;
            return Ok(Some((cluster, hold)));
        }
        loop {
            // The first is where all others are.
            for dir in dirs.iter().rev() {
                let cluster = of_tier(dir, wanted)?;
                if let Some(hold) = cluster.try_exclusive()? {
                    return well(dir, cluster).map(|cluster| Some((cluster, hold)));
                }
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// The folders that are named.
fn dirs() -> Vec<PathBuf> {
    let named = std::env::var_os(VARIABLE);
    named.iter().flat_map(std::env::split_paths).collect()
}

/// A cluster that went away while it was looked at is not well.
fn is_well(cluster: &Cluster) -> bool {
    let hold = cluster.shared();
    let well = cluster.status().is_healthy();
    hold.is_ok() && well
}

fn named(dir: &Path, wanted: Tier) -> Result<Cluster> {
    let cluster = of_tier(dir, wanted)?;
    // Another test may be breaking it at this moment, and mends it before it lets go.
    let _together = cluster.shared()?;
    well(dir, cluster)
}

fn of_tier(dir: &Path, wanted: Tier) -> Result<Cluster> {
    let cluster = Cluster::at(dir)?.ok_or_else(|| told(dir, "no cluster came up there"))?;
    if cluster.tier().holds(wanted) {
        return Ok(cluster);
    }
    let what = format!("its tier is {}, wanted is {wanted}", cluster.tier());
    Err(told(dir, &what))
}

fn well(dir: &Path, cluster: Cluster) -> Result<Cluster> {
    let status = cluster.status();
    if status.is_healthy() {
        return Ok(cluster);
    }
    Err(told(dir, &format!("it is not healthy:\n{status}")))
}

fn told(dir: &Path, what: &str) -> Error {
    Error::new(format!("{VARIABLE}={}: {what}", dir.display()))
}

/// The folders of this checkout's clusters, those that hold most first.
fn candidates() -> Vec<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/cluster");
    let Ok(entries) = std::fs::read_dir(target) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_folder_without_a_cluster_is_an_error() {
        let error = named(Path::new("/no/such/folder"), Tier::Api)
            .unwrap_err()
            .to_string();
        assert!(error.contains("AKASH_TESTBED_DIR=/no/such/folder"), "{error}");
    }
}

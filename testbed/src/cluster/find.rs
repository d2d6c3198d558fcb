//! Discovery of the cluster for a test.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{ClusterLock, Testbed};
use crate::error::{Error, Result};
use crate::tier::Tier;

/// Environment variable with the state folders of one or more clusters.
const VARIABLE: &str = "AKASH_TESTBED_DIR";
/// Interval between two searches for an unused cluster.
const PAUSE: Duration = Duration::from_millis(50);

impl Testbed {
    /// Returns the cluster of `AKASH_TESTBED_DIR`, or a cluster of this checkout. Without a suitable cluster,
    /// prints `skipped: ` with the reason and returns `None`. Waits while another test has exclusive access.
    ///
    /// # Errors
    /// Fails if the variable is set to a folder without a healthy cluster of the tier.
    pub fn from_env(wanted: Tier) -> Result<Option<Self>> {
        if let Some(dir) = dirs().first() {
            return named(dir, wanted).map(Some);
        }
        for dir in candidates() {
            if let Some(cluster) = Self::at(&dir)?
                && cluster.tier().holds(wanted)
                && is_healthy(&cluster)
            {
                return Ok(Some(cluster));
            }
        }
        println!(
            "skipped: no cluster of tier {wanted} runs; `cargo xtask cluster up --tier {wanted}` starts one"
        );
        Ok(None)
    }

    /// Returns a cluster with exclusive access. If `AKASH_TESTBED_DIR` lists several clusters (separated as
    /// in `PATH`), selects the last unused cluster in the list.
    ///
    /// # Errors
    /// Returns the errors of [`Self::from_env`]. Also fails if a state folder cannot be written.
    pub fn exclusive_from_env(wanted: Tier) -> Result<Option<(Self, ClusterLock)>> {
        let dirs = dirs();
        if dirs.len() < 2 {
            let Some(cluster) = Self::from_env(wanted)? else {
                return Ok(None);
            };
            let hold = cluster.exclusive()?;
            return Ok(Some((cluster, hold)));
        }
        loop {
            // Shared tests use the first cluster.
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

/// Returns the folders listed in the environment variable.
fn dirs() -> Vec<PathBuf> {
    let named = std::env::var_os(VARIABLE);
    named.iter().flat_map(std::env::split_paths).collect()
}

/// Returns true if the cluster is healthy and not being removed.
fn is_healthy(cluster: &Testbed) -> bool {
    let hold = cluster.shared();
    let well = cluster.status().is_healthy();
    hold.is_ok() && well
}

fn named(dir: &Path, wanted: Tier) -> Result<Testbed> {
    let cluster = of_tier(dir, wanted)?;
    // Wait for a test with exclusive access, which restores the cluster before it ends.
    let _together = cluster.shared()?;
    well(dir, cluster)
}

fn of_tier(dir: &Path, wanted: Tier) -> Result<Testbed> {
    let cluster = Testbed::at(dir)?.ok_or_else(|| error_at(dir, "no cluster was started in this folder"))?;
    if cluster.tier().holds(wanted) {
        return Ok(cluster);
    }
    let what = format!("the tier is {}, expected {wanted}", cluster.tier());
    Err(error_at(dir, &what))
}

fn well(dir: &Path, cluster: Testbed) -> Result<Testbed> {
    let status = cluster.status();
    if status.is_healthy() {
        return Ok(cluster);
    }
    Err(error_at(dir, &format!("the cluster is not healthy:\n{status}")))
}

fn error_at(dir: &Path, what: &str) -> Error {
    Error::new(format!("{VARIABLE}={}: {what}", dir.display()))
}

/// Returns the state folders of this checkout's clusters, sorted.
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
    fn configured_folder_without_cluster_is_an_error() {
        let error = named(Path::new("/no/such/folder"), Tier::Api)
            .unwrap_err()
            .to_string();
        assert!(error.contains("AKASH_TESTBED_DIR=/no/such/folder"), "{error}");
    }
}

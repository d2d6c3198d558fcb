//! How a test finds the cluster that runs for it.

use std::path::{Path, PathBuf};

use super::Cluster;
use crate::error::{Error, Result};
use crate::tier::Tier;

/// The state folder of the cluster to use.
const VARIABLE: &str = "AKASH_TESTBED_DIR";

impl Cluster {
    /// The cluster that `AKASH_TESTBED_DIR` names, or else one that `cargo xtask cluster up` left running in
    /// this checkout. Where there is none with all that `wanted` asks for, prints `skipped: ` and why. Waits while
    /// another test holds it off to break parts of it.
    ///
    /// # Errors
    /// When the variable names a folder without a healthy cluster of that tier: who names one means it.
    pub fn from_env(wanted: Tier) -> Result<Option<Self>> {
        if let Some(dir) = std::env::var_os(VARIABLE) {
            return named(Path::new(&dir), wanted).map(Some);
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
}

/// A cluster that went away while it was looked at is not well.
fn is_well(cluster: &Cluster) -> bool {
    let hold = cluster.shared();
    let well = cluster.status().is_healthy();
    hold.is_ok() && well
}

fn named(dir: &Path, wanted: Tier) -> Result<Cluster> {
    let told = |what: &str| Error::new(format!("{VARIABLE}={}: {what}", dir.display()));
    let cluster = Cluster::at(dir)?.ok_or_else(|| told("no cluster came up there"))?;
    if !cluster.tier().holds(wanted) {
        return Err(told(&format!(
            "its tier is {}, wanted is {wanted}",
            cluster.tier()
        )));
    }
    // Another test may be breaking it at this moment, and mends it before it lets go.
    let hold = cluster.shared()?;
    let status = cluster.status();
    drop(hold);
    if status.is_healthy() {
        return Ok(cluster);
    }
    Err(told(&format!("it is not healthy:\n{status}")))
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

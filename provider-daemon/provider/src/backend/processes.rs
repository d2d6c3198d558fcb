//! Leases as processes of the local machine.

use crate::args::ClusterArgs;
use akash_provider_core::cluster::Cluster;
use akash_provider_core::inventory::node_inventory::MemoryInventorySource;
use akash_provider_core::inventory::{InventoryUpdate, NodeInventory};
use akash_provider_devnet::keys::cache;
use akash_provider_process::{Images, ProcessCluster};
use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) const NOTICE: &str = "services run as processes of this machine with the rights of your user: each \
     service runs its command and args with its env; no image is pulled, and nothing is isolated or limited. Clients of \
     the gateway can run programs here. For a global port such as 8080, a service must listen on the unused port of \
     localhost that it receives as PORT_8080 and that lease-status reports";
/// Part of a directory name. With a state file, the name is `STATE_FILE.processes`, otherwise
/// `processes-PID-TIME`.
const BESIDE: &str = "processes";

/// Cluster that runs workloads as local processes.
#[derive(Debug)]
pub struct Processes {
    pub(super) cluster: ProcessCluster,
    pub(super) inventory: Arc<MemoryInventorySource>,
    folder: PathBuf,
    is_stored: bool,
}

impl Processes {
    /// Opens the cluster. With a state file, the previous processes start again; otherwise the cluster is
    /// empty.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be created or read.
    pub async fn open(hardware: &ClusterArgs, state: Option<&Path>) -> anyhow::Result<Self> {
        let folder = match state {
            Some(state) => beside(state),
            None => own_folder()?,
        };
        let what = || format!("cannot open the directory of the processes, {}", folder.display());
        let cluster = ProcessCluster::open(&folder, Images::new())
            .await
            .with_context(what)?;
        let inventory = Arc::new(MemoryInventorySource::new());
        inventory.push(InventoryUpdate {
            inventory: Arc::new(NodeInventory::new(&hardware.spec())),
            placements: Vec::new(),
            leased_ips: None,
        });
        Ok(Self {
            cluster,
            inventory,
            folder,
            is_stored: state.is_some(),
        })
    }

    /// Stops all processes, and removes the directory unless a state file is used.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be removed.
    pub async fn close(&self) -> anyhow::Result<()> {
        self.cluster.close().await;
        if self.is_stored {
            return Ok(());
        }
        fs::remove_dir_all(&self.folder).with_context(|| format!("cannot remove {}", self.folder.display()))
    }

    /// Returns the remaining objects of leases, one line each.
    ///
    /// # Errors
    /// Never returns an error. The return type is the same for all cluster backends.
    pub async fn leftovers(&self) -> anyhow::Result<Vec<String>> {
        let there = self.cluster.deployments().await?;
        let recorded = there.deployments.iter();
        let recorded = recorded.map(|record| format!("workload {}", record.lease));
        let unusable = there
            .unusable
            .iter()
            .map(|record| format!("record {}", record.name));
        Ok(recorded.chain(unusable).collect())
    }
}

fn beside(state: &Path) -> PathBuf {
    let mut name = state.as_os_str().to_owned();
    name.push(".");
    name.push(BESIDE);
    name.into()
}

/// Returns a directory for this run only.
fn own_folder() -> anyhow::Result<PathBuf> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let name = format!("{BESIDE}-{}-{}", std::process::id(), since.as_millis());
    Ok(cache("dev")?.join(name))
}

//! Leases of the embedded market as processes of this machine.

use super::names;
use crate::args::{ClusterArgs, DevArgs};
use akash_provider_core::cluster::Cluster;
use akash_provider_core::inventory::node_inventory::MemoryInventorySource;
use akash_provider_core::inventory::{InventoryUpdate, NodeInventory};
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_devnet::keys::cache;
use akash_provider_process::{Images, ProcessCluster};
use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What people would take for more than it is, or for less.
pub(super) const NOTICE: &str = "services run as processes of this machine, with your rights: what runs is a service's \
     command and args with its env; no image is pulled, and nothing is isolated or limited. Whoever reaches the gateway \
     can run programs here. A port exposed to all, 8080 say, is a free one at localhost: lease-status says which, and \
     the service is told as PORT_8080";
/// What ends the name of the folder beside a state file.
const BESIDE: &str = "processes";

/// Processes, and the hardware they are said to have.
#[derive(Debug)]
pub struct Processes {
    pub(super) cluster: ProcessCluster,
    pub(super) inventory: Arc<MemoryInventorySource>,
    folder: PathBuf,
    is_kept: bool,
}

impl Processes {
    /// Opens the cluster: beside the state file, where there is one, with what ran there; else an empty one.
    ///
    /// # Errors
    /// Its folder cannot be made or read.
    pub async fn open(hardware: &ClusterArgs, state: Option<&Path>) -> anyhow::Result<Self> {
        let folder = match state {
            Some(state) => beside(state),
            None => own_folder()?,
        };
        let what = || format!("the processes of {}", folder.display());
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
            is_kept: state.is_some(),
        })
    }

    /// Ends what runs. Its folder goes where no state is kept.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub async fn close(&self) -> anyhow::Result<()> {
        self.cluster.close().await;
        if self.is_kept {
            return Ok(());
        }
        fs::remove_dir_all(&self.folder).with_context(|| format!("removing {}", self.folder.display()))
    }

    /// What is there of leases, one line each.
    ///
    /// # Errors
    /// Never, in practice: it is known without asking anybody.
    pub async fn leftovers(&self) -> anyhow::Result<Vec<String>> {
        let there = self.cluster.deployments().await?;
        let recorded = there.deployments.iter();
        let recorded = recorded.map(|kept| format!("workload {}", kept.lease));
        let unusable = there.unusable.iter().map(|kept| format!("record {}", kept.name));
        Ok(recorded.chain(unusable).collect())
    }
}

fn beside(state: &Path) -> PathBuf {
    let mut name = state.as_os_str().to_owned();
    name.push(".");
    name.push(BESIDE);
    name.into()
}

/// A folder of this run alone: what another one left in its own is not ours to start.
fn own_folder() -> anyhow::Result<PathBuf> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let name = format!("{BESIDE}-{}-{}", std::process::id(), since.as_millis());
    Ok(cache("dev")?.join(name))
}

/// What is played where no SDL is given.
///
/// # Errors
/// Never, in practice: it is valid.
pub fn sample() -> anyhow::Result<Sdl> {
    sdl::parse(names::PROCESS_SAMPLE).context("the built-in SDL")
}

/// Fails for what cannot be run as processes, before anybody orders it.
///
/// # Errors
/// A service has no command, or people beyond this machine could start processes on it.
pub fn check(args: &DevArgs, sdls: &[(String, Sdl)]) -> anyhow::Result<()> {
    let addresses = [args.gateway_listen_address, args.gateway_grpc_listen_address];
    if let Some(open) = addresses.iter().flatten().find(|a| !a.ip().is_loopback()) {
        bail!(
            "{open} can be reached from other machines, and everybody knows the tenant's key: with --processes anybody \
             could run programs here; listen at 127.0.0.1"
        );
    }
    for (name, sdl) in sdls {
        for service in sdl.manifest.groups.iter().flat_map(|group| &group.services) {
            if service.command.as_ref().is_none_or(Vec::is_empty) {
                bail!(
                    "{name}: service `{}` has no command, and --processes runs no images: give it one, such as \
                     `command: [python3, -m, http.server]`",
                    service.name
                );
            }
        }
    }
    Ok(())
}

//! A cluster of one's own: services are processes of this machine.
//!
//! ```text
//!   folder/<namespace>.json     what is recorded and what is deployed of a lease, durable
//!   folder/<namespace>/web-0/   where replica 0 of the service `web` runs
//! ```
//! A service runs the command of its manifest; its image is a name for a command where the manifest has none.
//! Every replica is a process group: what it starts ends with it. It counts as healthy once it has lived for a
//! moment, and is started again when it ends by itself.
//!
//! What it does not do: it isolates nothing and limits nothing, so it is for programs one trusts. It has no
//! hostnames, leased IPs or shell. Processes end with the program that holds the cluster, and what was deployed
//! is started again when it is opened the next time; a program that is killed outright leaves them behind.

mod journal;
mod port;
mod process;
mod records;
mod workload;

use akash_provider_core::types::LeaseId;
use akash_provider_core::{Error, ErrorKind};
use records::Records;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use workload::State;

/// Which command an image stands for.
pub type Images = BTreeMap<String, Vec<String>>;

/// A cluster of processes. A clone is the same cluster.
#[derive(Debug, Clone)]
pub struct ProcessCluster {
    records: Records,
    images: Arc<Images>,
    state: Arc<Mutex<State>>,
}

impl ProcessCluster {
    /// The cluster of this folder, which is made when it is missing; starts what was deployed in it. To be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// When the folder cannot be read or written, or what was deployed cannot be started.
    pub async fn open(folder: impl Into<PathBuf>, images: Images) -> Result<Self, Error> {
        let records = Records::new(folder.into());
        let (found, unreadable) = records.all().await?;
        let cluster = Self {
            records,
            images: Arc::new(images),
            state: Arc::default(),
        };
        cluster.state().unreadable = unreadable;
        for kept in found {
            let deployed = kept.deployed.clone();
            cluster.state().keep(kept);
            if let Some(deployment) = deployed {
                cluster.start(&deployment)?;
            }
        }
        Ok(cluster)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Locks a mutex whose data is whole wherever a holder could panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_lease(operation: &'static str, lease: &LeaseId) -> Error {
    Error::new(
        ErrorKind::NotFound,
        operation,
        format!("lease {lease} is unknown"),
    )
}

/// The guide is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-cluster.md")]
pub struct Guide;

fn no_service(operation: &'static str, lease: &LeaseId, service: &str) -> Error {
    let message = format!("lease {lease} has no service `{service}`");
    Error::new(ErrorKind::NotFound, operation, message)
}

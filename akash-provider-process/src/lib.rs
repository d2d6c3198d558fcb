//! Local processes as the compute backend of an Akash provider, for trials.
//!
//! ```text
//!   folder/<namespace>.json     recorded and deployed workload of a lease, durable
//!   folder/<namespace>/web-0/   working directory of replica 0 of service `web`
//! ```
//! A service runs the command of its manifest. For a manifest without a command, the image selects a command
//! from [`Images`]. Every replica is a process group and ends with all its child processes. A replica is
//! healthy after a short time, and is restarted when it exits. The environment of a replica has `PATH`, the
//! variables of the manifest, and for each global port, for example 8080, the variable `PORT_8080`: the free
//! local port on which the service must listen. Replicas of a service share the port.
//!
//! Processes are not isolated and not limited, so run trusted programs only. Hostnames and leased IPs are not
//! available. The shell of a tenant runs its commands next to a replica: in the folder and with the variables
//! of the replica, without a terminal. Processes stop when the program that opened the cluster exits, and
//! start again when the cluster is opened the next time. If the program is killed, its processes continue to
//! run.

mod journal;
mod port;
mod process;
mod records;
mod shell;
mod workload;

use akash_provider_core::types::LeaseId;
use akash_provider_core::{Error, ErrorKind};
use records::RecordFolder;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use workload::{Running, WorkloadTable};

/// Command to run for each image, by image name.
pub type Images = BTreeMap<String, Vec<String>>;

/// Cluster of local processes. Clones share their state.
#[derive(Debug, Clone)]
pub struct ProcessCluster {
    records: RecordFolder,
    images: Arc<Images>,
    state: Arc<Mutex<WorkloadTable>>,
}

impl ProcessCluster {
    /// Opens the cluster in a folder, and starts its deployed leases. Creates a missing folder.
    ///
    /// A lease is not started if one of its images has no command. The next deploy of the lease then reports
    /// the missing command.
    ///
    /// Requires a Tokio runtime.
    ///
    /// # Errors
    /// The error of reading or writing the folder.
    pub async fn open(folder: impl Into<PathBuf>, images: Images) -> Result<Self, Error> {
        let records = RecordFolder::new(folder.into());
        let (found, unreadable) = records.all().await?;
        let cluster = Self {
            records,
            images: Arc::new(images),
            state: Arc::default(),
        };
        // Stored, because a teardown must remove the unreadable file.
        cluster.state().unreadable = unreadable;
        for mut record in found {
            // A lease that cannot start must not prevent the others from starting.
            if record
                .deployed
                .as_ref()
                .is_some_and(|d| cluster.check(d).is_err())
            {
                record.deployed = None;
            }
            let deployed = record.deployed.clone();
            cluster.state().store(record);
            if let Some(deployment) = deployed {
                cluster.start(&deployment)?;
            }
        }
        Ok(cluster)
    }

    /// Stops all processes and waits for their end. The next [`ProcessCluster::open`] of the folder starts
    /// the leases again.
    pub async fn close(&self) {
        // The block releases the lock, which ending tasks take to report their last output.
        let stopped: Vec<_> = {
            let state = self.state();
            let running = state.all().filter_map(|w| w.running.as_ref());
            running.map(Running::stop).collect()
        };
        for replicas in stopped {
            replicas.wait().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, WorkloadTable> {
        lock(&self.state)
    }
}

/// Locks a mutex, even after a panic of another thread. The data is consistent after such a panic.
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

fn no_service(operation: &'static str, lease: &LeaseId, service: &str) -> Error {
    let message = format!("lease {lease} has no service `{service}`");
    Error::new(ErrorKind::NotFound, operation, message)
}

/// Guide to the implementation of a `Cluster`, with compiled examples.
#[cfg(doctest)]
#[doc = include_str!("../../docs/writing-a-cluster.md")]
pub struct Guide;

//! Processes of the own machine as the compute backend of an Akash provider, for trials.
//!
//! ```text
//!   folder/<namespace>.json     what is recorded and what is deployed of a lease, durable
//!   folder/<namespace>/web-0/   where replica 0 of the service `web` runs
//! ```
//! A service runs the command of its manifest; its image is a name for a command where the manifest has none.
//! Every replica is a process group: what it starts ends with it. It counts as healthy once it has lived for a
//! moment, and is started again when it ends by itself. Of its environment it has `PATH`, the variables of its
//! manifest, and for a port that its service exposes to all, 8080 say, `PORT_8080`: the free port of this machine
//! that was found for it, at which it is to listen. Replicas of a service share that one.
//!
//! What it does not do: it isolates nothing and limits nothing, so it is for programs one trusts. It has no
//! hostnames and leased IPs, and its shell runs commands beside a replica, in its folder and with its variables,
//! and without a terminal. Processes end with the program that holds the cluster, and what was deployed is started
//! again when it is opened the next time; a program that is killed outright leaves them behind.

mod journal;
mod port;
mod process;
mod records;
mod shell;
mod workload;

use akash_provider_core::types::LeaseId;
use akash_provider_core::{Error, ErrorKind};
use records::Records;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use workload::{Running, State};

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
    /// The cluster of this folder, which is made when it is missing; starts what was deployed in it. A lease that
    /// cannot start any more, for its image stands for no command now, counts as recorded and not deployed: whoever
    /// deploys it again is told why it cannot be. To be called within a tokio runtime.
    ///
    /// # Errors
    /// When the folder cannot be read or written.
    pub async fn open(folder: impl Into<PathBuf>, images: Images) -> Result<Self, Error> {
        let records = Records::new(folder.into());
        let (found, unreadable) = records.all().await?;
        let cluster = Self {
            records,
            images: Arc::new(images),
            state: Arc::default(),
        };
        // Kept and not skipped: a teardown must find the file, though nobody can read it.
        cluster.state().unreadable = unreadable;
        for mut kept in found {
            // One that cannot start keeps no other from it.
            if kept.deployed.as_ref().is_some_and(|d| cluster.check(d).is_err()) {
                kept.deployed = None;
            }
            let deployed = kept.deployed.clone();
            cluster.state().keep(kept);
            if let Some(deployment) = deployed {
                cluster.start(&deployment)?;
            }
        }
        Ok(cluster)
    }

    /// Ends everything that runs, and waits until it has. What is kept stays: the next [`ProcessCluster::open`]
    /// of the folder starts it again.
    pub async fn close(&self) {
        // The lock ends with this block: the tasks that end take it themselves to tell their last news.
        let stopped: Vec<_> = {
            let state = self.state();
            let running = state.all().filter_map(|w| w.running.as_ref());
            running.map(Running::stop).collect()
        };
        for replicas in stopped {
            replicas.wait().await;
        }
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

fn no_service(operation: &'static str, lease: &LeaseId, service: &str) -> Error {
    let message = format!("lease {lease} has no service `{service}`");
    Error::new(ErrorKind::NotFound, operation, message)
}

/// The guide is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/writing-a-cluster.md")]
pub struct Guide;

//! Durable records of leases: one file per lease, written atomically.

use akash_provider_core::cluster::{RecordDefect, UnusableRecord, WorkloadSpec};
use akash_provider_core::types::LeaseId;
use akash_provider_core::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseRecord {
    /// Last recorded or deployed workload.
    pub(crate) recorded: WorkloadSpec,
    /// Last deployed workload; `None` for a lease that was only recorded.
    pub(crate) deployed: Option<WorkloadSpec>,
}

/// Folder with the records.
#[derive(Debug, Clone)]
pub(crate) struct RecordFolder {
    folder: PathBuf,
}

impl RecordFolder {
    pub(crate) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the folder of the processes of a lease.
    pub(crate) fn home(&self, lease: &LeaseId) -> PathBuf {
        self.folder.join(lease.namespace())
    }

    pub(crate) async fn all(&self) -> Result<(Vec<LeaseRecord>, Vec<UnusableRecord>), Error> {
        let folder = self.folder.clone();
        on_disk("open the cluster", move || {
            make(&folder)?;
            let (mut found, mut unreadable) = (Vec::new(), Vec::new());
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.extension().is_none_or(|e| e != "json") {
                    continue;
                }
                match serde_json::from_slice(&fs::read(&path)?) {
                    Ok(record) => found.push(record),
                    Err(error) => unreadable.push(UnusableRecord {
                        lease: None,
                        // The file has the name of its lease.
                        name: path
                            .file_stem()
                            .unwrap_or_default()
                            .to_string_lossy()
                            .into_owned(),
                        remains: RecordDefect::Unreadable,
                        problem: format!("{}: {error}", path.display()),
                    }),
                }
            }
            Ok((found, unreadable))
        })
        .await
    }

    /// Writes a record durably.
    pub(crate) async fn store(&self, record: LeaseRecord) -> Result<(), Error> {
        let path = self.path(&record.recorded.lease);
        let folder = self.folder.clone();
        on_disk("record", move || {
            let draft = path.with_extension("draft");
            let mut file = File::create(&draft)?;
            file.write_all(&serde_json::to_vec(&record)?)?;
            // Contents first: otherwise the name could refer to an empty file after a crash.
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            // The name is durable after the folder is synchronized.
            File::open(folder)?.sync_all()
        })
        .await
    }

    /// Removes the record and the folder of a lease.
    pub(crate) async fn remove(&self, lease: &LeaseId) -> Result<(), Error> {
        let (path, home) = (self.path(lease), self.home(lease));
        on_disk("teardown", move || {
            // The folder first: if the file still exists at a restart, the removal is incomplete.
            missing_is_fine(fs::remove_dir_all(home))?;
            missing_is_fine(fs::remove_file(path))
        })
        .await
    }

    fn path(&self, lease: &LeaseId) -> PathBuf {
        self.folder.join(format!("{}.json", lease.namespace()))
    }
}

/// Creates a private folder, because manifests contain passwords.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn missing_is_fine(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// Runs disk operations on a blocking thread. The operations complete even if the caller is dropped.
async fn on_disk<T: Send + 'static>(
    operation: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let unavailable = |e: io::Error| {
        Error::new(
            ErrorKind::Unavailable,
            operation,
            "cannot access the folder of the cluster",
        )
        .with_source(e)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(unavailable),
        Err(defect) => Err(Error::new(
            ErrorKind::Internal,
            operation,
            "the task that accesses the folder of the cluster failed",
        )
        .with_source(defect)),
    }
}

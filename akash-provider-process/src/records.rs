//! What a restart must know: a file for each lease, written whole or not at all.

use akash_provider_core::cluster::{Remains, Unusable, WorkloadSpec};
use akash_provider_core::types::LeaseId;
use akash_provider_core::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What is kept of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// As recorded or deployed last.
    pub(crate) recorded: WorkloadSpec,
    /// As deployed last; `None` when it was only recorded.
    pub(crate) deployed: Option<WorkloadSpec>,
}

/// The folder.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    folder: PathBuf,
}

impl Records {
    pub(crate) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Where the processes of a lease run.
    pub(crate) fn home(&self, lease: &LeaseId) -> PathBuf {
        self.folder.join(lease.namespace())
    }

    /// Everything that is kept, and what is there and cannot be read: one bad file keeps no other from being read.
    pub(crate) async fn all(&self) -> Result<(Vec<Kept>, Vec<Unusable>), Error> {
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
                    Ok(kept) => found.push(kept),
                    Err(error) => unreadable.push(Unusable {
                        lease: None,
                        // The file is named after its lease.
                        name: path
                            .file_stem()
                            .unwrap_or_default()
                            .to_string_lossy()
                            .into_owned(),
                        remains: Remains::Unreadable,
                        problem: format!("{}: {error}", path.display()),
                    }),
                }
            }
            Ok((found, unreadable))
        })
        .await
    }

    /// Keeps it: on the disk when this returns.
    pub(crate) async fn keep(&self, kept: Kept) -> Result<(), Error> {
        let path = self.path(&kept.recorded.lease);
        let folder = self.folder.clone();
        on_disk("record", move || {
            let draft = path.with_extension("draft");
            let mut file = File::create(&draft)?;
            file.write_all(&serde_json::to_vec(&kept)?)?;
            // The contents before the name: after a crash the name could else stand for an empty file.
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            // The name is durable only when the folder is.
            File::open(folder)?.sync_all()
        })
        .await
    }

    /// Forgets a lease and removes what its processes left.
    pub(crate) async fn forget(&self, lease: &LeaseId) -> Result<(), Error> {
        let (path, home) = (self.path(lease), self.home(lease));
        on_disk("teardown", move || {
            // The folder first: while the file is there, a restart knows that something is left to remove.
            missing_is_fine(fs::remove_dir_all(home))?;
            missing_is_fine(fs::remove_file(path))
        })
        .await
    }

    fn path(&self, lease: &LeaseId) -> PathBuf {
        self.folder.join(format!("{}.json", lease.namespace()))
    }
}

/// Makes a folder that is nobody else's business: manifests have passwords in them.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn missing_is_fine(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// Runs work for the disk on a thread that may wait; it goes on to its end when nobody waits for it any more.
async fn on_disk<T: Send + 'static>(
    operation: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let unavailable = |e: io::Error| {
        Error::new(ErrorKind::Unavailable, operation, "the folder of the cluster").with_source(e)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(unavailable),
        Err(defect) => Err(Error::new(ErrorKind::Internal, operation, "the task failed").with_source(defect)),
    }
}

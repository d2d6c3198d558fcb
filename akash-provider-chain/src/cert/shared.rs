//! Certificate files that all instances of a provider share through a store outside of their home directories.
//!
//! ```text
//! store ─ load ─► files in the home directory ─► one step of the rotation ─► files ─ save ─► store
//! ```
//!
//! The store decides: before each step, the files are replaced by those in the store. Each step of a rotation has at
//! most one effect on the chain, and another instance repeats a step that was not saved without harm.

use super::key_file::FileContents;
use super::{CertError, KeyFiles, RotationError};
use crate::private_key::PrivateKey;
use akash_provider_core::error::Error;
use async_trait::async_trait;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Certificate files in a store, with the version of the store.
#[derive(Clone, Default)]
pub struct StoredFiles {
    /// Version for [`CertificateStore::save`]; `None` if the store does not exist yet.
    pub version: Option<String>,
    /// Contents by file name.
    pub files: FileContents,
}

impl fmt::Debug for StoredFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredFiles")
            .field("version", &self.version)
            .field("files", &self.files.keys())
            .finish()
    }
}

/// Store of certificate files, such as a Kubernetes Secret.
#[async_trait]
pub trait CertificateStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the stored files, or no files if the store does not exist.
    ///
    /// # Errors
    /// Returns an error if the stored files are unknown.
    async fn load(&self) -> Result<StoredFiles, Error>;

    /// Replaces the certificate files in the store.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if this instance may not write, or if the store changed since `before`.
    async fn save(&self, before: &StoredFiles, files: &FileContents) -> Result<(), Error>;
}

/// Certificate files in a store, and the turn of the tasks that use them.
#[derive(Debug)]
pub struct SharedFiles {
    store: Arc<dyn CertificateStore>,
    pub(super) turn: Mutex<()>,
}

impl SharedFiles {
    /// Creates the shared files of one account. All tasks of the process use the same value.
    #[must_use]
    pub fn new(store: Arc<dyn CertificateStore>) -> Self {
        Self {
            store,
            turn: Mutex::new(()),
        }
    }

    /// Replaces the files in `home` by those in the store. An empty store changes nothing.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read, or if its files are invalid.
    pub async fn adopt(&self, home: &Path, account: &Arc<PrivateKey>) -> Result<(), RotationError> {
        let _turn = self.turn.lock().await;
        self.load_into(home, account).await.map(drop)
    }

    pub(super) async fn load_into(
        &self,
        home: &Path,
        account: &Arc<PrivateKey>,
    ) -> Result<StoredFiles, RotationError> {
        let stored = self.store.load().await?;
        let copy = stored.files.clone();
        with_files(home, account, move |files| files.adopt(&copy)).await?;
        Ok(stored)
    }

    pub(super) async fn save_from(
        &self,
        before: &StoredFiles,
        home: &Path,
        account: &Arc<PrivateKey>,
    ) -> Result<(), RotationError> {
        let files = with_files(home, account, |files| files.contents()).await?;
        if files != before.files {
            self.store.save(before, &files).await?;
        }
        Ok(())
    }
}

/// Runs file operations on a blocking thread, because decryption takes much CPU time.
pub(super) async fn with_files<T: Send + 'static>(
    home: &Path,
    account: &Arc<PrivateKey>,
    work: impl FnOnce(&KeyFiles<'_>) -> Result<T, CertError> + Send + 'static,
) -> Result<T, RotationError> {
    let (home, account) = (home.to_owned(), Arc::clone(account));
    let task = tokio::task::spawn_blocking(move || work(&KeyFiles::new(&home, &account)));
    let done = task
        .await
        .map_err(|e| RotationError::Interrupted(e.to_string()))?;
    Ok(done?)
}

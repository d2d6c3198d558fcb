//! List of the GPU models in the Akash network: downloaded periodically, and stored for the next start. A missing list
//! delays no other work.

use crate::download::download;
use crate::files;
use akash_provider_operators::inventory::InventoryOperator;
use akash_provider_operators::inventory::database::{BYTES_MAX, Database};
use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::sleep;
use url::Url;

/// Name of the stored list in the state directory.
const FILE_NAME: &str = "gpus.json";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GpuListSource {
    File(PathBuf),
    Network(Url),
    /// No GPU list. The operator uses only the GPU models in node labels.
    Nowhere,
}

#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct ListStatus {
    /// Source of the GPU list.
    pub(super) from: String,
    /// Number of devices in the list.
    pub(super) devices: usize,
    /// Number of invalid devices in the list.
    pub(super) skipped: usize,
    /// SHA-256 hash of the last valid list, in hexadecimal.
    pub(super) sha256: Option<String>,
    /// Error of the last read. The last valid list stays in force.
    pub(super) error: Option<String>,
}

#[derive(Debug)]
pub(super) struct List {
    source: GpuListSource,
    path: Option<PathBuf>,
    every: Duration,
    status: Mutex<ListStatus>,
}

impl List {
    pub(super) fn new(source: GpuListSource, folder: Option<&Path>, every: Duration) -> Self {
        let from = match &source {
            GpuListSource::File(path) => path.display().to_string(),
            // A URL may contain a password, which is omitted.
            GpuListSource::Network(url) => format!("{}{}", url.host_str().unwrap_or_default(), url.path()),
            GpuListSource::Nowhere => "nowhere".to_owned(),
        };
        let status = ListStatus {
            from,
            ..ListStatus::default()
        };
        Self {
            source,
            path: folder.map(|folder| folder.join(FILE_NAME)),
            // The minimum interval protects the server.
            every: every.max(Duration::from_secs(1)),
            status: Mutex::new(status),
        }
    }

    pub(super) fn status(&self) -> ListStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Updates the GPU list of the operator periodically, forever.
    pub(super) async fn keep(self: Arc<Self>, operator: &InventoryOperator) -> std::convert::Infallible {
        if let Some(path) = self.path.as_ref().filter(|path| path.exists()) {
            let text = files::text(path, BYTES_MAX as u64);
            let taken = text.and_then(|text| self.take(text.as_bytes(), operator));
            if let Err(why) = taken {
                self.refuse(&format!("{}: {why}", path.display()));
            }
        }
        loop {
            match self.ask().await {
                Ok(None) => {}
                Ok(Some(text)) => match self.take(&text, operator) {
                    Ok(true) => self.store(&text),
                    Ok(false) => {}
                    Err(why) => self.refuse(&why),
                },
                Err(why) => self.refuse(&why),
            }
            sleep(self.every).await;
        }
    }

    async fn ask(&self) -> Result<Option<Vec<u8>>, String> {
        match &self.source {
            GpuListSource::Nowhere => Ok(None),
            GpuListSource::File(path) => files::bytes(path, BYTES_MAX as u64).map(Some),
            GpuListSource::Network(url) => download(url, BYTES_MAX).await.map(Some),
        }
    }

    /// Applies a downloaded GPU list. Returns true if the list changed.
    fn take(&self, text: &[u8], operator: &InventoryOperator) -> Result<bool, String> {
        let hash = HEXLOWER.encode(&Sha256::digest(text));
        let is_same = self.status().sha256.as_ref() == Some(&hash);
        let list = if is_same {
            None
        } else {
            Some(Database::read(text)?)
        };
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.error = None;
        let Some(list) = list else {
            return Ok(false);
        };
        tracing::info!(devices = list.len(), from = status.from, "list of GPUs changed");
        (status.devices, status.skipped, status.sha256) = (list.len(), list.skipped(), Some(hash));
        drop(status);
        operator.set_list(list);
        Ok(true)
    }

    fn refuse(&self, why: &str) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        // Logged on the first failure of an outage.
        if status.error.is_none() {
            tracing::warn!(
                from = status.from,
                why,
                "cannot read the list of GPUs, the last valid list applies"
            );
        }
        status.error = Some(why.to_owned());
    }

    fn store(&self, text: &[u8]) {
        let Some(path) = &self.path else {
            return;
        };
        // A rename replaces the file atomically.
        let fresh = path.with_extension("new");
        let written = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, path));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "cannot store the list of GPUs, so a restart has no list before the first download; check the state directory");
        }
    }
}

#[cfg(test)]
mod tests;

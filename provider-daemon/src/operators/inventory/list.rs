//! The network's list of GPUs: asked for now and then, kept over restarts, and never a reason to show nothing.

use crate::download::download;
use crate::files;
use akash_provider_k8s::operators::inventory::InventoryOperator;
use akash_provider_k8s::operators::inventory::database::{BYTES_MAX, Database};
use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::sleep;
use url::Url;

/// Name of the kept list in the folder of the state.
const KEPT: &str = "gpus.json";

/// Where the list comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    File(PathBuf),
    Network(Url),
    /// Models are named by the tools of their makers alone.
    Nowhere,
}

/// What is known of the list.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct ListStatus {
    /// Where it comes from.
    pub(super) from: String,
    /// Devices that it names.
    pub(super) devices: usize,
    /// Devices of it that make no sense.
    pub(super) skipped: usize,
    /// Its hash, in hexadecimal.
    pub(super) sha256: Option<String>,
    /// Why it was not read again; the last one that was read stays.
    pub(super) error: Option<String>,
}

/// The list, and how it fares.
#[derive(Debug)]
pub(super) struct List {
    source: Source,
    kept: Option<PathBuf>,
    every: Duration,
    status: Mutex<ListStatus>,
}

impl List {
    pub(super) fn new(source: Source, folder: Option<&Path>, every: Duration) -> Self {
        let from = match &source {
            Source::File(path) => path.display().to_string(),
            // Without a password that somebody may have put there.
            Source::Network(url) => format!("{}{}", url.host_str().unwrap_or_default(), url.path()),
            Source::Nowhere => "nowhere".to_owned(),
        };
        let status = ListStatus {
            from,
            ..ListStatus::default()
        };
        Self {
            source,
            kept: folder.map(|folder| folder.join(KEPT)),
            // A server that is asked without a pause is not asked kindly.
            every: every.max(Duration::from_secs(1)),
            status: Mutex::new(status),
        }
    }

    pub(super) fn status(&self) -> ListStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the operator's list current, for ever.
    pub(super) async fn keep(self: Arc<Self>, operator: &InventoryOperator) -> std::convert::Infallible {
        if let Some(path) = self.kept.as_ref().filter(|path| path.exists()) {
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
            Source::Nowhere => Ok(None),
            Source::File(path) => files::bytes(path, BYTES_MAX as u64).map(Some),
            Source::Network(url) => download(url, BYTES_MAX).await.map(Some),
        }
    }

    /// Takes a list over; true where it is another one than before.
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
        tracing::info!(
            devices = list.len(),
            from = status.from,
            "the list of GPUs is another one"
        );
        (status.devices, status.skipped, status.sha256) = (list.len(), list.skipped(), Some(hash));
        drop(status);
        operator.set_list(list);
        Ok(true)
    }

    fn refuse(&self, why: &str) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        // An outage is said once.
        if status.error.is_none() {
            tracing::warn!(
                from = status.from,
                why,
                "the list of GPUs could not be read; the last one stays"
            );
        }
        status.error = Some(why.to_owned());
    }

    fn store(&self, text: &[u8]) {
        let Some(path) = &self.kept else {
            return;
        };
        // Beside it first: a list that was half written would be none.
        let fresh = path.with_extension("new");
        let written = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, path));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "the list of GPUs could not be kept");
        }
    }
}

#[cfg(test)]
mod tests;

//! Writes notes on the records of hostnames.

use super::facts::Host;
use akash_provider_core::manifest::without_star;
use akash_provider_kube_kernel::error::within;
use akash_provider_kube_model::crd::ProviderHost;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NOTE: &str = "note on a hostname's record";

/// Writer of notes. Only the first of several consecutive failures is logged.
#[derive(Debug, Clone)]
pub(super) struct NoteWriter {
    records: Api<ProviderHost>,
    limit: Duration,
    has_failed: Arc<AtomicBool>,
}

impl NoteWriter {
    pub(super) fn new(client: &Client, namespace: &str, limit: Duration) -> Self {
        Self {
            records: Api::namespaced(client.clone(), namespace),
            limit,
            has_failed: Arc::default(),
        }
    }

    /// Writes a note as an annotation of the ProviderHost record. Returns true on success. The record must
    /// have the UID in `host`.
    pub(super) async fn write(&self, name: &str, host: &Host, key: &str, note: &impl Serialize) -> bool {
        // Plain data always serializes to JSON.
        let text = serde_json::to_string(note).unwrap_or_default();
        let patch = json!({"metadata": {"uid": host.uid, "annotations": {key: text}}});
        let object = without_star(name);
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let writing = self.records.patch_metadata(&object, &params, &patch);
        match within(self.limit, NOTE, writing).await {
            Ok(_) => {
                self.has_failed.store(false, Ordering::Relaxed);
                true
            }
            Err(error) => {
                if !self.has_failed.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        hostname = name,
                        %error,
                        "cannot write the result of a probe or a DNS proof to the ProviderHost object; grant `patch` on providerhosts"
                    );
                }
                false
            }
        }
    }
}

//! Certificate files of the provider in a Kubernetes Secret, for `--provider-certificate-secret`.

use crate::args::RunArgs;
use crate::cluster_client::{config, source};
use crate::writers::Writers;
use akash_provider_chain::cert::{CertificateStore, FileContents, SharedFiles, StoredFiles};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::Address;
use akash_provider_k8s::error::within;
use akash_provider_k8s::write_client::WriteClient;
use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Interval at which an instance reads the Secret.
const READ_INTERVAL: Duration = Duration::from_secs(10);
/// Field manager of the Secret.
const MANAGER: &str = "akash-provider";

/// Secret with the certificate files of one provider.
#[derive(Debug)]
pub(super) struct CertificateSecret {
    name: String,
    namespace: String,
    /// Start of the file names of the account.
    prefix: String,
    kubeconfig: Option<PathBuf>,
    limit: Duration,
    writers: Writers,
    client: OnceCell<WriteClient>,
}

impl CertificateSecret {
    /// Returns the shared files in the Secret, or `None` without `--provider-certificate-secret`.
    pub(super) fn shared(args: &RunArgs, account: &Address, writers: &Writers) -> Option<Arc<SharedFiles>> {
        let secret = Self {
            name: args.gateway.provider_certificate_secret.clone()?,
            namespace: args.kubernetes.k8s_manifest_ns.clone(),
            prefix: format!("{account}."),
            kubeconfig: args.kubernetes.kubeconfig.clone(),
            limit: args.kubernetes.kube_call_timeout,
            writers: writers.clone(),
            client: OnceCell::new(),
        };
        Some(Arc::new(SharedFiles::new(Arc::new(secret))))
    }

    /// Returns the API of Secrets. Writes fail while another instance leads.
    async fn api(&self) -> Result<Api<Secret>, Error> {
        let connect = async {
            let config = config(self.kubeconfig.as_deref()).await;
            let config = config.map_err(|error| self.failed(&format!("{error:#}")))?;
            let client = self.writers.kubernetes(config);
            client.map_err(|error| self.failed(&format!("{}: {error}", source(self.kubeconfig.as_deref()))))
        };
        let client = self.client.get_or_try_init(|| connect).await?;
        Ok(Api::namespaced(client.client().clone(), &self.namespace))
    }

    fn secret(&self, files: &FileContents) -> Secret {
        let entries = files.iter();
        let entries = entries.map(|(name, bytes)| (name.clone(), ByteString(bytes.clone())));
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            },
            data: Some(entries.collect()),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        }
    }

    fn failed(&self, why: &str) -> Error {
        let message = format!("Secret {} in namespace {}: {why}", self.name, self.namespace);
        Error::new(
            ErrorKind::Unavailable,
            "use the certificate of the provider",
            message,
        )
    }
}

#[async_trait]
impl CertificateStore for CertificateSecret {
    async fn load(&self) -> Result<StoredFiles, Error> {
        let api = self.api().await?;
        let found = within(
            self.limit,
            "read the Secret of the certificate",
            api.get_opt(&self.name),
        )
        .await;
        let Some(secret) = found.map_err(|error| self.failed(&error.to_string()))? else {
            return Ok(StoredFiles::default());
        };
        let entries = secret.data.unwrap_or_default().into_iter();
        // The Secret may have entries of other programs.
        let own = entries.filter(|(name, _)| name.starts_with(&self.prefix));
        Ok(StoredFiles {
            version: secret.metadata.resource_version,
            files: own.map(|(name, ByteString(bytes))| (name, bytes)).collect(),
        })
    }

    async fn save(&self, before: &StoredFiles, files: &FileContents) -> Result<(), Error> {
        let api = self.api().await?;
        let saved = match &before.version {
            None => {
                let params = PostParams {
                    field_manager: Some(MANAGER.to_owned()),
                    ..PostParams::default()
                };
                let secret = self.secret(files);
                let created = api.create(&params, &secret);
                within(self.limit, "create the Secret of the certificate", created).await
            }
            Some(version) => {
                // The version makes the write fail if another client wrote since.
                let change =
                    json!({"metadata": {"resourceVersion": version}, "data": changes(&before.files, files)});
                let params = PatchParams {
                    field_manager: Some(MANAGER.to_owned()),
                    ..PatchParams::default()
                };
                let change = Patch::Merge(&change);
                let patched = api.patch(&self.name, &params, &change);
                within(self.limit, "write the Secret of the certificate", patched).await
            }
        };
        saved.map(drop).map_err(|error| self.failed(&error.to_string()))
    }
}

/// Returns the merge patch of the entries; a removed entry is null.
fn changes(before: &FileContents, files: &FileContents) -> BTreeMap<String, Option<ByteString>> {
    let removed = before.keys().map(|name| (name.clone(), None));
    let written = files.iter();
    let written = written.map(|(name, bytes)| (name.clone(), Some(ByteString(bytes.clone()))));
    removed.chain(written).collect()
}

/// Copies the certificate from the Secret to the home directory whenever it changes, until the shutdown.
pub(super) async fn follow(
    shared: &SharedFiles,
    home: &Path,
    account: &Arc<PrivateKey>,
    shutdown: &CancellationToken,
) {
    let mut is_failing = false;
    loop {
        let adopted = shared.adopt(home, account).await;
        match &adopted {
            Err(error) if !is_failing => tracing::warn!(
                %error,
                "cannot read the certificate from its Secret, retrying: check the Secret, the API server and the \
                 rights of the provider"
            ),
            Ok(()) if is_failing => tracing::info!("certificate is read from its Secret again"),
            _ => {}
        }
        is_failing = adopted.is_err();
        if shutdown.run_until_cancelled(sleep(READ_INTERVAL)).await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;

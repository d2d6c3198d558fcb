//! Teardown of a lease: deletes all its objects, the record last.

use super::ClusterContext;
use super::records::{RecordAction, RecordOutcome};
use crate::error::{from_kube, is_absent, within};
use akash_provider_core::cluster::Teardown;
use akash_provider_core::error::Error;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::rights::{self, Attempt};
use akash_provider_kube_model::crd::{Manifest, ProviderHost, ProviderLeasedIP};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, Preconditions};

const TEARDOWN: &str = "teardown";

impl ClusterContext {
    /// Runs one step of the teardown of a lease. The teardown is complete when the namespace does not exist.
    pub(crate) async fn teardown(&self, lease: &LeaseId) -> Result<Teardown, Error> {
        self.check_provider(lease, TEARDOWN)?;
        self.locks.remove(&lease.namespace());
        let runs = self.teardown_namespace(lease).await?;
        // Concurrently with the namespace: names and addresses are free at once.
        futures::try_join!(
            self.purge_of_lease::<ProviderHost>(self.hosts(), lease, TEARDOWN),
            self.purge_of_lease::<ProviderLeasedIP>(self.ips(), lease, TEARDOWN),
        )?;
        if runs {
            return Ok(Teardown::InProgress);
        }
        self.teardown_record(lease).await?;
        let name = lease.namespace();
        self.until_seen(|| self.state.lease_in(&name).is_empty()).await;
        Ok(Teardown::Done)
    }

    /// Deletes the namespace. Returns false if the namespace does not exist.
    async fn teardown_namespace(&self, lease: &LeaseId) -> Result<bool, Error> {
        let name = lease.namespace();
        let api: Api<Namespace> = Api::all(self.client.clone());
        let limit = self.settings.call_timeout;
        // Live: the cache may lack an existing namespace.
        let there = within(limit, TEARDOWN, api.get_metadata_opt(&name)).await?;
        let Some(there) = there else { return Ok(false) };
        self.check_holder(lease, &there.metadata, "namespace", TEARDOWN)?;
        if there.metadata.deletion_timestamp.is_some() {
            return Ok(true);
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: there.metadata.uid,
                // Without the version: others write to the namespace concurrently.
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let call = async { Ok(api.delete(&name, &params).await) };
        match within(limit, TEARDOWN, call).await? {
            Ok(_) => Ok(true),
            // The next step confirms the deletion.
            Err(error) if is_absent(&error) => Ok(true),
            Err(error) => {
                let attempt = Attempt::at::<Namespace>(&["delete"], None);
                let error = from_kube(TEARDOWN, error);
                Err(rights::judged(&self.client, limit, &attempt, error).await)
            }
        }
    }

    async fn teardown_record(&self, lease: &LeaseId) -> Result<(), Error> {
        let name = lease.namespace();
        let records = self.records::<Manifest>(TEARDOWN);
        let there = records.read(&name).await?;
        if let Some(manifest) = &there {
            self.check_holder(lease, &manifest.metadata, "Manifest object", TEARDOWN)?;
        }
        // Also without a record: a failed record may have left its passwords behind.
        self.delete_passwords(lease, None, TEARDOWN).await?;
        if there.is_none() {
            return Ok(());
        }
        let judge = |there: Option<&Manifest>| match there {
            None => Ok(RecordAction::Keep),
            Some(there) => {
                self.check_holder(lease, &there.metadata, "Manifest object", TEARDOWN)?;
                Ok(RecordAction::Delete)
            }
        };
        let outcome = records.settle(&name, there, judge).await?;
        if let RecordOutcome::Deleted(uid) = outcome {
            self.until_seen(|| self.lacks(self.manifests(), &name, &uid))
                .await;
        }
        Ok(())
    }
}

//! Deletion of password Secrets without a Manifest record.
//!
//! The Secret is written before the Manifest record, so that no record lacks its passwords. If the write of the record
//! fails with certainty, the Secret is deleted immediately. If the result of the write is unknown, the teardown of the
//! lease or this search deletes the Secret.

use super::passwords::secret_name;
use super::{ClusterContext, KubeCluster, LeadershipGate};
use crate::error::{from_kube, within};
use crate::labels;
use akash_provider_core::audit::ActKind;
use akash_provider_core::error::Error;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::audit::deletion;
use akash_provider_kube_kernel::calls::deleting;
use akash_provider_kube_model::crd::Manifest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use std::time::Duration;

const COLLECT: &str = "collect_passwords";
/// Interval between two searches for password Secrets without a Manifest record.
const EVERY: Duration = Duration::from_hours(1);
/// Minimum age at which a Secret without a Manifest record is deleted. The record normally follows within
/// seconds.
const GIVEN_UP: Duration = Duration::from_hours(1);
/// Secrets per page of a list.
const PAGE: u32 = 500;

impl KubeCluster {
    /// Deletes password Secrets without a Manifest record when this instance becomes the leader, and then
    /// every hour. Never returns.
    pub async fn follow_leftovers(&self, leading: &LeadershipGate) {
        loop {
            leading.opened().await;
            match leading.during(self.collect_passwords()).await {
                Some(Ok(0)) => {}
                Some(Ok(secrets)) => {
                    tracing::info!(
                        secrets,
                        "Secrets with registry passwords deleted, because their leases have no Manifest \
                         object"
                    );
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "cannot delete Secrets with registry passwords of leases that have no Manifest object, retrying in an hour")
                }
                // Leadership lost: the next one starts with a search, without the wait.
                None => continue,
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Deletes password Secrets of this provider that are older than an hour and have no Manifest record.
    /// Returns the number of deleted Secrets.
    ///
    /// # Errors
    /// The errors of the API server. The next search finds the remaining Secrets.
    pub async fn collect_passwords(&self) -> Result<usize, Error> {
        let inner = self.inner();
        inner.current(COLLECT).await?;
        let (api, limit) = (inner.secrets(), inner.settings.call_timeout);
        let mut params = ListParams::default().labels(labels::SELECTOR).limit(PAGE);
        let mut deleted = 0;
        loop {
            let page = within(limit, COLLECT, api.list_metadata(&params)).await?;
            for secret in &page.items {
                if inner.collect(&secret.metadata).await? {
                    deleted += 1;
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(deleted),
            }
        }
    }
}

impl ClusterContext {
    /// Deletes the password Secret after a Manifest record was rejected. The Secret remains if the lease has
    /// an earlier record.
    pub(crate) async fn take_back_passwords(&self, lease: &LeaseId, operation: &'static str) {
        let there = self.records::<Manifest>(operation).read(&lease.namespace()).await;
        let taken = match there {
            Ok(None) => {
                let reason = Some("manifest_rejected");
                self.delete_passwords(lease, reason, operation).await
            }
            Ok(Some(_)) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            tracing::debug!(%lease, %error, "cannot delete password Secret of a rejected record");
        }
    }

    /// Deletes a password Secret if its lease has no Manifest record. Returns true if the Secret was deleted.
    pub(crate) async fn collect(&self, secret: &ObjectMeta) -> Result<bool, Error> {
        let Some(lease) = self.given_up(secret, Timestamp::now()) else {
            return Ok(false);
        };
        let home = lease.namespace();
        // The cache saves a call for every running lease.
        if self.cached(self.manifests(), &home).is_some()
            || self.records::<Manifest>(COLLECT).read(&home).await?.is_some()
        {
            return Ok(false);
        }
        let name = secret_name(&home);
        // A Secret written meanwhile belongs to a new record.
        let params = deleting(secret);
        let api = self.secrets();
        let delete = async {
            let call = async { Ok(api.delete(&name, &params).await) };
            match within(self.settings.call_timeout, COLLECT, call).await? {
                Ok(_) => Ok(true),
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(false),
                Err(error) => Err(from_kube(COLLECT, error)),
            }
        };
        let object = (
            "Secret",
            &*self.settings.manifest_namespace,
            &*name,
            secret.uid.as_deref(),
        );
        let act = deletion(ActKind::ObjectDelete, "no_manifest", &lease, object);
        let is_deleted = self.settings.deletions.record(act, delete).await?;
        if is_deleted {
            self.passwords.remove(&name);
        }
        Ok(is_deleted)
    }

    /// Returns the lease of a password Secret. Returns `None` unless the Secret belongs to this provider and
    /// is old enough to be deleted.
    fn given_up(&self, secret: &ObjectMeta, now: Timestamp) -> Option<LeaseId> {
        let lease = secret.labels.as_ref().and_then(labels::lease_of)?;
        let is_ours = lease.provider == self.settings.provider
            && !self.is_of_other_chain(secret)
            && secret.name.as_deref() == Some(&secret_name(&lease.namespace()));
        (is_ours && is_older(secret, GIVEN_UP, now)).then_some(lease)
    }
}

/// Returns true if the last write of the object is at least `age` ago. An object without a valid time counts
/// as new.
fn is_older(meta: &ObjectMeta, age: Duration, now: Timestamp) -> bool {
    let updated = meta.annotations.as_ref().and_then(|a| a.get(labels::UPDATED_AT));
    let written = match updated {
        Some(text) => text.parse::<Timestamp>().ok(),
        None => meta.creation_timestamp.as_ref().map(|time| time.0),
    };
    // A future time results from a wrong clock.
    written.is_some_and(|written| now.duration_since(written).unsigned_abs() >= age && now > written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_age_counts_from_the_last_write_and_an_unknown_age_is_new() {
        let hour = Duration::from_hours(1);
        let now = at("2026-01-01T12:00:00Z");
        let written = |text: &str| ObjectMeta {
            creation_timestamp: Some(Time(at("2020-01-01T00:00:00Z"))),
            annotations: Some([(labels::UPDATED_AT.to_owned(), text.to_owned())].into()),
            ..ObjectMeta::default()
        };
        for (text, old) in [
            ("2026-01-01T11:00:00Z", true),
            ("2026-01-01T11:00:01Z", false),
            ("2026-01-01T12:30:00Z", false),
            ("2026-01-01T23:00:00Z", false),
            ("nonsense", false),
        ] {
            assert_eq!(is_older(&written(text), hour, now), old, "{text}");
        }
        let made = ObjectMeta {
            annotations: None,
            ..written("")
        };
        assert!(is_older(&made, hour, now));
        assert!(!is_older(&ObjectMeta::default(), hour, now));
    }
}

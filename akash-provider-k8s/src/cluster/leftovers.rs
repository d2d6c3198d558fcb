//! Passwords of records that never came to be.
//!
//! The Secret is written before the record that needs it, so that no record is without its passwords. Where the
//! record then fails, the Secret is taken back at once if that is certain, with the teardown of its lease, or here.

use super::passwords::secret_name;
use super::{Inner, KubeCluster, LeadershipGate};
use crate::crd::Manifest;
use crate::error::{from_kube, within};
use crate::labels;
use akash_provider_core::error::Error;
use akash_provider_core::types::LeaseId;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Preconditions};
use std::time::Duration;

const COLLECT: &str = "collect_passwords";
/// Between two searches for passwords without a record.
const EVERY: Duration = Duration::from_hours(1);
/// A record follows its Secret within seconds. One that is not there after so long was given up, whatever the clocks
/// of two providers say.
const GIVEN_UP: Duration = Duration::from_hours(1);
/// Secrets of one page of a list.
const PAGE: u32 = 500;

impl KubeCluster {
    /// Searches for passwords without a record, as soon as its provider leads and every hour. Never ends.
    pub async fn follow_leftovers(&self, leading: &LeadershipGate) {
        loop {
            leading.begins().await;
            match leading.during(self.collect_passwords()).await {
                Some(Ok(0)) => {}
                Some(Ok(secrets)) => {
                    tracing::info!(secrets, "passwords of records that never came to be: deleted");
                }
                Some(Err(error)) => tracing::warn!(%error, "passwords without a record are not searched for"),
                // Deposed in the middle: the next term begins with a search, not with the wait.
                None => continue,
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Deletes the Secrets of passwords that were written more than an hour ago for a lease of ours of which the API
    /// server has no record. How many it were.
    ///
    /// # Errors
    /// As the API server answers; what was not reached is found by the next search.
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

impl Inner {
    /// Takes back what was written for a record that was refused, where the API server says that there is none. What
    /// is in doubt stays, for the teardown or the search.
    pub(super) async fn take_back_passwords(&self, lease: &LeaseId, operation: &'static str) {
        let there = self.records::<Manifest>(operation).read(&lease.namespace()).await;
        let taken = match there {
            Ok(None) => self.delete_passwords(lease, operation).await,
            Ok(Some(_)) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            tracing::debug!(%lease, %error, "passwords without a record stay for the moment");
        }
    }

    /// True when the Secret was deleted.
    async fn collect(&self, secret: &ObjectMeta) -> Result<bool, Error> {
        let Some(lease) = self.given_up(secret, Timestamp::now()) else {
            return Ok(false);
        };
        let home = lease.namespace();
        // The cache first: it saves a call for every lease that runs.
        if self.cached(self.manifests(), &home).is_some()
            || self.records::<Manifest>(COLLECT).read(&home).await?.is_some()
        {
            return Ok(false);
        }
        let name = secret_name(&home);
        let params = DeleteParams {
            // One that was written meanwhile is for a record that comes.
            preconditions: Some(Preconditions {
                uid: secret.uid.clone(),
                resource_version: secret.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let api = self.secrets();
        let call = async { Ok(api.delete(&name, &params).await) };
        match within(self.settings.call_timeout, COLLECT, call).await? {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                return Ok(false);
            }
            Err(error) => return Err(from_kube(COLLECT, error)),
        }
        self.passwords.forget(&name);
        Ok(true)
    }

    /// The lease of a Secret of passwords that is ours and old enough; nothing for any other.
    fn given_up(&self, secret: &ObjectMeta, now: Timestamp) -> Option<LeaseId> {
        let lease = secret.labels.as_ref().and_then(labels::lease_of)?;
        let is_ours = lease.provider == self.settings.provider
            && !self.is_of_other_chain(secret)
            && secret.name.as_deref() == Some(&secret_name(&lease.namespace()));
        (is_ours && is_older(secret, GIVEN_UP, now)).then_some(lease)
    }
}

/// By what we wrote last, else by when it was made. What says neither is not old.
fn is_older(meta: &ObjectMeta, age: Duration, now: Timestamp) -> bool {
    let said = meta.annotations.as_ref().and_then(|a| a.get(labels::UPDATED_AT));
    let written = match said {
        Some(text) => text.parse::<Timestamp>().ok(),
        None => meta.creation_timestamp.as_ref().map(|time| time.0),
    };
    // A time to come is a wrong clock and no age.
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
    fn age_is_counted_from_the_last_write_and_doubt_is_young() {
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

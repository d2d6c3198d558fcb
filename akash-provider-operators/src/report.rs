//! Status types that all operators share, in the format of the Go operators.

use super::operator_state::{OperatorIndex, OperatorShared, OperatorState};
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::time::rfc3339;
use akash_provider_kube_kernel::watch::{DEFINITIONS, WatchState};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// State of a watch.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct WatchStatus {
    /// True if the operator waits for the first complete list of this watch.
    pub is_needed: bool,
    /// All objects have been listed at least once.
    pub synced: bool,
    /// Seconds since the watch stopped working; `None` while the watch works.
    pub down_for_seconds: Option<u64>,
    /// Last error of the watch, retained after the watch works again.
    pub last_error: Option<String>,
}

/// Identifier of a lease, with one field for each part.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct LeaseParts {
    /// Address of the tenant.
    pub owner: String,
    /// Sequence number of the deployment.
    pub dseq: u64,
    /// Sequence number of the group.
    pub gseq: u32,
    /// Sequence number of the order.
    pub oseq: u32,
    /// Address of the provider.
    pub provider: String,
}

/// Lease on the ignore list, in the format of the Go operators.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct IgnoredLease {
    /// Hostnames with failed writes or problems. The IP operator stores its sharing keys in this field.
    pub hostnames: Vec<String>,
    /// Error of the last failed write, or the last problem.
    pub last_error: String,
    /// Kind of the error in `last_error`, or `Problem` if no write was attempted.
    pub last_error_type: String,
    /// Time of the error or problem in `last_error`, RFC 3339.
    pub failed_at: String,
    /// Highest number of consecutive failed writes of one name. If `last_error_type` is `Problem`, the number
    /// is 1.
    pub failure_count: u32,
    /// Namespace of the lease.
    pub namespace: String,
}

impl From<&LeaseId> for LeaseParts {
    fn from(lease: &LeaseId) -> Self {
        let group = &lease.order.group;
        Self {
            owner: group.deployment.owner.to_string(),
            dseq: group.deployment.dseq,
            gseq: group.gseq,
            oseq: lease.order.oseq,
            provider: lease.provider.to_string(),
        }
    }
}

impl WatchStatus {
    pub(super) fn new(watch: &WatchState, is_needed: bool) -> Self {
        Self {
            is_needed,
            synced: watch.synced,
            down_for_seconds: watch.down_for().map(|down| down.as_secs()),
            last_error: watch.last_error.clone(),
        }
    }
}

impl<I: OperatorIndex> OperatorState<I> {
    /// Returns the states of the watches. If a kind was missing, the result includes the watch of
    /// CustomResourceDefinitions.
    pub(super) fn watch_status(&self, inner: &OperatorShared<I>) -> BTreeMap<&'static str, WatchStatus> {
        let mut status = inner.watch_status();
        let fares = self.definitions.watch_state();
        status.extend(fares.map(|watch| (DEFINITIONS, WatchStatus::new(&watch, false))));
        status
    }
}

impl<I: OperatorIndex> OperatorShared<I> {
    pub(super) fn watch_status(&self) -> BTreeMap<&'static str, WatchStatus> {
        let statuses = self
            .watches
            .iter()
            .map(|(key, watch)| (*key, WatchStatus::new(watch, self.index.needs(key))));
        statuses.collect()
    }

    /// Returns the failures and problems by lease. `of` returns the lease of a name, and the text to report.
    /// Names for which `of` returns `None` are omitted.
    pub(super) fn ignored(
        &self,
        of: impl Fn(&I, &str) -> Option<(LeaseId, String)>,
    ) -> BTreeMap<String, IgnoredLease> {
        let now = Instant::now();
        let mut leases: BTreeMap<String, IgnoredLease> = BTreeMap::new();
        let failures = self.queue.failures().map(|(name, failed)| {
            let kind = format!("{:?}", failed.kind);
            (name, failed.error.clone(), kind, failed.at, failed.failures)
        });
        let problems = self
            .problems
            .iter()
            .map(|(name, problem)| (name, problem.text.clone(), "Problem".to_owned(), problem.since, 1));
        for (name, last_error, last_error_type, at, failure_count) in failures.chain(problems) {
            let Some((lease, hostname)) = of(&self.index, name) else {
                continue;
            };
            let failed_at = date_of(at, now);
            let entry = leases.entry(lease.to_string()).or_insert_with(|| IgnoredLease {
                hostnames: Vec::new(),
                last_error: String::new(),
                last_error_type: String::new(),
                failed_at: String::new(),
                failure_count: 0,
                namespace: lease.namespace(),
            });
            if !entry.hostnames.contains(&hostname) {
                entry.hostnames.push(hostname);
            }
            entry.failure_count = entry.failure_count.max(failure_count);
            // RFC 3339 times in UTC compare as text.
            if failed_at >= entry.failed_at {
                entry.last_error = last_error;
                entry.last_error_type = last_error_type;
                entry.failed_at = failed_at;
            }
        }
        leases
    }
}

fn date_of(at: Instant, now: Instant) -> String {
    // The clock of an `Instant` has no date, so its age is subtracted from the current time.
    let ago = SignedDuration::try_from(now.saturating_duration_since(at)).unwrap_or_default();
    let then = Timestamp::now().checked_sub(ago).unwrap_or_default();
    rfc3339(then)
}

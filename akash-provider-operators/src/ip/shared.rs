//! State that the watches, the writer and the status share: the index, the metrics of MetalLB and the logged notices.

use super::balancer::Mode;
use super::index::{IpEvent, IpIndex, POOLS};
use super::live::LiveService;
use super::usage::{NewNotices, Notice};
use crate::operator_state::OperatorState;
use crate::queue::RetryPolicy;
use akash_provider_core::types::Address;
use akash_provider_kube_kernel::watch::Definitions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Names of the other watches in the status.
pub(super) const RECORDS: &str = "providerleasedips";
pub(super) const MANIFESTS: &str = "manifests";
pub(super) const SERVICES: &str = "services";

/// Address counts from the metrics of MetalLB, compared with the address counts of this operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MetricsStatus {
    /// Source of the metrics, for display.
    pub of: String,
    /// Total number of addresses in the counted pools, according to MetalLB.
    pub total: Option<u32>,
    /// Number of used addresses in the counted pools, according to MetalLB.
    pub in_use: Option<u32>,
    /// Difference between the counts of MetalLB and of this operator. `None` unless two successive
    /// comparisons found a difference.
    pub differs: Option<String>,
    /// Reason why the counts are unknown.
    pub error: Option<String>,
    /// Time of the last request for the metrics, RFC 3339.
    pub at: Option<String>,
}

#[derive(Debug)]
pub(super) struct IpOperatorState {
    pub(super) state: Arc<OperatorState<IpIndex>>,
    metrics: Mutex<MetricsStatus>,
    /// Logged notices, by Service. A notice in this map is not logged again.
    logged: Mutex<BTreeMap<String, Vec<Notice>>>,
}

impl IpOperatorState {
    pub(super) fn new(
        provider: Address,
        mode: Mode,
        patience: RetryPolicy,
        definitions: Definitions,
    ) -> Self {
        let watches = [RECORDS, MANIFESTS, SERVICES, POOLS];
        Self {
            state: Arc::new(OperatorState::new(
                IpIndex::new(provider, mode),
                patience,
                watches,
                definitions,
            )),
            metrics: Mutex::default(),
            logged: Mutex::default(),
        }
    }

    pub(super) fn metrics(&self) -> MetricsStatus {
        self.metrics
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn set_metrics(&self, metrics: MetricsStatus) -> MetricsStatus {
        let mut current = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut current, metrics)
    }

    /// Logs new notices, and stores all notices.
    pub(super) fn log(&self, notices: BTreeMap<String, Vec<Notice>>) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let new_notices = NewNotices::new(&logged, &notices);
        for (service, notice) in &new_notices.odd {
            tracing::warn!(
                service,
                notice = notice.to_string(),
                "leased address of a Service is outside the pool, or shared with another lease; check the pools of MetalLB"
            );
        }
        // During an outage of MetalLB all Services wait, so they share one line.
        if let Some(services) = new_notices.late() {
            tracing::warn!(
                services,
                "Services still wait for a leased address; check MetalLB and the free addresses of its pools"
            );
        }
        *logged = notices;
    }

    /// Applies a write of this operator to the index, before the watch reports the write.
    pub(super) fn written(&self, place: &str, meta: &ObjectMeta, body: &Value) {
        self.state.inner().counts.written += 1;
        let live = LiveService::written(meta, body, Timestamp::now());
        self.state.apply(IpEvent::Written(place.to_owned(), live));
    }

    /// Removes a deleted Service from the index, before the watch reports the deletion.
    pub(super) fn deleted(&self, place: &str, uid: &str) {
        self.state.inner().counts.deleted += 1;
        self.state
            .apply(IpEvent::Deleted(place.to_owned(), uid.to_owned()));
    }

    /// Retries the failed Services of a lease immediately, and returns their number.
    pub(super) fn forget(&self, lease: &str) -> usize {
        self.state.forget(|index, place| {
            let leased = index.leased(place);
            leased.is_some_and(|leased| leased.lease.to_string() == lease)
        })
    }
}

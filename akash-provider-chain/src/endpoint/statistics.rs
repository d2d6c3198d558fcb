//! Counters of the requests to an endpoint.

use crate::fault::Fault;
use akash_provider_core::statistics::{CALL_BOUNDS, CounterMap, DurationCounts, DurationHistogram};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of error counters: enough for every variant of [`Fault`].
const ERRORS_MAX: usize = 32;

/// Statistics of the requests to one endpoint since the start of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointStatistics {
    /// Address of the endpoint, without credentials.
    pub address: Arc<str>,
    /// Response times of the endpoint. Requests without a response are not counted.
    pub responses: DurationCounts,
    /// Number of faults for each [`Fault::name`]. A missing record is a response, not a fault.
    pub errors: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
pub(crate) struct EndpointCounters {
    responses: DurationHistogram,
    errors: CounterMap<&'static str>,
}

impl EndpointCounters {
    pub(crate) fn new() -> Self {
        Self {
            responses: DurationHistogram::new(&CALL_BOUNDS),
            errors: CounterMap::new(ERRORS_MAX, "other"),
        }
    }

    /// Records the response time if the node returned a result or refused the request.
    pub(crate) fn count_result<T>(&self, result: &Result<T, Fault>, took: Duration) {
        let has_response = matches!(
            result,
            Ok(_)
                | Err(Fault::NotFound { .. } | Fault::Refused { .. } | Fault::Pruned(_))
                | Err(Fault::HeightUnavailable(_))
        );
        if has_response {
            self.responses.record(took);
        }
    }

    pub(crate) fn count_fault(&self, fault: &Fault) {
        if !matches!(fault, Fault::NotFound { .. }) {
            self.errors.increment(fault.name());
        }
    }

    pub(crate) fn statistics(&self, address: &Arc<str>) -> EndpointStatistics {
        EndpointStatistics {
            address: Arc::clone(address),
            responses: self.responses.values(),
            errors: self.errors.values(),
        }
    }
}

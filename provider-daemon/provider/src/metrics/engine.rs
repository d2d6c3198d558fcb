//! Metrics of the engine: orders, bids, leases, money and capacity.

mod capacity;
mod go_names;
mod leases;
mod orders;
mod state;
#[cfg(test)]
mod tests;

use super::convert::number;
use super::{Measure, MetricSource};
use akash_provider_core::engine::Status;
use akash_provider_core::provider::{ProviderHandle, ProviderStatistics};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Source of the metrics of a running provider.
#[derive(Debug)]
pub struct EngineSource {
    handle: ProviderHandle,
    /// Number of external ports that the provider offers (`--cluster-node-port-quantity`).
    external_ports: u32,
    is_per_lease: bool,
    status: RwLock<Arc<Status>>,
}

impl EngineSource {
    /// Creates a metric source. With `is_per_lease`, some metrics have one value per lease.
    #[must_use]
    pub fn new(handle: ProviderHandle, external_ports: u32, is_per_lease: bool) -> Self {
        Self {
            handle,
            external_ports,
            is_per_lease,
            status: RwLock::default(),
        }
    }
}

#[derive(Debug)]
struct Values<'a> {
    status: &'a Status,
    counts: &'a ProviderStatistics,
    external_ports: u32,
}

impl MetricSource for EngineSource {
    fn measures(&self) -> Vec<Measure> {
        let status = Arc::clone(&self.status.read().unwrap_or_else(PoisonError::into_inner));
        let values = Values {
            status: &status,
            counts: &self.handle.statistics(),
            external_ports: self.external_ports,
        };
        let mut measures = orders::measures(&values);
        measures.extend(leases::measures(&values));
        measures.extend(state::measures(&values));
        measures.extend(capacity::measures(&values));
        measures.extend(go_names::measures(&values));
        if self.is_per_lease {
            measures.extend(leases::per_lease(&status, &self.handle));
        }
        measures
    }

    fn refresh(&self) -> BoxFuture<'_, ()> {
        async {
            // A provider that does not respond keeps the previous values.
            if let Some(status) = self.handle.try_status().await {
                *self.status.write().unwrap_or_else(PoisonError::into_inner) = status;
            }
        }
        .boxed()
    }
}

/// Counts by the value of one label.
type LabelCounts = BTreeMap<&'static str, u64>;
/// Counts by the values of two labels.
type PairCounts = BTreeMap<(&'static str, &'static str), u64>;

/// Adds a value for each count, with the name of the count as the label `label`. Adds the value 0 for each
/// name in `values` that `counts` lacks.
fn by_name(measure: Measure, label: &'static str, values: &[&str], counts: &LabelCounts) -> Measure {
    let measure = values
        .iter()
        .fold(measure, |measure, name| measure.with([(label, name)], 0.0));
    counts.iter().fold(measure, |measure, (name, count)| {
        measure.with([(label, name)], number(*count))
    })
}

/// Adds one value for each combination of the label values. A combination that is missing in `counts` gets
/// the value 0.
fn by_pair(
    measure: Measure,
    labels: [&'static str; 2],
    values: [&[&str]; 2],
    counts: &PairCounts,
) -> Measure {
    let pairs = values[0]
        .iter()
        .flat_map(|first| values[1].iter().map(move |second| (*first, *second)));
    let measure = pairs.fold(measure, |measure, (first, second)| {
        measure.with([(labels[0], first), (labels[1], second)], 0.0)
    });
    counts.iter().fold(measure, |measure, ((first, second), count)| {
        measure.with([(labels[0], first), (labels[1], second)], number(*count))
    })
}

fn of(counts: &LabelCounts, name: &str) -> u64 {
    counts.get(name).copied().unwrap_or_default()
}

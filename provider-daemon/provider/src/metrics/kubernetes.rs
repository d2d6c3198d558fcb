//! Metrics of the Kubernetes backend: requests, watches, operations, drift, ignored resources.

use super::convert::{flag, length, number, seconds};
use super::kube_calls::{go_actions, go_result};
use super::{InventoryWatches, Measure, MetricSource, OperatorValues, inventory, operators};
use crate::run::cluster_proxy::ClusterProxy;
use akash_provider_k8s::state::{CachedKind, WatchState};
use akash_provider_k8s::statistics::{ApiCalls, ApiStatistics, ClusterStatistics, IgnoredResources};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct KubernetesSource {
    calls: ApiCalls,
    proxy: ClusterProxy,
}

#[derive(Debug)]
pub(crate) struct ClusterValues {
    pub(crate) statistics: ClusterStatistics,
    pub(crate) watches: BTreeMap<CachedKind, WatchState>,
    pub(crate) ignored: IgnoredResources,
    /// Number of objects with the label `akash.network=true` and without a lease.
    pub(crate) orphans: usize,
    /// States of the inventory watches, by kind of object.
    pub(crate) inventory: InventoryWatches,
    /// Metric values of the operators in this process.
    pub(crate) operators: Vec<OperatorValues>,
}

impl KubernetesSource {
    pub(crate) const fn new(calls: ApiCalls, proxy: ClusterProxy) -> Self {
        Self { calls, proxy }
    }
}

impl MetricSource for KubernetesSource {
    fn measures(&self) -> Vec<Measure> {
        let values = self.proxy.kubernetes_values();
        let connected = Measure::gauge(
            "akash_provider_kubernetes_connected",
            "1 after the cluster responded once",
        );
        let mut measures = vec![connected.with([], flag(values.is_some()))];
        measures.extend(self.calls.measures());
        measures.extend(watches(values.iter().flat_map(|values| &values.watches)));
        measures.extend(operations(values.as_ref().map(|values| &values.statistics)));
        measures.push(ignored(values.as_ref()));
        let (counted, embedded) =
            values.map_or_else(Default::default, |values| (values.inventory, values.operators));
        measures.extend(inventory::measures(&counted));
        measures.extend(operators::measures(&embedded));
        measures
    }
}

impl MetricSource for ApiCalls {
    fn measures(&self) -> Vec<Measure> {
        requests(&self.statistics()).into()
    }
}

fn requests(statistics: &ApiStatistics) -> [Measure; 3] {
    let mut requests = Measure::counter("akash_provider_kubernetes_requests", "Requests to the API server");
    let mut compatible = Measure::go_counter(
        "provider_kube_calls",
        "Requests to the API server, with action names of the Go provider",
    );
    for (call, count) in &statistics.calls {
        let labels = [
            ("verb", call.verb.name()),
            ("resource", call.resource),
            ("result", call.result.name()),
        ];
        requests = requests.with(labels, number(*count));
        for action in go_actions(call) {
            let labels = [("action", &*action), ("result", go_result(call))];
            compatible = compatible.with(labels, number(*count));
        }
    }
    let durations = Measure::histogram(
        "akash_provider_kubernetes_request_duration_seconds",
        "Time until the start of the response, except for watches",
    );
    let durations = durations
        .with_histogram([("type", "read")], seconds(&statistics.reads))
        .with_histogram([("type", "write")], seconds(&statistics.writes));
    [requests, compatible, durations]
}

fn watches<'a>(watches: impl Iterator<Item = (&'a CachedKind, &'a WatchState)>) -> [Measure; 5] {
    let mut up = Measure::gauge(
        "akash_provider_kubernetes_watch_up",
        "1 if the watch works and has listed all objects",
    );
    let mut down = Measure::gauge(
        "akash_provider_kubernetes_watch_down_seconds",
        "Seconds since the watch failed; 0 while the watch works",
    );
    let mut starts = Measure::counter("akash_provider_kubernetes_watch_starts", "Started watches");
    let mut lists = Measure::counter(
        "akash_provider_kubernetes_watch_lists",
        "Complete lists that the watch has read",
    );
    let mut failures = Measure::counter("akash_provider_kubernetes_watch_failures", "Failures of watches");
    for (kind, watch) in watches {
        let labels = [("kind", kind.as_str())];
        up = up.with(labels, flag(watch.synced && watch.down_since.is_none()));
        down = down.with(labels, watch.down_for().unwrap_or_default().as_secs_f64());
        starts = starts.with(labels, number(watch.starts));
        lists = lists.with(labels, number(watch.lists));
        failures = failures.with(labels, number(watch.failures));
    }
    [up, down, starts, lists, failures]
}

fn operations(statistics: Option<&ClusterStatistics>) -> [Measure; 5] {
    let mut durations = Measure::histogram(
        "akash_provider_kubernetes_operation_duration_seconds",
        "Duration of deploys, teardown steps and repairs",
    );
    let mut failures = Measure::counter(
        "akash_provider_kubernetes_operation_failures",
        "Failed deploys, teardown steps and repairs",
    );
    let mut drift = Measure::counter(
        "akash_provider_drift_objects",
        "Objects that another client changed in a lease namespace, by outcome",
    );
    let mut waiting = Measure::gauge(
        "akash_provider_drift_waiting_leases",
        "Leases that are compared again later, for example after a failed repair",
    );
    let mut queued = Measure::gauge(
        "akash_provider_drift_queued_leases",
        "Leases queued for comparison and repair",
    );
    let Some(statistics) = statistics else {
        return [durations, failures, drift, waiting, queued];
    };
    for (operation, counts) in &statistics.durations {
        let failed = statistics.failures.get(operation).copied().unwrap_or(0);
        let labels = [("operation", operation.name())];
        durations = durations.with_histogram(labels, seconds(counts));
        failures = failures.with(labels, number(failed));
    }
    for ((kind, outcome), count) in &statistics.drift {
        drift = drift.with([("kind", *kind), ("outcome", outcome.name())], number(*count));
    }
    waiting = waiting.with([], length(statistics.waiting_leases));
    queued = queued.with([], length(statistics.queued_leases));
    [durations, failures, drift, waiting, queued]
}

fn ignored(values: Option<&ClusterValues>) -> Measure {
    let help = "Ignored nodes, storage classes and objects of the cluster, by reason";
    let measure = Measure::gauge("akash_provider_ignored_resources", help);
    let Some(ClusterValues { ignored, orphans, .. }) = values else {
        return measure;
    };
    let counts = [
        ("unlabelled_node", ignored.unlabelled_nodes),
        ("closed_node", ignored.closed_nodes),
        ("storage_class", ignored.storage_classes),
        ("unreadable_manifest", ignored.unreadable_manifests),
        ("unreadable_kind", ignored.unreadable_kinds),
        ("orphan", *orphans),
    ];
    measure.counted("reason", counts)
}

#[cfg(test)]
mod tests;

//! Metrics of the Kubernetes backend: requests, watches, operations, drift, ignored resources.

use super::convert::{flag, length, number, seconds};
use super::{Measure, MetricSource};
use crate::run::ClusterProxy;
use akash_provider_k8s::state::{Kind, WatchState};
use akash_provider_k8s::statistics::{
    ApiCall, ApiCalls, ApiResult, ApiStatistics, ClusterStatistics, IgnoredResources, Verb,
};
use std::collections::BTreeMap;

/// Source of the metrics of the Kubernetes backend.
#[derive(Debug)]
pub(crate) struct KubernetesSource {
    calls: ApiCalls,
    proxy: ClusterProxy,
}

/// Values of a connected cluster.
#[derive(Debug)]
pub(crate) struct ClusterValues {
    pub(crate) statistics: ClusterStatistics,
    pub(crate) watches: BTreeMap<Kind, WatchState>,
    pub(crate) ignored: IgnoredResources,
    /// Number of objects with the label `akash.network=true` that belong to no lease.
    pub(crate) orphans: usize,
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
        measures.extend(requests(&self.calls.statistics()));
        measures.extend(watches(values.iter().flat_map(|values| &values.watches)));
        measures.extend(operations(values.as_ref().map(|values| &values.statistics)));
        measures.push(ignored(values.as_ref()));
        measures
    }
}

fn requests(statistics: &ApiStatistics) -> [Measure; 3] {
    let mut requests = Measure::counter("akash_provider_kubernetes_requests", "Requests to the API server");
    let mut compatible = Measure::go_counter(
        "provider_kube_calls",
        "Requests to the API server by action of the Go provider",
    );
    for (call, count) in &statistics.calls {
        let labels = [
            ("verb", call.verb.name()),
            ("resource", call.resource),
            ("result", call.result.name()),
        ];
        requests = requests.with(labels, number(*count));
        if let Some(action) = go_action(call) {
            let labels = [("action", action), ("result", go_result(call))];
            compatible = compatible.with(labels, number(*count));
        }
    }
    let durations = Measure::histogram(
        "akash_provider_kubernetes_request_duration_seconds",
        "Time until the start of the response, without watches",
    );
    let durations = durations
        .with_histogram([("type", "read")], seconds(&statistics.reads))
        .with_histogram([("type", "write")], seconds(&statistics.writes));
    [requests, compatible, durations]
}

/// Returns the value of the label `result` in the Go provider's request metric. A read of a missing object counts as
/// `success`.
fn go_result(call: &ApiCall) -> &'static str {
    match call.result {
        ApiResult::Success | ApiResult::Created => "success",
        ApiResult::NotFound if call.verb.is_read() => "success",
        _ => "fail",
    }
}

/// Returns the value of the label `action` in the Go provider's request metric, or `None` for a request that the Go
/// provider does not count.
fn go_action(call: &ApiCall) -> Option<&'static str> {
    use Verb::{Apply, Create, Delete, Get, List, Patch, Update, Watch};
    // The response to an apply shows whether the object is new.
    let verb = match (call.verb, call.result) {
        (Apply, ApiResult::Created) => Create,
        (Apply, _) => Update,
        (verb, _) => verb,
    };
    let action = match (call.resource, verb) {
        ("namespaces", Get) => "namespaces-get",
        ("namespaces", Create) => "namespaces-create",
        ("namespaces", Update | Patch) => "namespaces-update",
        ("namespaces", Delete) => "namespaces-delete",
        ("networkpolicies", Get) => "networking-policies-get",
        ("networkpolicies", Create) => "networking-policies-create",
        ("networkpolicies", Update | Patch) => "networking-policies-update",
        ("secrets", Get) => "secrets-get",
        ("secrets", Create) => "secrets-create",
        ("secrets", Update | Patch) => "secrets-update",
        ("deployments", Get) => "deployments-get",
        ("deployments", Create) => "deployments-create",
        ("deployments", Update) => "deployments-update",
        ("deployments", Patch) => "deployments-patch",
        ("deployments", List) => "deployments-list",
        ("services", Get) => "services-get",
        ("services", Create) => "services-create",
        ("services", Update | Patch) => "services-update",
        ("services", List) => "services-list",
        ("serviceaccounts", Get) => "serviceaccounts-get",
        ("serviceaccounts", Create) => "serviceaccounts-create",
        ("serviceaccounts", Update | Patch) => "serviceaccounts-update",
        ("roles", Get) => "roles-get",
        ("roles", Create) => "roles-create",
        ("roles", Update | Patch) => "roles-update",
        ("rolebindings", Get) => "rolebindings-get",
        ("rolebindings", Create) => "rolebindings-create",
        ("rolebindings", Update | Patch) => "rolebindings-update",
        ("statefulsets", Get) => "statefulset-get",
        ("statefulsets", Create) => "statefulset-create",
        ("statefulsets", Update | Patch) => "statefulset-update",
        ("statefulsets", List) => "statefulsets-list",
        ("manifests", Get) => "akash-manifests-get",
        ("manifests", Create) => "akash-manifests-create",
        ("manifests", Update | Patch) => "akash-manifests-update",
        ("manifests", List) => "manifests-list",
        ("manifests", Delete) => "manifests-delete",
        ("ingresses", Get) => "ingresses-get",
        ("ingresses", Create) => "networking-ingresses-create",
        ("ingresses", Update | Patch) => "networking-ingresses-update",
        ("httproutes", Create) => "gateway-httproutes-create",
        ("httproutes", Update | Patch) => "gateway-httproutes-update",
        ("httproutes", Delete) => "gateway-httproutes-delete",
        ("pods", List) => "pods-list",
        ("pods/log", Get) => "pods-getlogs",
        ("events", List) => "events-list",
        ("events", Watch) => "events-follow",
        ("providerhosts", List) => "providerhosts-list",
        ("providerhosts", Create | Update | Patch | Delete) => "provider-hosts",
        ("version", Get) => "discovery-serverversion",
        _ => return None,
    };
    Some(action)
}

fn watches<'a>(watches: impl Iterator<Item = (&'a Kind, &'a WatchState)>) -> [Measure; 5] {
    let mut up = Measure::gauge(
        "akash_provider_kubernetes_watch_up",
        "1 if the watch works and has listed all objects",
    );
    let mut down = Measure::gauge(
        "akash_provider_kubernetes_watch_down_seconds",
        "Seconds since the watch failed; 0 while it works",
    );
    let mut starts = Measure::counter("akash_provider_kubernetes_watch_starts", "Started watches");
    let mut lists = Measure::counter("akash_provider_kubernetes_watch_lists", "Complete lists");
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

fn operations(statistics: Option<&ClusterStatistics>) -> [Measure; 4] {
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
        "Objects of leases that another client changed",
    );
    let mut waiting = Measure::gauge(
        "akash_provider_drift_waiting_leases",
        "Leases that wait for the next repair",
    );
    let Some(statistics) = statistics else {
        return [durations, failures, drift, waiting];
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
    [durations, failures, drift, waiting]
}

fn ignored(values: Option<&ClusterValues>) -> Measure {
    let help = "Resources of the cluster that the provider does not use";
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
mod tests {
    use super::*;

    fn call(verb: Verb, resource: &'static str, result: ApiResult) -> ApiCall {
        ApiCall {
            verb,
            resource,
            result,
        }
    }

    #[test]
    fn requests_have_the_actions_and_results_of_the_go_provider() {
        let cases = [
            (
                call(Verb::Get, "namespaces", ApiResult::NotFound),
                Some("namespaces-get"),
                "success",
            ),
            (
                call(Verb::Delete, "namespaces", ApiResult::NotFound),
                Some("namespaces-delete"),
                "fail",
            ),
            (
                call(Verb::Apply, "deployments", ApiResult::Created),
                Some("deployments-create"),
                "success",
            ),
            (
                call(Verb::Apply, "deployments", ApiResult::Success),
                Some("deployments-update"),
                "success",
            ),
            (
                call(Verb::Apply, "roles", ApiResult::Denied),
                Some("roles-update"),
                "fail",
            ),
            (
                call(Verb::Watch, "events", ApiResult::Success),
                Some("events-follow"),
                "success",
            ),
            (
                call(Verb::Get, "pods/log", ApiResult::Unreachable),
                Some("pods-getlogs"),
                "fail",
            ),
            (
                call(Verb::Get, "version", ApiResult::Success),
                Some("discovery-serverversion"),
                "success",
            ),
            (call(Verb::Watch, "pods", ApiResult::Success), None, "success"),
            (call(Verb::List, "nodes", ApiResult::Success), None, "success"),
        ];
        for (call, action, result) in cases {
            assert_eq!((go_action(&call), go_result(&call)), (action, result), "{call:?}");
        }
    }
}

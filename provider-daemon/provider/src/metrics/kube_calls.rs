//! Requests to the API server with the names of the Go provider.

use akash_provider_k8s::statistics::{ApiCall, ApiResult, Verb};

/// Returns the label `result` of the Go provider's request metric. A read of a missing object is a `success`.
pub(super) fn go_result(call: &ApiCall) -> &'static str {
    match call.result {
        ApiResult::Success | ApiResult::Created => "success",
        ApiResult::NotFound if call.verb.is_read() => "success",
        _ => "fail",
    }
}

/// Returns the values of the label `action` in the request metric of the Go provider. Returns no value if the
/// Go provider does not count the request, and two values if the Go provider counts the request under two
/// names.
pub(super) fn go_actions(call: &ApiCall) -> impl Iterator<Item = &'static str> {
    let action = go_action(call);
    let alias = match action {
        Some("akash-manifests-get") => Some("manifests-get"),
        Some("namespaces-get") => Some("namespace-get"),
        Some("statefulset-get") => Some("statefulsets-get"),
        Some("providerhosts-list") => Some("provider-hosts"),
        _ => None,
    };
    action.into_iter().chain(alias)
}

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
        ("version", Get) => "discovery-serverversion",
        _ => return None,
    };
    Some(action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn call(verb: Verb, resource: &'static str, result: ApiResult) -> ApiCall {
        ApiCall {
            verb,
            resource,
            result,
        }
    }

    /// Actions that the Go provider counts.
    const GO_ACTIONS: [&str; 53] = [
        "akash-manifests-create",
        "akash-manifests-get",
        "akash-manifests-update",
        "deployments-create",
        "deployments-get",
        "deployments-list",
        "deployments-patch",
        "deployments-update",
        "discovery-serverversion",
        "events-follow",
        "events-list",
        "gateway-httproutes-create",
        "gateway-httproutes-delete",
        "gateway-httproutes-update",
        "ingresses-get",
        "manifests-delete",
        "manifests-get",
        "manifests-list",
        "namespace-get",
        "namespaces-create",
        "namespaces-delete",
        "namespaces-get",
        "namespaces-update",
        "networking-ingresses-create",
        "networking-ingresses-update",
        "networking-policies-create",
        "networking-policies-get",
        "networking-policies-update",
        "pods-getlogs",
        "pods-list",
        "provider-hosts",
        "providerhosts-list",
        "rolebindings-create",
        "rolebindings-get",
        "rolebindings-update",
        "roles-create",
        "roles-get",
        "roles-update",
        "secrets-create",
        "secrets-get",
        "secrets-update",
        "serviceaccounts-create",
        "serviceaccounts-get",
        "serviceaccounts-update",
        "services-create",
        "services-get",
        "services-list",
        "services-update",
        "statefulset-create",
        "statefulset-get",
        "statefulset-update",
        "statefulsets-get",
        "statefulsets-list",
    ];

    const VERBS: [Verb; 8] = [
        Verb::Get,
        Verb::List,
        Verb::Watch,
        Verb::Create,
        Verb::Update,
        Verb::Patch,
        Verb::Apply,
        Verb::Delete,
    ];

    #[test]
    fn requests_have_all_actions_of_the_go_provider() {
        let resources = [
            "namespaces",
            "networkpolicies",
            "secrets",
            "deployments",
            "services",
            "serviceaccounts",
            "roles",
            "rolebindings",
            "statefulsets",
            "manifests",
            "ingresses",
            "httproutes",
            "pods",
            "pods/log",
            "events",
            "providerhosts",
            "version",
        ];
        let mut actions = BTreeSet::new();
        for resource in resources {
            for verb in VERBS {
                for result in [ApiResult::Success, ApiResult::Created] {
                    actions.extend(go_actions(&call(verb, resource, result)));
                }
            }
        }
        assert_eq!(actions, GO_ACTIONS.into());
    }

    #[test]
    fn requests_have_the_actions_and_results_of_the_go_provider() {
        use ApiResult::{Created, Denied, NotFound, Success, Unreachable};
        let cases: [(ApiCall, &[&str], &str); 12] = [
            (
                call(Verb::Get, "namespaces", NotFound),
                &["namespaces-get", "namespace-get"],
                "success",
            ),
            (
                call(Verb::List, "providerhosts", Success),
                &["providerhosts-list", "provider-hosts"],
                "success",
            ),
            (call(Verb::Apply, "providerhosts", Created), &[], "success"),
            (
                call(Verb::Delete, "namespaces", NotFound),
                &["namespaces-delete"],
                "fail",
            ),
            (
                call(Verb::Apply, "deployments", Created),
                &["deployments-create"],
                "success",
            ),
            (
                call(Verb::Apply, "deployments", Success),
                &["deployments-update"],
                "success",
            ),
            (call(Verb::Apply, "roles", Denied), &["roles-update"], "fail"),
            (
                call(Verb::Watch, "events", Success),
                &["events-follow"],
                "success",
            ),
            (
                call(Verb::Get, "pods/log", Unreachable),
                &["pods-getlogs"],
                "fail",
            ),
            (
                call(Verb::Get, "version", Success),
                &["discovery-serverversion"],
                "success",
            ),
            (call(Verb::Watch, "pods", Success), &[], "success"),
            (call(Verb::List, "nodes", Success), &[], "success"),
        ];
        for (call, actions, result) in cases {
            assert_eq!(go_actions(&call).collect::<Vec<_>>(), actions, "{call:?}");
            assert_eq!(go_result(&call), result, "{call:?}");
        }
    }
}

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

/// Resource, name of the resource in actions, and verbs that the Go provider counts.
const GO_ACTIONS: [(&str, &str, &str); 18] = [
    ("namespaces", "namespaces", "get create update delete"),
    ("networkpolicies", "networking-policies", "get create update"),
    ("secrets", "secrets", "get create update"),
    ("deployments", "deployments", "get create update patch list"),
    ("services", "services", "get create update list"),
    ("serviceaccounts", "serviceaccounts", "get create update"),
    ("roles", "roles", "get create update"),
    ("rolebindings", "rolebindings", "get create update"),
    ("statefulsets", "statefulset", "get create update"),
    ("statefulsets", "statefulsets", "list"),
    ("manifests", "akash-manifests", "get create update"),
    ("manifests", "manifests", "list delete"),
    ("ingresses", "ingresses", "get"),
    ("ingresses", "networking-ingresses", "create update"),
    ("httproutes", "gateway-httproutes", "create update delete"),
    ("pods", "pods", "list"),
    ("events", "events", "list"),
    ("providerhosts", "providerhosts", "list"),
];

/// Returns the values of the label `action` in the request metric of the Go provider. Returns no value if the
/// Go provider does not count the request, and two values if the Go provider counts the request under two
/// names.
pub(super) fn go_actions(call: &ApiCall) -> Vec<String> {
    let action = go_action(call);
    let alias = match action.as_deref() {
        Some("akash-manifests-get") => Some("manifests-get"),
        Some("namespaces-get") => Some("namespace-get"),
        Some("statefulset-get") => Some("statefulsets-get"),
        Some("providerhosts-list") => Some("provider-hosts"),
        _ => None,
    };
    let alias = alias.map(str::to_owned);
    action.into_iter().chain(alias).collect()
}

fn go_action(call: &ApiCall) -> Option<String> {
    let verb = match (call.verb, call.resource) {
        (Verb::Get, "pods/log") => return Some("pods-getlogs".to_owned()),
        (Verb::Get, "version") => return Some("discovery-serverversion".to_owned()),
        (Verb::Watch, "events") => return Some("events-follow".to_owned()),
        // The response to an apply shows whether the object is new.
        (Verb::Apply, _) if call.result == ApiResult::Created => Verb::Create,
        (Verb::Apply, _) => Verb::Update,
        (Verb::Patch, resource) if resource != "deployments" => Verb::Update,
        (verb, _) => verb,
    };
    let verb = verb.name();
    let is_counted = |verbs: &str| verbs.split(' ').any(|counted| counted == verb);
    let mut names = GO_ACTIONS
        .iter()
        .filter(|(resource, ..)| *resource == call.resource);
    let (_, name, _) = names.find(|(.., verbs)| is_counted(verbs))?;
    Some(format!("{name}-{verb}"))
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
    const COUNTED: &str = "
        akash-manifests-create akash-manifests-get akash-manifests-update deployments-create
        deployments-get deployments-list deployments-patch deployments-update discovery-serverversion
        events-follow events-list gateway-httproutes-create gateway-httproutes-delete
        gateway-httproutes-update ingresses-get manifests-delete manifests-get manifests-list
        namespace-get namespaces-create namespaces-delete namespaces-get namespaces-update
        networking-ingresses-create networking-ingresses-update networking-policies-create
        networking-policies-get networking-policies-update pods-getlogs pods-list provider-hosts
        providerhosts-list rolebindings-create rolebindings-get rolebindings-update roles-create
        roles-get roles-update secrets-create secrets-get secrets-update serviceaccounts-create
        serviceaccounts-get serviceaccounts-update services-create services-get services-list
        services-update statefulset-create statefulset-get statefulset-update statefulsets-get
        statefulsets-list
    ";

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
        let resources = GO_ACTIONS.iter().map(|(resource, ..)| *resource);
        let resources = resources.chain(["pods/log", "version"]);
        let mut actions = BTreeSet::new();
        for resource in resources {
            for verb in VERBS {
                for result in [ApiResult::Success, ApiResult::Created] {
                    actions.extend(go_actions(&call(verb, resource, result)));
                }
            }
        }
        assert_eq!(actions, COUNTED.split_whitespace().map(str::to_owned).collect());
    }

    #[test]
    fn requests_have_the_actions_and_results_of_the_go_provider() {
        use ApiResult::{Created, Denied, NotFound, Success, Unreachable};
        let cases = [
            (
                Verb::Get,
                "namespaces",
                NotFound,
                "namespaces-get namespace-get",
                "success",
            ),
            (
                Verb::List,
                "providerhosts",
                Success,
                "providerhosts-list provider-hosts",
                "success",
            ),
            (Verb::Apply, "providerhosts", Created, "", "success"),
            (Verb::Delete, "namespaces", NotFound, "namespaces-delete", "fail"),
            (
                Verb::Apply,
                "deployments",
                Created,
                "deployments-create",
                "success",
            ),
            (
                Verb::Apply,
                "deployments",
                Success,
                "deployments-update",
                "success",
            ),
            (Verb::Apply, "roles", Denied, "roles-update", "fail"),
            (Verb::Watch, "events", Success, "events-follow", "success"),
            (Verb::Get, "pods/log", Unreachable, "pods-getlogs", "fail"),
            (
                Verb::Get,
                "version",
                Success,
                "discovery-serverversion",
                "success",
            ),
            (Verb::Watch, "pods", Success, "", "success"),
            (Verb::List, "nodes", Success, "", "success"),
        ];
        for (verb, resource, result, actions, counted_as) in cases {
            let call = call(verb, resource, result);
            assert_eq!(go_actions(&call).join(" "), actions, "{call:?}");
            assert_eq!(go_result(&call), counted_as, "{call:?}");
        }
    }
}

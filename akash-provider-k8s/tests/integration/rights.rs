//! `kubectl apply` of `deploy/` does not change the rights of a Go provider that is installed in the same
//! cluster.

use akash_provider_k8s::rights::{Rule, required, required_in_leases};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Names of the ClusterRoles and ClusterRoleBindings in the Helm charts of the Go provider, 2021 to 2026.
const CHARTS: [&str; 16] = [
    "akash-ip-op-manage-service",
    "akash-ip-op-watch-configmaps",
    "akash-ip-op-watch-providerleasedip",
    "akash-ip-operator-manage-service",
    "akash-ip-operator-watch-configmaps",
    "akash-ip-operator-watch-providerleasedip",
    "akash-operator-hostname",
    "akash-operator-inventory",
    "akash-operator-ip",
    "akash-provider-admin",
    "hostname-operator-admin",
    "inventory-operator-admin",
    "ip-operator-admin",
    "operator-inventory",
    "operator-inventory-hardware-discovery",
    "provider-admin",
];

fn documents(folder: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(folder);
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    files
        .flat_map(|file| -> Vec<Value> {
            let text = std::fs::read_to_string(&file).unwrap();
            serde_saphyr::from_multiple(&text).unwrap()
        })
        .collect()
}

#[test]
fn cluster_roles_do_not_reuse_names_of_the_helm_charts() {
    let documents = [documents("operators"), documents("rbac")].concat();
    let rights = documents.iter().filter(|document| {
        document["kind"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("ClusterRole"))
    });
    let mut names: Vec<_> = rights
        .map(|document| document["metadata"]["name"].as_str().unwrap())
        .collect();
    for name in &names {
        assert!(!CHARTS.contains(name), "applying it replaces the chart's {name}");
    }
    names.sort_unstable();
    names.dedup();
    let own = ["hostname", "inventory", "ip"].map(|name| format!("provider-daemon-operator-{name}"));
    assert_eq!(names[names.len() - 3..], own);
    // A binding to a missing role grants no rights.
    for document in documents
        .iter()
        .filter(|document| document["kind"] == "ClusterRoleBinding")
    {
        assert!(
            names.contains(&document["roleRef"]["name"].as_str().unwrap()),
            "{document}"
        );
    }
}

/// Namespace, API group, resource, object name and verb of a right.
type Right = (String, String, String, String, String);

/// ClusterRole with the rights in the namespaces of leases.
const LEASE_ROLE: &str = "akash-provider-rs-lease";

/// Returns rights from `deploy/rbac`. If `is_lease` is true, returns the rights in lease namespaces,
/// otherwise all other rights.
fn deployed_rights(is_lease: bool) -> BTreeSet<Right> {
    let texts = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten();
        texts.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = BTreeSet::new();
    for document in documents("rbac") {
        let is_role = document["kind"] == "ClusterRole" || document["kind"] == "Role";
        if !is_role || (document["metadata"]["name"] == LEASE_ROLE) != is_lease {
            continue;
        }
        let namespace = document["metadata"]["namespace"].as_str().unwrap_or_default();
        for rule in document["rules"].as_array().unwrap() {
            let names = texts(&rule["resourceNames"]);
            let name = names.first().cloned().unwrap_or_default();
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        rights.insert((
                            namespace.into(),
                            group.clone(),
                            resource.clone(),
                            name.clone(),
                            verb,
                        ));
                    }
                }
            }
        }
    }
    rights
}

#[test]
fn required_rights_equal_the_deployed_roles() {
    assert_eq!(rights(required(), "lease"), deployed_rights(false));
    // A ClusterRole has no namespace.
    assert_eq!(rights(required_in_leases(), ""), deployed_rights(true));
}

fn rights(rules: &[Rule], namespace: &str) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in rules {
        let namespace = rule.scope.namespace(namespace).unwrap_or_default();
        let name = rule.name.unwrap_or_default();
        for resource in rule.resources {
            for verb in rule.verbs {
                rights.insert((
                    namespace.into(),
                    rule.group.into(),
                    (*resource).into(),
                    name.into(),
                    (*verb).into(),
                ));
            }
        }
    }
    rights
}

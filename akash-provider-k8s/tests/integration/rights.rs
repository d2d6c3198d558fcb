//! `kubectl apply` of `deploy/` does not change the rights of a Go provider that is installed in the same
//! cluster.

use serde_json::Value;
use std::path::Path;

/// ClusterRoles and ClusterRoleBindings of the Helm charts akash-provider, akash-hostname-operator, akash-ip-operator and
/// akash-inventory-operator, 2021 to 2026.
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

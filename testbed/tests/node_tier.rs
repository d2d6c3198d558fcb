//! Tests on a running cluster of the node tier.

use testbed::{Testbed, Tier};

#[test]
fn node_has_the_label_of_the_network_and_is_ready() {
    let Some(cluster) = Testbed::from_env(Tier::Node).unwrap() else {
        return;
    };
    let _together = cluster.shared().unwrap();
    let wait = [
        "wait",
        "node",
        "--selector",
        "akash.network=true",
        "--for",
        "condition=Ready",
        "--timeout",
        "60s",
    ];
    let output = cluster.kubectl(&wait).unwrap();
    assert_eq!(output.lines().count(), 1, "{output}");
}

#[test]
fn cluster_dns_has_the_labels_used_by_policies() {
    let Some(cluster) = Testbed::from_env(Tier::Node).unwrap() else {
        return;
    };
    let _together = cluster.shared().unwrap();
    let in_system = |args: &[&str]| {
        cluster
            .kubectl(&[args, &["--namespace", "kube-system"]].concat())
            .unwrap()
    };
    let pods = in_system(&[
        "get",
        "pods",
        "--selector",
        "k8s-app=kube-dns",
        "--output",
        "name",
    ]);
    assert!(pods.lines().count() > 0, "{pods}");
    let address = in_system(&[
        "get",
        "service",
        "kube-dns",
        "--output",
        "jsonpath={.spec.clusterIP}",
    ]);
    assert_eq!(address, cluster.addresses().dns.to_string());
}

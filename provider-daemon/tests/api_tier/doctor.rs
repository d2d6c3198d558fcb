//! `doctor` with a real API server: rights, ingress class and labels of nodes.

use crate::on_a_chain::Node;
use crate::stage::{PRICES, Stage};
use crate::{CreatedObjects, make};
use serde_json::{Value, json};
use testbed::{Cluster, Tier};

const NAME: &str = "doctor-test";
const UNLABELED: &str = "doctor-unlabeled";

/// Writes a kubeconfig of the ServiceAccount of the test.
fn kubeconfig(stage: &Stage, cluster: &Cluster) -> String {
    let token = cluster
        .kubectl(&["create", "token", NAME, "--namespace=default"])
        .unwrap();
    let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let line = |line: &str| match line.trim_start().starts_with("token:") {
        true => format!("    token: {}", token.trim()),
        false => line.to_owned(),
    };
    let lines: Vec<String> = text.lines().map(line).collect();
    let path = stage.path("kubeconfig");
    std::fs::write(&path, lines.join("\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

fn doctor(stage: &Stage, kubeconfig: &str) -> Value {
    let class = format!("--ingress-class={NAME}");
    let words = [
        "doctor",
        "--output=json",
        "--cluster-k8s",
        "--kubeconfig",
        kubeconfig,
        &class,
    ];
    let (_, out, err) = stage.ran(&[&words[..], &PRICES].concat());
    serde_json::from_str(&out)
        .map_err(|e| format!("{e}: {out}\n{err}"))
        .unwrap()
}

/// Returns the severities of the checks with this subject.
fn severities<'a>(report: &'a Value, subject: &str) -> Vec<&'a str> {
    let checks = report["checks"].as_array().unwrap().iter();
    let matching = checks.filter(|check| check["subject"] == subject);
    matching
        .map(|check| check["severity"].as_str().unwrap())
        .collect()
}

fn is_not_offered(report: &Value) -> bool {
    let checks = report["checks"].as_array().unwrap().iter();
    let mut lines = checks.filter(|check| check["subject"] == "not offered");
    lines.any(|check| {
        check["help"]
            == format!("run `kubectl label node {UNLABELED} akash.network=true` to offer it to tenants")
    })
}

#[test]
fn missing_rights_classes_and_labels_are_reported_until_they_exist() {
    let Some(cluster) = Cluster::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _shared = cluster.shared().unwrap();
    let stage = Stage::new("api-tier-doctor", false);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": "default"}});
    let _account: CreatedObjects<'_> = make(&cluster, &[account], "--field-manager=test");
    let kubeconfig = kubeconfig(&stage, &cluster);
    let without = doctor(&stage, &kubeconfig);
    assert_eq!(severities(&without, "cluster"), ["ok"], "{without}");
    assert_eq!(
        severities(&without, "custom resource definitions"),
        ["ok"],
        "{without}"
    );
    let rights = severities(&without, "rights");
    assert!(
        rights.len() > 20 && rights.iter().all(|severity| *severity == "failure"),
        "{without}"
    );
    assert_eq!(severities(&without, "ingress class"), ["skipped"], "{without}");
    assert_eq!(severities(&without, "capacity"), ["failure"], "{without}");

    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": "default"}]});
    let unlabeled = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": UNLABELED}});
    let _more = make(&cluster, &[binding, unlabeled], "--field-manager=test");
    let _node = Node::new(&cluster, "doctor-node");
    let granted = doctor(&stage, &kubeconfig);
    assert_eq!(severities(&granted, "rights"), ["ok"], "{granted}");
    assert_eq!(severities(&granted, "ingress class"), ["failure"], "{granted}");
    assert_eq!(severities(&granted, "capacity"), ["ok"], "{granted}");
    assert!(is_not_offered(&granted), "{granted}");
    assert!(granted["seconds"].as_f64().unwrap() < 5.0, "{granted}");

    cluster
        .kubectl(&["label", "node", UNLABELED, "akash.network=true"])
        .unwrap();
    let class = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {"name": NAME}, "spec": {"controller": "k8s.io/ingress-nginx"}});
    let _class = make(&cluster, &[class], "--field-manager=test");
    let complete = doctor(&stage, &kubeconfig);
    assert_eq!(severities(&complete, "ingress class"), ["ok"], "{complete}");
    assert!(!is_not_offered(&complete), "{complete}");
}

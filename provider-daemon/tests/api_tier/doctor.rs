//! `doctor` with a real API server: rights, ingress class and labels of nodes.

use crate::on_a_chain::Node;
use crate::stage::{PRICES, Stage};
use crate::{CreatedObjects, make};
use serde_json::{Value, json};
use testbed::{Testbed, Tier};

const NAME: &str = "doctor-test";
const UNLABELED: &str = "doctor-unlabeled";

fn kubeconfig(stage: &Stage, cluster: &Testbed, account: &str) -> String {
    let token = cluster
        .kubectl(&["create", "token", account, "--namespace=default"])
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
    doctor_with(stage, kubeconfig, &[])
}

fn doctor_with(stage: &Stage, kubeconfig: &str, more: &[&str]) -> Value {
    let class = format!("--ingress-class={NAME}");
    let words = [
        "doctor",
        "--output=json",
        "--cluster-k8s",
        "--kubeconfig",
        kubeconfig,
        &class,
    ];
    let (_, out, err) = stage.ran(&[&words[..], &PRICES, more].concat());
    serde_json::from_str(&out)
        .map_err(|e| format!("{e}: {out}\n{err}"))
        .unwrap()
}

fn severities<'a>(report: &'a Value, subject: &str) -> Vec<&'a str> {
    let checks = report["checks"].as_array().unwrap().iter();
    let matching = checks.filter(|check| check["subject"] == subject);
    matching
        .map(|check| check["severity"].as_str().unwrap())
        .collect()
}

fn texts<'a>(report: &'a Value, subject: &str) -> Vec<(&'a str, &'a str)> {
    let checks = report["checks"].as_array().unwrap().iter();
    let matching = checks.filter(|check| check["subject"] == subject);
    matching
        .map(|check| {
            (
                check["detail"].as_str().unwrap(),
                check["help"].as_str().unwrap_or_default(),
            )
        })
        .collect()
}

/// Returns the remedy for a node or StorageClass `name` that the report lists as not offered.
fn remedy<'a>(report: &'a Value, name: &str) -> Option<&'a str> {
    let mut found = texts(report, "not offered").into_iter();
    found.find_map(|(detail, help)| detail.contains(name).then_some(help))
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
    let Some(cluster) = Testbed::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _shared = cluster.shared().unwrap();
    let stage = Stage::new("api-tier-doctor", false);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": "default"}});
    let _account: CreatedObjects<'_> = make(&cluster, &[account], "--field-manager=test");
    let kubeconfig = kubeconfig(&stage, &cluster, NAME);
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

/// StorageClass without the label `akash.network=true`.
const CLASS: &str = "doctor-class";
const GPU_NODE: &str = "doctor-gpu";
const GPU_LABEL: &str = "akash.network/capabilities.gpu.vendor.nvidia.model.a100";

/// Runs the command that a remedy contains.
fn follow(cluster: &Testbed, remedy: &str) {
    let command = remedy.split('`').nth(1).unwrap().replace("=COUNT", "=2");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    cluster.kubectl(&words).unwrap();
}

#[test]
fn resources_without_labels_are_offered_after_their_remedies() {
    let Some(cluster) = Testbed::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _shared = cluster.shared().unwrap();
    let stage = Stage::new("api-tier-doctor-labels", false);
    let kubeconfig = cluster.kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS},
        "provisioner": "kubernetes.io/no-provisioner"});
    let _class = make(&cluster, &[class], "--field-manager=test");
    let _node = Node::new(&cluster, GPU_NODE);
    let gpus =
        json!({"status": {"capacity": {"nvidia.com/gpu": "2"}, "allocatable": {"nvidia.com/gpu": "2"}}});
    let gpus = gpus.to_string();
    let patch = [
        "patch",
        "node",
        GPU_NODE,
        "--subresource=status",
        "--type=merge",
        "--patch",
        &gpus,
    ];
    cluster.kubectl(&patch).unwrap();
    // The label of NVIDIA's tool names the model.
    cluster
        .kubectl(&[
            "label",
            "node",
            GPU_NODE,
            "nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB",
        ])
        .unwrap();

    let first = doctor(&stage, kubeconfig);
    let gpu = remedy(&first, GPU_NODE).unwrap_or_else(|| panic!("{first}"));
    assert!(
        gpu.contains(&format!("`kubectl label node {GPU_NODE} {GPU_LABEL}=COUNT`")),
        "{gpu}"
    );
    follow(&cluster, gpu);
    let label = remedy(&first, CLASS).unwrap_or_else(|| panic!("{first}"));
    assert!(
        label.starts_with(&format!(
            "run `kubectl label storageclass {CLASS} akash.network=true`"
        )),
        "{label}"
    );
    follow(&cluster, label);
    let second = doctor(&stage, kubeconfig);
    assert_eq!(remedy(&second, GPU_NODE), None, "{second}");
    let mounted = remedy(&second, CLASS).unwrap_or_else(|| panic!("{second}"));
    follow(&cluster, &mounted.replace("NODE", GPU_NODE));
    let third = doctor(&stage, kubeconfig);
    assert_eq!(remedy(&third, CLASS), None, "{third}");
    let capacity = texts(&third, "capacity")[0].0;
    assert!(
        capacity.contains("nvidia/a100") && capacity.contains(CLASS),
        "{capacity}"
    );
}

#[test]
fn address_pools_and_operators_are_reported_until_they_exist() {
    let Some(cluster) = Testbed::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _shared = cluster.shared().unwrap();
    let stage = Stage::new("api-tier-doctor-operators", false);
    let kubeconfig = cluster.kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let _node = Node::new(&cluster, "doctor-operators");
    // A Service without a pod.
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "operator-hostname", "namespace": "default"},
        "spec": {"selector": {"app": "missing"}, "ports": [{"name": "rest", "port": 8080}]}});
    let _service = make(&cluster, &[service], "--field-manager=test");
    let dead = doctor_with(&stage, kubeconfig, &["--ip-operator"]);
    assert_eq!(severities(&dead, "hostname operator"), ["failure"], "{dead}");
    assert_eq!(severities(&dead, "ip operator"), ["warning"], "{dead}");
    assert_eq!(severities(&dead, "leased IP addresses"), ["failure"], "{dead}");
    let help = texts(&dead, "hostname operator")[0].1;
    assert!(help.contains("--with-operators hostname"), "{help}");

    let embedded = [
        "--ip-operator",
        "--with-operators=hostname,ip",
        "--ip-pool-size=4",
    ];
    let embedded = doctor_with(&stage, kubeconfig, &embedded);
    assert_eq!(
        severities(&embedded, "hostname operator"),
        ["skipped"],
        "{embedded}"
    );
    assert_eq!(severities(&embedded, "leased IP addresses"), ["ok"], "{embedded}");
}

/// Name of a lease namespace. The name is the first in sorted order, because `doctor` checks only the first
/// namespaces.
const LEASE: &str = "0000000000000000000000000000000000000doctorle";
const LEASE_NAME: &str = "doctor-lease";

/// Returns a Role in the namespace `LEASE` with the permitted `verbs` for Secrets.
fn lease_role(verbs: &[&str]) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
    "metadata": {"name": LEASE_NAME, "namespace": LEASE},
    "rules": [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]},
    ]})
}

#[test]
fn missing_right_in_a_lease_is_reported_until_it_is_granted() {
    // The leases of other tests lack the same rights.
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    super::empty(&cluster);
    let stage = Stage::new("api-tier-doctor-lease", false);
    let subject = json!([{"kind": "ServiceAccount", "name": LEASE_NAME, "namespace": "default"}]);
    let group = "rbac.authorization.k8s.io";
    let binding = |kind: &str, role: &str, metadata: Value| {
        json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata, "subjects": subject,
            "roleRef": {"apiGroup": group, "kind": role, "name": LEASE_NAME}})
    };
    let in_lease = json!({"name": LEASE_NAME, "namespace": LEASE});
    let objects = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": LEASE_NAME, "namespace": "default"}}),
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": LEASE, "labels": {"akash.network": "true"}}}),
        json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": LEASE_NAME},
            "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]}]}),
        binding("ClusterRoleBinding", "ClusterRole", json!({"name": LEASE_NAME})),
        lease_role(&["list", "create", "patch"]),
        binding("RoleBinding", "Role", in_lease),
    ];
    let _objects = make(&cluster, &objects, "--field-manager=test");
    let kubeconfig = kubeconfig(&stage, &cluster, LEASE_NAME);
    let missing = |report: &Value| -> Vec<String> {
        let lines = texts(report, "rights in leases").into_iter();
        let lines = lines.filter(|(detail, _)| detail.ends_with(LEASE));
        lines.map(|(detail, _)| detail.to_owned()).collect()
    };
    let first = doctor(&stage, &kubeconfig);
    let lines = missing(&first);
    assert!(
        lines.len() == 1 && lines[0].starts_with("missing right to delete secrets in 1 of "),
        "{first}"
    );
    assert_eq!(
        first["checks"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|c| c["subject"] == "rights in leases")
            .count(),
        1
    );
    let role = lease_role(&["list", "create", "patch", "delete"]).to_string();
    cluster
        .kubectl_input(&["apply", "--filename", "-"], &role)
        .unwrap();
    let second = doctor(&stage, &kubeconfig);
    assert_eq!(missing(&second), Vec::<String>::new(), "{second}");
    assert_eq!(severities(&second, "rights in leases"), ["ok"], "{second}");
}

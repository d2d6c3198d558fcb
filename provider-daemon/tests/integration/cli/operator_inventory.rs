//! `operator inventory` as a process while its cluster is unavailable.

use super::operator::{OperatorProcess, unavailable_cluster};
use super::{Scratch, run, text};

#[test]
fn inventory_operator_reports_unavailable_cluster_on_both_ports_and_stops_cleanly() {
    let kubeconfig = unavailable_cluster("away-inventory.yaml");
    let rules = Scratch::new("rules.yaml", b"version: v1\ncluster_storage: [beta2]\n");
    let rules = format!("--config={}", rules.path());
    let expected = [
        "inventory",
        "--grpc-port=0",
        "--provider-configs-url=",
        "--api-timeout=100ms",
        &rules,
    ];
    let operator = OperatorProcess::start(&expected, &kubeconfig);
    let grpc = operator.line.trim().rsplit(' ').next().unwrap();
    std::net::TcpStream::connect(grpc).unwrap();
    assert!(operator.get("/metrics/ready").starts_with("HTTP/1.1 200 "));
    assert!(operator.get("/v1/inventory").starts_with("HTTP/1.1 500 "));
    operator.awaits("/readyz", "initial list of nodes pending: ");
    operator.ends();
}

#[test]
fn invalid_rules_fail_the_start_with_their_line() {
    let kubeconfig = unavailable_cluster("away-rules.yaml");
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.path());
    let rules = Scratch::new("bad.yaml", b"version: v1\nexclude:\n  nodes: [\"a(\"]\n");
    let output = run(&[
        "operator",
        "inventory",
        &kubeconfig,
        &format!("--config={}", rules.path()),
    ]);
    assert!(!output.status.success());
    let stderr = text(&output.stderr);
    for expected in ["bad.yaml: line 3: `exclude.nodes`", "unclosed group"] {
        assert!(stderr.contains(expected), "{expected} is not in: {stderr}");
    }
}

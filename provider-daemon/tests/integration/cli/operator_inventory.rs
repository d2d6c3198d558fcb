//! `operator inventory` as a process, while its cluster is away.

use super::operator::{Serving, away};
use super::{Scratch, run, text};

#[test]
fn an_operator_whose_cluster_is_away_answers_on_both_ports_and_ends_in_order() {
    let kubeconfig = away("away-inventory.yaml");
    let rules = Scratch::new("rules.yaml", b"version: v1\ncluster_storage: [beta2]\n");
    let rules = format!("--config={}", rules.path());
    let words = [
        "inventory",
        "--grpc-port=0",
        "--provider-configs-url=",
        "--api-timeout=100ms",
        &rules,
    ];
    let operator = Serving::start(&words, &kubeconfig);
    let grpc = operator.line.trim().rsplit(' ').next().unwrap();
    std::net::TcpStream::connect(grpc).unwrap();
    assert!(operator.get("/metrics/ready").starts_with("HTTP/1.1 200 "));
    assert!(operator.get("/v1/inventory").starts_with("HTTP/1.1 500 "));
    operator.awaits("/readyz", "initial list of nodes pending: ");
    operator.ends();
}

#[test]
fn rules_that_make_no_sense_end_a_start_and_say_where() {
    let kubeconfig = away("away-rules.yaml");
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.path());
    let rules = Scratch::new("bad.yaml", b"version: v1\nexclude:\n  nodes: [\"a(\"]\n");
    let output = run(&[
        "operator",
        "inventory",
        &kubeconfig,
        &format!("--config={}", rules.path()),
    ]);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    for words in ["bad.yaml: line 3: `exclude.nodes`", "unclosed group"] {
        assert!(said.contains(words), "{words} is not in: {said}");
    }
}

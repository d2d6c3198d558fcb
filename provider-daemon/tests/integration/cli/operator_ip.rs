//! `operator ip` as a process while its cluster is unavailable.

use super::operator::{OperatorProcess, unavailable_cluster};
use super::{run, text};

const PROVIDER: &str = "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";

#[test]
fn ip_operator_reports_unavailable_cluster_and_stops_cleanly() {
    let kubeconfig = unavailable_cluster("away-ip.yaml");
    let provider = format!("--provider={PROVIDER}");
    // The MetalLB metrics endpoint is unavailable too.
    let words = ["ip", &provider, "--metal-lb-endpoint=127.0.0.1:9"];
    let operator = OperatorProcess::start(&words, &kubeconfig);
    operator.is_well();
    operator.awaits("/usage", "initial list of services pending: ");
    operator.ends();
}

#[test]
fn provider_address_is_required() {
    let refused = run(&["operator", "ip"]);
    assert!(!refused.status.success());
    let words = text(&refused.stderr);
    assert!(words.contains("--provider"), "{words}");
    // A query to a running operator needs no provider.
    let asked = run(&[
        "operator",
        "ip",
        "forget",
        &format!("{PROVIDER}/1/1/1/{PROVIDER}"),
        "--rest-port=9",
    ]);
    let words = text(&asked.stderr);
    assert!(words.contains("no operator runs"), "{words}");
}

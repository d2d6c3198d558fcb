//! `operator ip` as a process, while its cluster is away.

use super::operator::{Serving, away};
use super::{run, text};

const PROVIDER: &str = "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";

#[test]
fn an_ip_operator_whose_cluster_is_away_runs_says_so_and_ends_in_order() {
    let kubeconfig = away("away-ip.yaml");
    let provider = format!("--provider={PROVIDER}");
    // Who says what MetalLB counts is away as well.
    let words = ["ip", &provider, "--metal-lb-endpoint=127.0.0.1:9"];
    let operator = Serving::start(&words, &kubeconfig);
    operator.is_well();
    operator.awaits("/usage", "initial list of services pending: ");
    operator.ends();
}

#[test]
fn whose_leases_they_are_has_to_be_said() {
    let refused = run(&["operator", "ip"]);
    assert!(!refused.status.success());
    let words = text(&refused.stderr);
    assert!(words.contains("--provider"), "{words}");
    // Who asks one that runs does not say it again.
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

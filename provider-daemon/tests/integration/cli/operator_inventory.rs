//! `operator inventory` as a process, while its cluster is away.

use super::operator_hostname::{AWAY, get};
use super::{Scratch, run, send, started, text};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

#[test]
fn an_operator_whose_cluster_is_away_answers_on_both_ports_and_ends_in_order() {
    let kubeconfig = Scratch::new("away-inventory.yaml", AWAY.as_bytes());
    let rules = Scratch::new("rules.yaml", b"version: v1\ncluster_storage: [beta2]\n");
    let (kubeconfig, rules) = (
        format!("--kubeconfig={}", kubeconfig.path()),
        format!("--config={}", rules.path()),
    );
    let args = [
        "operator",
        "inventory",
        "--rest-address=127.0.0.1",
        "--rest-port=0",
        "--grpc-port=0",
        "--provider-configs-url=",
        "--api-timeout=100ms",
        &kubeconfig,
        &rules,
    ];
    let (mut child, _, line) = started(&args, "http://");
    let address = line
        .split("http://")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    let grpc = line.trim().rsplit(' ').next().unwrap();
    std::net::TcpStream::connect(grpc).unwrap();
    assert!(get(&address, "/metrics/ready").starts_with("HTTP/1.1 200 "));
    assert!(get(&address, "/v1/inventory").starts_with("HTTP/1.1 500 "));
    let begun = Instant::now();
    while !get(&address, "/readyz").contains("nodes are not listed yet: ") {
        assert!(begun.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(50));
    }
    let stopped = Instant::now();
    send(&child, Signal::SIGTERM);
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(stopped.elapsed() < Duration::from_secs(10));
}

#[test]
fn rules_that_make_no_sense_end_a_start_and_say_where() {
    let kubeconfig = Scratch::new("away-rules.yaml", AWAY.as_bytes());
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

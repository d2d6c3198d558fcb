//! `operator ip` as a process, while its cluster is away.

use super::operator_hostname::{AWAY, get, serving};
use super::{Scratch, run, send, text};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

const PROVIDER: &str = "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";

#[test]
fn an_ip_operator_whose_cluster_is_away_runs_says_so_and_ends_in_order() {
    let kubeconfig = Scratch::new("away.yaml", AWAY.as_bytes());
    let provider = format!("--provider={PROVIDER}");
    // Who says what MetalLB counts is away as well.
    let words = ["ip", &provider, "--metal-lb-endpoint=127.0.0.1:9"];
    let (mut child, address) = serving(&words, &kubeconfig);
    let health = get(&address, "/health");
    assert!(
        health.starts_with("HTTP/1.1 200 ") && health.ends_with("OK"),
        "{health}"
    );
    let begun = Instant::now();
    loop {
        let usage = get(&address, "/usage");
        assert!(usage.starts_with("HTTP/1.1 503 "), "{usage}");
        if usage.contains("services are not listed yet: ") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{usage}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let stopped = Instant::now();
    send(&child, Signal::SIGTERM);
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(stopped.elapsed() < Duration::from_secs(10));
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

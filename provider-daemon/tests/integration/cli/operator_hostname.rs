//! `operator hostname` as a process, while its cluster is away.

use super::{Scratch, send, started, text};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::{Duration, Instant};

/// A cluster at a port where nobody listens.
pub(crate) const AWAY: &str = r#"
apiVersion: v1
kind: Config
clusters: [{name: away, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: nobody, user: {}}]
contexts: [{name: away, context: {cluster: away, user: nobody}}]
current-context: away
"#;

/// One that answers, and where.
pub(crate) fn serving(operator: &[&str], kubeconfig: &Scratch) -> (Child, String) {
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.path());
    let own = ["--rest-address=127.0.0.1", "--rest-port=0", &kubeconfig];
    let args = [&["operator"], operator, &own].concat();
    let (child, _, line) = started(&args, "http://");
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
    (child, address.to_owned())
}

pub(crate) fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    text(&answer)
}

#[test]
fn an_operator_whose_cluster_is_away_runs_says_so_and_ends_in_order() {
    let kubeconfig = Scratch::new("away.yaml", AWAY.as_bytes());
    let (mut child, address) = serving(&["hostname"], &kubeconfig);
    let health = get(&address, "/health");
    assert!(
        health.starts_with("HTTP/1.1 200 ") && health.ends_with("OK"),
        "{health}"
    );
    let begun = Instant::now();
    loop {
        let ready = get(&address, "/readyz");
        assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
        if ready.contains("providerhosts are not listed yet: ") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{ready}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let stopped = Instant::now();
    send(&child, Signal::SIGTERM);
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(stopped.elapsed() < Duration::from_secs(10));
}

//! An operator process while its cluster is unavailable.

use super::{Scratch, daemon, send, started, text};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Maximum wait for a condition.
const PATIENCE: Duration = Duration::from_secs(10);

/// Kubeconfig of a cluster on an unused port.
pub(crate) const AWAY: &str = r#"
apiVersion: v1
kind: Config
clusters: [{name: unavailable_cluster, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: nobody, user: {}}]
contexts: [{name: unavailable_cluster, context: {cluster: unavailable_cluster, user: nobody}}]
current-context: unavailable_cluster
"#;

pub(crate) fn unavailable_cluster(name: &str) -> Scratch {
    Scratch::new(name, AWAY.as_bytes())
}

pub(crate) struct OperatorProcess {
    child: Child,
    address: String,
    /// Output line with the operator's listening address.
    pub(crate) line: String,
}

impl OperatorProcess {
    pub(crate) fn start(operator: &[&str], kubeconfig: &Scratch) -> Self {
        let mut command = daemon(&["operator"]);
        command.args(operator);
        Self::start_command(command, &kubeconfig.path())
    }

    /// Starts an operator with its name and flags in `command`.
    pub(crate) fn start_command(mut command: Command, kubeconfig: &str) -> Self {
        command.args(["--rest-address=127.0.0.1", "--rest-port=0"]);
        command.arg(format!("--kubeconfig={kubeconfig}"));
        let (child, _, line) = started(command, "http://");
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
        Self {
            child,
            address: address.to_owned(),
            line,
        }
    }

    /// Returns a file of the process in `/proc`.
    pub(crate) fn about(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap()
    }

    /// Returns the complete HTTP response.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        text(&answer)
    }

    /// Asserts that `/health` returns status 200.
    pub(crate) fn is_well(&self) {
        let health = self.get("/health");
        assert!(
            health.starts_with("HTTP/1.1 200 ") && health.ends_with("OK"),
            "{health}"
        );
    }

    /// Waits until the 503 response of a path contains `words`.
    pub(crate) fn awaits(&self, path: &str, words: &str) {
        let begun = Instant::now();
        loop {
            let answer = self.get(path);
            assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
            if answer.contains(words) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends SIGTERM and asserts that the operator exits successfully.
    pub(crate) fn ends(mut self) {
        let stopped = Instant::now();
        send(&self.child, Signal::SIGTERM);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        assert!(stopped.elapsed() < PATIENCE);
    }
}

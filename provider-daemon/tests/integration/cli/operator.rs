//! An operator as a process, while its cluster is away.

use super::{Scratch, send, started, text};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::{Duration, Instant};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(10);

/// A cluster at a port where nobody listens.
const AWAY: &str = r#"
apiVersion: v1
kind: Config
clusters: [{name: away, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: nobody, user: {}}]
contexts: [{name: away, context: {cluster: away, user: nobody}}]
current-context: away
"#;

/// The kubeconfig of such a cluster; `name` is that of its file.
pub(crate) fn away(name: &str) -> Scratch {
    Scratch::new(name, AWAY.as_bytes())
}

/// An operator that answers.
pub(crate) struct Serving {
    child: Child,
    address: String,
    /// The line that said where.
    pub(crate) line: String,
}

impl Serving {
    /// Starts it with these words.
    pub(crate) fn start(operator: &[&str], kubeconfig: &Scratch) -> Self {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.path());
        let own = ["--rest-address=127.0.0.1", "--rest-port=0", &kubeconfig];
        let args = [&["operator"], operator, &own].concat();
        let (child, _, line) = started(&args, "http://");
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
        Self {
            child,
            address: address.to_owned(),
            line,
        }
    }

    /// Its whole answer.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        text(&answer)
    }

    /// It runs.
    pub(crate) fn is_well(&self) {
        let health = self.get("/health");
        assert!(
            health.starts_with("HTTP/1.1 200 ") && health.ends_with("OK"),
            "{health}"
        );
    }

    /// It says at a path, with 503, what it waits for.
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

    /// Told to, it ends in order.
    pub(crate) fn ends(mut self) {
        let stopped = Instant::now();
        send(&self.child, Signal::SIGTERM);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        assert!(stopped.elapsed() < PATIENCE);
    }
}

//! HAProxy as the data plane of a test's route controller.
//!
//! A new configuration is applied by a reload of the master: the new worker takes over the listening socket,
//! and the old worker ends with its last connection.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::command::{Run, until};
use crate::error::{Error, Result};

/// Maximum time until a configuration is active.
const LOADS_WITHIN: Duration = Duration::from_secs(20);
/// Maximum time for a response.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// Hostname at which the proxy returns the number of its configuration.
const GENERATION: &str = "generation.invalid";

/// Target of a hostname.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyBackend {
    /// Servers that get requests in turn. If the list is empty, the response is 503.
    Servers(Vec<SocketAddr>),
    /// Backend that does not exist. The response is 500.
    Broken,
}

/// A running proxy, stopped when dropped.
#[derive(Debug)]
pub struct Proxy {
    child: Child,
    file: PathBuf,
    port: u16,
    generation: u64,
}

impl Proxy {
    /// Starts a proxy on loopback, with its files in `dir`. Serves no hostname before the first
    /// [`Self::load`].
    ///
    /// # Errors
    /// Fails if the program cannot be installed or does not start. The error contains its output.
    pub fn start(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).map_err(|error| Error::at(dir, error))?;
        let port = crate::free_port()?;
        let file = dir.join("haproxy.cfg");
        write(&file, &configuration(port, 0, &BTreeMap::new()))?;
        let log_file = dir.join("haproxy.log");
        let log = File::create(&log_file).map_err(|error| Error::at(&log_file, error))?;
        let errors = log.try_clone().map_err(|error| Error::at(&log_file, error))?;
        let child = Command::new("haproxy")
            .args(["-W", "-db", "-f"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::from(log))
            .stderr(Stdio::from(errors))
            .spawn()
            .map_err(|error| Error::new(format!("cannot start haproxy: {error}")))?;
        let mut proxy = Self {
            child,
            file,
            port,
            generation: 0,
        };
        proxy.until_loaded()?;
        Ok(proxy)
    }

    /// Returns the port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Replaces the hostnames, and waits until they are active. The prefix `*.` matches any label.
    ///
    /// # Errors
    /// Fails if the configuration is refused or not active in time.
    pub fn load(&mut self, hostnames: &BTreeMap<String, ProxyBackend>) -> Result<()> {
        self.generation += 1;
        write(&self.file, &configuration(self.port, self.generation, hostnames))?;
        // A reload with an invalid configuration would keep the old one without an error.
        Run::new("haproxy")
            .args(["-c", "-q", "-f"])
            .args([&self.file])
            .done()?;
        let master = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(0));
        kill(master, Signal::SIGUSR2).map_err(|error| Error::new(format!("haproxy has ended: {error}")))?;
        self.until_loaded()
    }

    fn until_loaded(&mut self) -> Result<()> {
        let (port, wanted) = (self.port, self.generation.to_string());
        until("the configuration is active", LOADS_WITHIN, || {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("haproxy ended with {status}"));
            }
            match ask(port) {
                Ok(text) if text.ends_with(&format!("\r\n\r\n{wanted}")) => Ok(()),
                Ok(text) => Err(format!("haproxy returned {text:?}")),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The master stops its workers.
        if let Ok(master) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(master), Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|error| Error::at(file, error))
}

fn ask(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: {GENERATION}\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.take(4_096).read_to_string(&mut text)?;
    Ok(text)
}

fn configuration(port: u16, generation: u64, hostnames: &BTreeMap<String, ProxyBackend>) -> String {
    let mut uses = String::new();
    let mut backends = String::new();
    // Exact names before wildcards, and longer wildcards first.
    let mut ordered: Vec<_> = hostnames.iter().enumerate().collect();
    ordered.sort_by_key(|(_, (name, _))| (name.starts_with("*."), std::cmp::Reverse(name.len())));
    for (number, (name, backend)) in ordered {
        let is_it = match name.strip_prefix('*') {
            Some(end) => format!("-m end {end}"),
            None => format!("-m str {name}"),
        };
        let _ = writeln!(uses, "    use_backend b{number} if {{ var(txn.host) {is_it} }}");
        let _ = writeln!(backends, "backend b{number}");
        match backend {
            ProxyBackend::Servers(servers) if !servers.is_empty() => {
                for (index, server) in servers.iter().enumerate() {
                    let _ = writeln!(backends, "    server s{index} {server}");
                }
            }
            ProxyBackend::Servers(_) => backends.push_str("    http-request return status 503\n"),
            ProxyBackend::Broken => backends.push_str("    http-request return status 500\n"),
        }
    }
    format!(
        "global
    maxconn 2000
defaults
    mode http
    timeout connect 2s
    timeout client 30s
    timeout server 30s
    timeout http-request 5s
frontend entry
    bind 127.0.0.1:{port}
    http-request set-var(txn.host) req.hdr(host),field(1,:),lower
    http-request return status 200 content-type text/plain string \"{generation}\" if {{ var(txn.host) -m str {GENERATION} }}
{uses}    default_backend nobody
backend nobody
    http-request return status 404 content-type text/plain string \"no route\"
{backends}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_names_precede_wildcards() {
        let server = SocketAddr::from(([10, 0, 0, 7], 9_000));
        let text = configuration(
            8_080,
            3,
            &BTreeMap::from([
                ("*.example.com".to_owned(), ProxyBackend::Servers(vec![server])),
                ("*.b.example.com".to_owned(), ProxyBackend::Servers(Vec::new())),
                ("a.example.com".to_owned(), ProxyBackend::Broken),
            ]),
        );
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
        assert!(at("-m str a.example.com") < at("-m end .b.example.com"));
        assert!(at("-m end .b.example.com") < at("-m end .example.com"));
        assert!(text.contains("    server s0 10.0.0.7:9000\n"), "{text}");
        assert_eq!(text.matches("status 503").count(), 1, "{text}");
        assert_eq!(text.matches("status 500").count(), 1, "{text}");
        assert!(text.contains("string \"3\" if"), "{text}");
    }
}

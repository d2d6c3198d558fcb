//! Pebble, an ACME server for tests, on loopback.
//!
//! Pebble validates challenges at two ports of loopback, whatever the hostname, because its DNS server returns
//! 127.0.0.1 for every name.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::binaries;
use crate::command::until;
use crate::error::{Error, Result};
use crate::free_port;

/// Maximum wait until the server listens.
const WAIT_LIMIT: Duration = Duration::from_secs(20);
/// Maximum time for a DNS client to send its query.
const DNS_LIMIT: Duration = Duration::from_secs(5);

/// A running server, killed when dropped.
#[derive(Debug)]
pub struct Pebble {
    child: Child,
    port: u16,
    http: u16,
    tls: u16,
    authority: PathBuf,
}

impl Pebble {
    /// Hostname for which the server refuses certificates.
    pub const BLOCKED: &str = "blocked.test";
    /// Key ID and key (base64url) of an external account.
    pub const EXTERNAL_ACCOUNT: (&str, &str) =
        ("test-account", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wE");

    /// Builds and starts the server with its files in `folder`, and waits until it listens. Its certificates are valid
    /// for `lifetime`. Prints `skipped: …` and returns `None` if the program cannot be built.
    ///
    /// # Errors
    /// Fails if the program does not start, or does not listen in time.
    pub fn start(folder: &Path, lifetime: Duration) -> Result<Option<Self>> {
        let program = match binaries::pebble() {
            Ok(program) => program,
            Err(error) => {
                println!("skipped: {error}");
                return Ok(None);
            }
        };
        let (port, http, tls) = (free_port()?, free_port()?, free_port()?);
        let (authority, key) = (folder.join("pebble.pem"), folder.join("pebble.key"));
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
        let made = made.map_err(|error| Error::new(format!("certificate of Pebble: {error}")))?;
        write(&authority, &made.cert.pem())?;
        write(&key, &made.signing_key.serialize_pem())?;
        let (kid, mac) = Self::EXTERNAL_ACCOUNT;
        let settings = json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{port}"),
            "certificate": authority,
            "privateKey": key,
            "httpPort": http,
            "tlsPort": tls,
            "domainBlocklist": [Self::BLOCKED],
            "externalAccountMACKeys": { kid: mac },
            "keyAlgorithm": "ecdsa",
            "profiles": { "default": { "description": "", "validityPeriod": lifetime.as_secs() } },
        }});
        let file = folder.join("pebble.json");
        write(&file, &settings.to_string())?;
        let log = folder.join("pebble.log");
        let log = File::create(&log).map_err(|error| Error::at(&log, error))?;
        let child = Command::new(program)
            .arg("-config")
            .arg(&file)
            .args(["-dnsserver", &serve_dns()?])
            // Without random delays and random rejections.
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "0")
            // By default, half of the orders need no challenge after an earlier order.
            .env("PEBBLE_AUTHZREUSE", "0")
            .stdin(Stdio::null())
            .stdout(log)
            .spawn()
            .map_err(|error| Error::new(format!("pebble: {error}")))?;
        let pebble = Self {
            child,
            port,
            http,
            tls,
            authority,
        };
        until("Pebble listens", WAIT_LIMIT, || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|error| error.to_string())
        })?;
        Ok(Some(pebble))
    }

    /// URL of the ACME directory.
    #[must_use]
    pub fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port)
    }

    /// File with the certificate authority (PEM) of the directory.
    #[must_use]
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// Port at which the server validates HTTP-01 challenges.
    #[must_use]
    pub const fn http_port(&self) -> u16 {
        self.http
    }

    /// Port at which the server validates TLS-ALPN-01 challenges.
    #[must_use]
    pub const fn tls_port(&self) -> u16 {
        self.tls
    }

    /// Kills the process and waits until it has ended.
    pub fn kill(&mut self) {
        // A process that has already ended is not an error.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.kill();
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::at(path, error))
}

/// Starts a DNS server (TCP) that returns 127.0.0.1 for every name, until the process ends. Returns its address.
fn serve_dns() -> Result<String> {
    let failed = |error: std::io::Error| Error::new(format!("DNS server of Pebble: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client without a valid query gets no response.
            answer(stream).ok();
        }
    });
    Ok(address.to_string())
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(DNS_LIMIT))?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut query)?;
    let Some(response) = response(&query) else {
        return Ok(());
    };
    let length = u16::try_from(response.len()).unwrap_or_default();
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(&response)
}

/// Returns the response to a query: 127.0.0.1 for an A query, otherwise no records. An invalid query has no response.
fn response(query: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    let name = query.get(HEADER..)?.iter().position(|byte| *byte == 0)?;
    // The name ends with a zero byte; type and class follow.
    let entry = query.get(HEADER..HEADER + name + 5)?;
    let is_a = entry.ends_with(&[0, 1, 0, 1]);
    let mut response = query.get(..2)?.to_vec();
    // Flags of a recursive response, one query entry, the number of records.
    response.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    response.extend(entry);
    if is_a {
        // Pointer to the queried name, type A, class IN, TTL 0, four bytes.
        response.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]);
    }
    Some(response)
}

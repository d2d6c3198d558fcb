//! Load generator: persistent connections with requests. The load generator uses as little CPU as possible, because it
//! shares the two cores with the daemon.

use super::DSEQ;
use super::any_certificate::AnyCertificate;
use super::serve::tenant;
use akash_provider_gateway::auth::token::{self, Algorithm};
use anyhow::{Context, ensure};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a response, in bytes.
const ANSWER_MAX: usize = 64 * 1024;

/// Returns a TLS 1.3 configuration, with the client certificate if one is given.
pub(crate) fn tls(certificate: Option<rustls::sign::CertifiedKey>) -> anyhow::Result<Arc<ClientConfig>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate));
    let config = match certificate {
        None => builder.with_no_client_auth(),
        Some(key) => {
            let resolver = rustls::sign::SingleCertAndKey::from(key);
            builder.with_client_cert_resolver(Arc::new(resolver))
        }
    };
    Ok(Arc::new(config))
}

pub(crate) async fn connect(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
) -> anyhow::Result<TlsStream<TcpStream>> {
    let connecting = async {
        let tcp = TcpStream::connect(address).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        anyhow::Ok(TlsConnector::from(Arc::clone(config)).connect(name, tcp).await?)
    };
    tokio::time::timeout(TIMEOUT, connecting)
        .await
        .context("a handshake")?
}

/// Returns the `Authorization` header line of this tenant, valid for an hour.
pub(crate) fn authorization(number: u8) -> anyhow::Result<String> {
    let key = tenant(number)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let claims = json!({
        "iss": key.address().as_str(), "iat": now - 10, "nbf": now - 10, "exp": now + 3600, "version": "v1",
        "leases": { "access": "full" },
    });
    let token = token::encode(Algorithm::Es256k, key.address(), &claims, |text| key.sign(text));
    Ok(format!("Authorization: Bearer {token}\r\n"))
}

/// Returns the path `rest` below the path of the tenant's lease.
pub(crate) fn lease_path(rest: &str) -> String {
    format!("/lease/{DSEQ}/1/1/{rest}")
}

/// Returns the bytes of a `GET` request. `more` contains complete header lines.
pub(crate) fn request(path: &str, more: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n").into_bytes()
}

pub(crate) struct PersistentConnection {
    io: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

impl PersistentConnection {
    pub(crate) const fn new(io: TlsStream<TcpStream>) -> Self {
        Self {
            io,
            buffer: Vec::new(),
        }
    }

    /// Sends a request. Returns the status and the body length of the response.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<(u16, usize)> {
        self.io.write_all(request).await?;
        self.io.flush().await?;
        self.buffer.clear();
        let (status, body_at, length) = loop {
            let read = self.io.read_buf(&mut self.buffer).await?;
            ensure!(read > 0 && self.buffer.len() < ANSWER_MAX, "incomplete response");
            if let Some(head) = head(&self.buffer)? {
                break head;
            }
        };
        while self.buffer.len() < body_at + length {
            let read = self.io.read_buf(&mut self.buffer).await?;
            ensure!(read > 0 && self.buffer.len() < ANSWER_MAX, "incomplete response");
        }
        Ok((status, length))
    }
}

/// Parses the head of a response. Returns the status, and the offset and length of the body; `None` while the
/// head is incomplete.
fn head(bytes: &[u8]) -> anyhow::Result<Option<(u16, usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..end])?;
    let status = text.get(9..12).context("a status")?.parse()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.parse().ok())?
    });
    Ok(Some((status, end + 4, length.context("a length")?)))
}

pub(crate) async fn websocket(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    path: &str,
    authorization: &str,
) -> anyhow::Result<TlsStream<TcpStream>> {
    let mut io = connect(address, config).await?;
    let more = format!(
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{authorization}"
    );
    io.write_all(&request(path, &more)).await?;
    io.flush().await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(io.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    ensure!(head.starts_with("HTTP/1.1 101 "), "{head}");
    Ok(io)
}

/// Returns the opcode and the total length of a server's websocket frame.
pub(crate) fn frame(bytes: &[u8]) -> Option<(u8, usize)> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let (length, head) = match second {
        126 => (
            usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?])),
            4,
        ),
        127 => {
            let length = bytes.get(2..10)?.try_into().ok()?;
            (usize::try_from(u64::from_be_bytes(length)).ok()?, 10)
        }
        short => (usize::from(short), 2),
    };
    let whole = head + length;
    (bytes.len() >= whole).then_some((first & 0x0f, whole))
}

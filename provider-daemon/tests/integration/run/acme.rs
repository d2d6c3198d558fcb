//! A public certificate from a real ACME server (Pebble).

use crate::any_certificate::AnyCertificate;
use crate::run::tenant::url;
use crate::stage::{PRICES, Stage, until};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use testbed::Pebble;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Lifetime of the certificates. The provider renews them after two thirds of this time.
const LIFETIME: Duration = Duration::from_secs(9);
/// Name in the certificates of Pebble's certificate authority.
const ISSUER: &[u8] = b"Pebble Intermediate CA";

/// Open TLS connection to the gateway.
struct Client(StreamOwned<ClientConnection, TcpStream>);

impl Client {
    fn open(url: &str, name: &'static str) -> Self {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate))
            .with_no_client_auth();
        let name = ServerName::try_from(name).unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let tcp = TcpStream::connect(url.trim_start_matches("https://")).unwrap();
        let mut client = Self(StreamOwned::new(tls, tcp));
        client.status();
        client
    }

    /// Sends a request on the open connection.
    fn status(&mut self) {
        let request = b"GET /version HTTP/1.1\r\nhost: provider.test\r\n\r\n";
        self.0.write_all(request).unwrap();
        let mut response = [0; 4096];
        let length = self.0.read(&mut response).unwrap();
        assert!(response[..length].starts_with(b"HTTP/1.1 200 OK\r\n"));
    }

    /// Returns the certificate of the gateway on this connection.
    fn certificate(&self) -> Vec<u8> {
        self.0.conn.peer_certificates().unwrap()[0].to_vec()
    }
}

fn is_public(certificate: &[u8]) -> bool {
    certificate.windows(ISSUER.len()).any(|bytes| bytes == ISSUER)
}

#[test]
fn acme_certificate_is_served_and_renewed_with_open_connections() {
    let mut stage = Stage::new("acme", true);
    let folder = tempfile::tempdir().unwrap();
    let Some(mut pebble) = Pebble::start(folder.path(), LIFETIME).unwrap() else {
        return;
    };
    stage.start_node(FAST);
    let (code, _, err) = stage.ran(&["tx", "cert", "generate", "server", "localhost"]);
    assert_eq!(code, 0, "{err}");
    let directory = format!("--cert-issuer-ca-dir-url={}", pebble.directory());
    let port = format!("--cert-issuer-http-challenge-port={}", pebble.http_port());
    let words = [
        "--gateway-listen-address=127.0.0.1:0",
        "--cluster-public-hostname=provider.test",
        "--cert-issuer-enabled",
        &directory,
        &port,
        "--output=json",
    ];
    let words = [&["run"], &PRICES[..], &words].concat();
    let provider = stage.running_with("provider", &words, |command| {
        command.env("SSL_CERT_FILE", pebble.authority());
    });
    let url = url(&provider);
    let served = || Client::open(&url, "provider.test").certificate();
    until(
        "the certificate is issued",
        || provider.dump(),
        || is_public(&served()),
    );
    assert!(!is_public(
        &Client::open(&url, "mtls.provider.test").certificate()
    ));
    let mut client = Client::open(&url, "provider.test");
    let first = client.certificate();
    until(
        "the certificate is renewed",
        || provider.dump(),
        || served() != first,
    );
    assert!(is_public(&served()));
    client.status();
    let second = served();
    pebble.kill();
    // The warning is in the log, which `says` does not read.
    let reason = "error=no usable response from the ACME server";
    until(
        "the failed renewal is logged",
        || provider.dump(),
        || provider.dump().contains(reason),
    );
    assert_eq!(served(), second, "the previous certificate stays in use");
    client.status();
}

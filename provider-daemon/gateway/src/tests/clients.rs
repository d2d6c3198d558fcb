//! Clients that let a test choose every byte that they send.

use super::any_certificate::AnyCertificate;
use akash_provider_chain::cert::OwnCertificate;
use futures::{SinkExt, StreamExt};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, SupportedProtocolVersion};
use serde_json::Value;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        found.next().map(|(_, v)| v.as_str())
    }

    #[track_caller]
    pub(crate) fn expect(&self, status: u16, body: &str) {
        assert_eq!((self.status, &*self.body), (status, body), "{self:?}");
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    fn parse(bytes: &[u8]) -> io::Result<Self> {
        let text = String::from_utf8_lossy(bytes);
        let cut = |what: &str| io::Error::new(io::ErrorKind::UnexpectedEof, what.to_owned());
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| cut("no head"))?;
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default();
        let status = first.split(' ').nth(1).and_then(|s| s.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        Ok(Self {
            status: status.ok_or_else(|| cut("no status"))?,
            headers: headers.map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
            body: body.to_owned(),
        })
    }
}

#[derive(Clone)]
pub(crate) struct Client {
    server: SocketAddr,
    from: Option<IpAddr>,
    name: String,
    versions: Vec<&'static SupportedProtocolVersion>,
    certificate: Option<(Vec<u8>, Vec<u8>)>,
    headers: Vec<(String, String)>,
    alpn: Vec<Vec<u8>>,
}

pub(crate) type Connection = TlsStream<TcpStream>;

impl Client {
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self {
            server,
            from: None,
            name: "localhost".to_owned(),
            versions: vec![&rustls::version::TLS13],
            certificate: None,
            headers: Vec::new(),
            alpn: Vec::new(),
        }
    }

    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn certificate(mut self, own: &OwnCertificate) -> Self {
        let key = own.private_key_der().unwrap().to_vec();
        self.certificate = Some((own.der().to_vec(), key));
        self
    }

    /// Sets the local IP address from which the client connects.
    pub(crate) fn from(mut self, address: &str) -> Self {
        self.from = Some(address.parse().unwrap());
        self
    }

    /// Opens a TCP connection, without a TLS handshake.
    pub(crate) async fn silent(&self) -> io::Result<TcpStream> {
        let Some(from) = self.from else {
            return TcpStream::connect(self.server).await;
        };
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(self.server).await
    }

    pub(crate) fn alpn(mut self, protocols: &[&str]) -> Self {
        self.alpn = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        self
    }

    /// Sets the server name in the client's TLS handshake.
    pub(crate) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    pub(crate) fn versions(mut self, versions: &[&'static SupportedProtocolVersion]) -> Self {
        self.versions = versions.to_vec();
        self
    }

    pub(crate) async fn connect(&self) -> io::Result<Connection> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&self.versions)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate));
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from(certificate.clone())];
                let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.clone()));
                // The library would refuse a certificate with another purpose.
                let key = ring::default_provider()
                    .key_provider
                    .load_private_key(key)
                    .unwrap();
                let resolver =
                    rustls::sign::SingleCertAndKey::from(rustls::sign::CertifiedKey::new(chain, key));
                builder.with_client_cert_resolver(Arc::new(resolver))
            }
        };
        config.alpn_protocols.clone_from(&self.alpn);
        let tcp = self.silent().await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::try_from(self.name.clone()).unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, tcp);
        timeout(TIMEOUT, connecting).await.expect("a handshake")
    }

    fn head(&self, method: &str, path: &str, more: &str) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost:8443\r\n{more}");
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head + "\r\n"
    }

    pub(crate) async fn try_send(&self, method: &str, path: &str, body: &str) -> io::Result<Reply> {
        let more = format!("Connection: close\r\nContent-Length: {}\r\n", body.len());
        let request = self.head(method, path, &more) + body;
        self.try_raw(request.as_bytes()).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        self.try_send(method, path, body)
            .await
            .unwrap_or_else(|e| panic!("{method} {path}: {e}"))
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "").await
    }

    pub(crate) async fn try_raw(&self, bytes: &[u8]) -> io::Result<Reply> {
        let mut connection = self.connect().await?;
        // Bytes that do not fit the socket wait in the session. The server may have closed the connection before.
        drop(connection.write_all(bytes).await);
        drop(connection.flush().await);
        let mut response = Vec::new();
        let reading = connection.read_to_end(&mut response);
        match timeout(TIMEOUT, reading).await.expect("a response") {
            Ok(_) => {}
            // Closed without a TLS alert. The data before the close is the response.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !response.is_empty() => {}
            Err(error) => return Err(error),
        }
        Reply::parse(&response)
    }

    pub(crate) async fn open(&self, path: &str) -> Result<Channel, Reply> {
        self.try_open(path).await.unwrap()
    }

    /// Opens a websocket, or returns the response if the gateway refuses the websocket.
    pub(crate) async fn try_open(&self, path: &str) -> io::Result<Result<Channel, Reply>> {
        let more = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let mut connection = self.connect().await?;
        let request = self.head("GET", path, more);
        connection.write_all(request.as_bytes()).await?;
        connection.flush().await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = timeout(TIMEOUT, connection.read_u8()).await.expect("a head");
            head.push(byte?);
        }
        let mut reply = Reply::parse(&head).unwrap();
        if reply.status == 101 {
            assert_eq!(
                reply.header("sec-websocket-accept"),
                Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
            );
            return Ok(Ok(Channel(
                WebSocketStream::from_raw_socket(connection, Role::Client, None).await,
            )));
        }
        let length = reply.header("content-length").map_or(0, |l| l.parse().unwrap());
        let mut body = vec![0; length];
        connection.read_exact(&mut body).await.unwrap();
        reply.body = String::from_utf8(body).unwrap();
        Ok(Err(reply))
    }
}

pub(crate) struct Channel(pub(crate) WebSocketStream<Connection>);

impl Channel {
    pub(crate) async fn next(&mut self) -> Option<Message> {
        let next = timeout(TIMEOUT, self.0.next()).await.expect("a message");
        next.and_then(Result::ok)
    }

    /// Returns the next message other than a ping.
    pub(crate) async fn data(&mut self) -> Option<Message> {
        loop {
            match self.next().await {
                Some(Message::Ping(_) | Message::Pong(_)) => {}
                other => return other,
            }
        }
    }

    /// Returns the messages until the end of the connection, and the close frame, if any.
    pub(crate) async fn rest(&mut self) -> (Vec<Message>, Option<(u16, String)>) {
        let mut all = Vec::new();
        while let Some(message) = self.data().await {
            if let Message::Close(frame) = message {
                let frame = frame.map(|f| (f.code.into(), f.reason.to_string()));
                return (all, frame);
            }
            all.push(message);
        }
        (all, None)
    }

    pub(crate) async fn send(&mut self, message: Message) {
        self.0.send(message).await.unwrap();
    }
}

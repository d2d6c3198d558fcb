//! A websocket client for the gateway.

use crate::any_certificate::AnyCertificate;
use futures::StreamExt;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) struct Websocket {
    runtime: Runtime,
    io: WebSocketStream<TlsStream<TcpStream>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Transcript {
    pub(crate) data: Vec<Vec<u8>>,
    /// Code and reason of the close frame, if any.
    pub(crate) close: Option<(u16, String)>,
}

impl Websocket {
    /// Opens a websocket, or returns the HTTP status of a refused handshake.
    pub(crate) fn open(url: &str, path: &str, token: &str) -> Result<Self, u16> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate))
            .with_no_client_auth();
        let at = url.trim_start_matches("https://");
        let mut request = format!("wss://{at}{path}").into_client_request().unwrap();
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let opening = async {
            let tcp = TcpStream::connect(at).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let tls = TlsConnector::from(Arc::new(config))
                .connect(name, tcp)
                .await
                .unwrap();
            tokio_tungstenite::client_async(request, tls).await
        };
        match runtime.block_on(async { tokio::time::timeout(PATIENCE, opening).await.unwrap() }) {
            Ok((io, _)) => Ok(Self { runtime, io }),
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Reads all messages until the connection ends.
    pub(crate) fn received(self) -> Transcript {
        let Self { runtime, mut io } = self;
        let listening = async {
            let mut transcript = Transcript::default();
            while let Some(Ok(message)) = io.next().await {
                match message {
                    Message::Close(frame) => {
                        transcript.close = frame.map(|f| (f.code.into(), f.reason.to_string()));
                    }
                    Message::Ping(_) | Message::Pong(_) => {}
                    data => transcript.data.push(data.into_data().to_vec()),
                }
            }
            transcript
        };
        runtime.block_on(async { tokio::time::timeout(PATIENCE, listening).await.unwrap() })
    }
}

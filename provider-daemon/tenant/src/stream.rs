//! Websocket stream of a provider: logs, events, shells.

use super::auth::AuthMethod;
use super::error::ProviderError;
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use http::HeaderMap;
use http::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

/// Maximum time without a frame. After this time, the stream has failed. Providers ping every 10 seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(45);
/// Maximum time to send the close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum message size, in bytes: enough for a log line of 64 kilobytes with JSON escapes.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Close code of a normal end (RFC 6455).
const NORMAL: u16 = 1000;
/// Close code of a stream that ends with a failure.
const FAILURE: u16 = 4000;
/// Code for a close frame without a close code.
const NO_CODE: u16 = 1005;

type Io = WebSocketStream<TokioIo<Upgraded>>;

/// Open websocket to a provider, for sending and receiving.
#[derive(Debug)]
pub(super) struct Stream {
    io: Io,
    at: String,
    auth: AuthMethod,
}

#[derive(Debug)]
pub(super) struct StreamReader {
    io: SplitStream<Io>,
    at: String,
    auth: AuthMethod,
    /// True after a close frame of the provider.
    is_closed: bool,
}

/// Message that a provider sends in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Data {
    /// Message of logs and events.
    Text(Bytes),
    /// Message of a shell, with the channel number as first byte.
    Binary(Bytes),
}

#[derive(Debug)]
pub(super) struct StreamWriter(SplitSink<Io, Message>);

impl Stream {
    /// Returns the request headers of a websocket handshake, and the expected `Sec-WebSocket-Accept` header.
    pub(super) fn handshake() -> (HeaderMap, HeaderValue) {
        let key = generate_key();
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        let text = |text: &str| HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""));
        headers.insert(SEC_WEBSOCKET_KEY, text(&key));
        (headers, text(&derive_accept_key(key.as_bytes())))
    }

    pub(super) async fn new(io: Upgraded, at: String, auth: AuthMethod) -> Self {
        let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES_MAX));
        let io = WebSocketStream::from_raw_socket(TokioIo::new(io), Role::Client, Some(config)).await;
        Self { io, at, auth }
    }

    /// Splits the stream into halves, so that sending does not block receiving.
    pub(super) fn split(self) -> (StreamReader, StreamWriter) {
        let (sink, io) = self.io.split();
        let reader = StreamReader {
            io,
            at: self.at,
            auth: self.auth,
            is_closed: false,
        };
        (reader, StreamWriter(sink))
    }
}

impl StreamReader {
    pub(super) const fn auth(&self) -> AuthMethod {
        self.auth
    }

    /// Returns true after a close frame from the provider.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns the next data message, or `None` at a normal end.
    ///
    /// # Errors
    /// Returns an error if the stream is interrupted, or closed with a failure.
    pub(super) async fn next(&mut self) -> Result<Option<Data>, ProviderError> {
        loop {
            let next = timeout(IDLE_TIMEOUT, self.io.next()).await;
            let Ok(next) = next else {
                return Err(self.interrupted(format!("no data for {} seconds", IDLE_TIMEOUT.as_secs())));
            };
            match next {
                None => return Ok(None),
                Some(Ok(Message::Text(text))) => return Ok(Some(Data::Text(text.into()))),
                Some(Ok(Message::Binary(bytes))) => return Ok(Some(Data::Binary(bytes))),
                Some(Ok(Message::Close(frame))) => return self.closed(frame),
                // The library responds to pings. Each of these frames shows that the provider is alive.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                // The Go provider ends logs and shells by closing the connection.
                Some(Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake))) => return Ok(None),
                Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) => return Ok(None),
                Some(Err(error)) => return Err(self.interrupted(error.to_string())),
            }
        }
    }

    fn closed(&mut self, frame: Option<CloseFrame>) -> Result<Option<Data>, ProviderError> {
        self.is_closed = true;
        let Some(frame) = frame else {
            return Ok(None);
        };
        let code = u16::from(frame.code);
        if matches!(code, NORMAL | NO_CODE) {
            return Ok(None);
        }
        Err(ProviderError::Closed {
            at: self.at.clone(),
            code,
            reason: frame.reason.to_string(),
        })
    }

    pub(super) fn interrupted(&self, why: String) -> ProviderError {
        ProviderError::Interrupted {
            at: self.at.clone(),
            why,
            auth: AuthMethod::None,
        }
    }

    /// Returns the error for a remote command that did not start for an unknown reason.
    pub(super) fn failed(&self) -> ProviderError {
        ProviderError::Closed {
            at: self.at.clone(),
            code: FAILURE,
            reason: "the command could not be started".to_owned(),
        }
    }

    pub(super) fn invalid(&self, why: &str) -> ProviderError {
        ProviderError::Invalid {
            at: self.at.clone(),
            why: why.to_owned(),
        }
    }
}

impl StreamWriter {
    /// Sends bytes; returns `false` if the connection is closed.
    pub(super) async fn send(&mut self, bytes: Vec<u8>) -> bool {
        self.0.send(Message::Binary(bytes.into())).await.is_ok()
    }

    /// Sends the close frame. Waits at most [`CLOSE_TIMEOUT`].
    pub(super) async fn close(mut self) {
        // The stream may be closed already, which is no problem.
        if let Ok(Err(error)) = timeout(CLOSE_TIMEOUT, self.0.close()).await {
            tracing::trace!(%error, "cannot send close frame");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::Request;
    use http_body_util::Full;
    use hyper::client::conn::http1;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, sleep};

    /// Returns both halves of the client's stream, and the server's end.
    async fn opened() -> (StreamReader, StreamWriter, DuplexStream) {
        let (ours, mut theirs) = duplex(4096);
        let (mut sender, connection) = http1::handshake(TokioIo::new(ours)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        let request = Request::get("/")
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket");
        let asking = sender.send_request(request.body(Full::<Bytes>::default()).unwrap());
        let answering = async {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(theirs.read_u8().await.unwrap());
            }
            let answer =
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
            theirs.write_all(answer).await.unwrap();
        };
        let (response, ()) = tokio::join!(asking, answering);
        let io = hyper::upgrade::on(response.unwrap()).await.unwrap();
        let (reader, writer) = Stream::new(io, "https://p.example".to_owned(), AuthMethod::Token)
            .await
            .split();
        (reader, writer, theirs)
    }

    #[tokio::test(start_paused = true)]
    async fn closes_a_stream_after_45_seconds_without_frames() {
        let (mut reader, _speaking, mut theirs) = opened().await;
        let begun = Instant::now();
        let pinging = async {
            sleep(Duration::from_secs(40)).await;
            theirs.write_all(&[0x89, 0]).await.unwrap();
        };
        let (received, ()) = tokio::join!(reader.next(), pinging);
        let text = received.unwrap_err().to_string();
        assert!(text.contains("no data for 45 seconds"), "{text}");
        assert_eq!(begun.elapsed(), Duration::from_secs(85));
    }

    #[tokio::test(start_paused = true)]
    async fn distinguishes_a_close_frame_from_an_interruption() {
        let (mut reader, _speaking, mut theirs) = opened().await;
        theirs
            .write_all(&[0x81, 2, b'h', b'i', 0x88, 2, 0x03, 0xe8])
            .await
            .unwrap();
        assert_eq!(reader.next().await.unwrap(), Some(Data::Text("hi".into())));
        assert_eq!(reader.next().await.unwrap(), None);
        assert!(reader.is_closed());
        let (mut reader, _speaking, theirs) = opened().await;
        drop(theirs);
        assert_eq!(reader.next().await.unwrap(), None);
        assert!(!reader.is_closed());
    }
}

//! A websocket of a provider: logs, events, a shell.

use super::auth::Means;
use super::trouble::Trouble;
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

/// Silence after which nobody is there any more: providers ping every 10 seconds.
const SILENCE: Duration = Duration::from_secs(45);
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);
/// Largest message: a line of a log has 64 kilobytes at most, and JSON may make six of one.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Code of a normal end, from RFC 6455.
const DONE: u16 = 1000;
/// An end because something went wrong.
const FAILED: u16 = 4000;
/// An end without a code.
const NO_CODE: u16 = 1005;

type Io = WebSocketStream<TokioIo<Upgraded>>;

/// The whole of it.
#[derive(Debug)]
pub(super) struct Stream {
    io: Io,
    at: String,
    means: Means,
}

/// What comes from the provider.
#[derive(Debug)]
pub(super) struct Hearing {
    io: SplitStream<Io>,
    at: String,
    means: Means,
    /// It has said that it is over.
    is_closed: bool,
}

/// A message of the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// Of logs and events.
    Text(Bytes),
    /// Of a shell: the first byte says what the others are.
    Binary(Bytes),
}

/// What goes to the provider.
#[derive(Debug)]
pub(super) struct Speaking(SplitSink<Io, Message>);

impl Stream {
    /// The headers that ask for one, and the proof that must come back.
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

    pub(super) async fn new(io: Upgraded, at: String, means: Means) -> Self {
        let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES_MAX));
        let io = WebSocketStream::from_raw_socket(TokioIo::new(io), Role::Client, Some(config)).await;
        Self { io, at, means }
    }

    /// Both directions, each for itself: who writes must not keep from reading.
    pub(super) fn split(self) -> (Hearing, Speaking) {
        let (sink, io) = self.io.split();
        let hearing = Hearing {
            io,
            at: self.at,
            means: self.means,
            is_closed: false,
        };
        (hearing, Speaking(sink))
    }
}

impl Hearing {
    /// By what one is known at the other end.
    pub(super) const fn means(&self) -> Means {
        self.means
    }

    /// True when the provider has said that the stream is over, and not only cut it.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The next message that is data; `None` at a normal end.
    ///
    /// # Errors
    /// The stream broke off, or the provider ended it for a reason.
    pub(super) async fn next(&mut self) -> Result<Option<Heard>, Trouble> {
        loop {
            let next = timeout(SILENCE, self.io.next()).await;
            let Ok(next) = next else {
                return Err(self.cut(format!("nothing was heard for {} seconds", SILENCE.as_secs())));
            };
            match next {
                None => return Ok(None),
                Some(Ok(Message::Text(text))) => return Ok(Some(Heard::Text(text.into()))),
                Some(Ok(Message::Binary(bytes))) => return Ok(Some(Heard::Binary(bytes))),
                Some(Ok(Message::Close(frame))) => return self.closed(frame),
                // The library answers pings. Any of these ends the silence.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                // Today's provider ends logs and shells by closing the connection, which is no accident.
                Some(Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake))) => return Ok(None),
                Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) => return Ok(None),
                Some(Err(error)) => return Err(self.cut(error.to_string())),
            }
        }
    }

    fn closed(&mut self, frame: Option<CloseFrame>) -> Result<Option<Heard>, Trouble> {
        self.is_closed = true;
        let Some(frame) = frame else {
            return Ok(None);
        };
        let code = u16::from(frame.code);
        if matches!(code, DONE | NO_CODE) {
            return Ok(None);
        }
        Err(Trouble::Ended {
            at: self.at.clone(),
            code,
            reason: frame.reason.to_string(),
        })
    }

    pub(super) fn cut(&self, why: String) -> Trouble {
        Trouble::Cut {
            at: self.at.clone(),
            why,
            means: Means::Nothing,
        }
    }

    /// The provider says that something went wrong, and no more.
    pub(super) fn failed(&self) -> Trouble {
        Trouble::Ended {
            at: self.at.clone(),
            code: FAILED,
            reason: "the command could not be run".to_owned(),
        }
    }

    pub(super) fn strange(&self, why: &str) -> Trouble {
        Trouble::Strange {
            at: self.at.clone(),
            why: why.to_owned(),
        }
    }
}

impl Speaking {
    /// Sends bytes; `false` when nobody takes them any more.
    pub(super) async fn say(&mut self, bytes: Vec<u8>) -> bool {
        self.0.send(Message::Binary(bytes.into())).await.is_ok()
    }

    /// Closes the stream. A provider that does not take the goodbye is waited for no longer than [`GOODBYE`].
    pub(super) async fn goodbye(mut self) {
        // It may have ended already, and nothing hangs on it.
        if let Ok(Err(error)) = timeout(GOODBYE, self.0.close()).await {
            tracing::trace!("a goodbye: {error}");
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

    /// A stream, and the provider's end of it.
    async fn opened() -> (Hearing, Speaking, DuplexStream) {
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
        let (hearing, speaking) = Stream::new(io, "https://p.example".to_owned(), Means::Token)
            .await
            .split();
        (hearing, speaking, theirs)
    }

    #[tokio::test(start_paused = true)]
    async fn silence_of_45_seconds_ends_a_stream_and_a_ping_breaks_it() {
        let (mut hearing, _speaking, mut theirs) = opened().await;
        let begun = Instant::now();
        let pinging = async {
            sleep(Duration::from_secs(40)).await;
            theirs.write_all(&[0x89, 0]).await.unwrap();
        };
        let (heard, ()) = tokio::join!(hearing.next(), pinging);
        let text = heard.unwrap_err().to_string();
        assert!(text.contains("nothing was heard for 45 seconds"), "{text}");
        assert_eq!(begun.elapsed(), Duration::from_secs(85));
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_with_a_word_is_told_from_a_cut() {
        let (mut hearing, _speaking, mut theirs) = opened().await;
        theirs
            .write_all(&[0x81, 2, b'h', b'i', 0x88, 2, 0x03, 0xe8])
            .await
            .unwrap();
        assert_eq!(hearing.next().await.unwrap(), Some(Heard::Text("hi".into())));
        assert_eq!(hearing.next().await.unwrap(), None);
        assert!(hearing.is_closed());
        let (mut hearing, _speaking, theirs) = opened().await;
        drop(theirs);
        assert_eq!(hearing.next().await.unwrap(), None);
        assert!(!hearing.is_closed());
    }
}

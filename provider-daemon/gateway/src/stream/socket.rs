//! Open websocket, with pings and with time limits for slow or disconnected clients.

use crate::auth::CredentialValidity;
use crate::settings::GatewayLimits;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, Stream, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_util::sync::CancellationToken;

type Io = WebSocketStream<TokioIo<Upgraded>>;

const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Close code and reason with which a stream ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StreamClose {
    code: u16,
    reason: String,
}

impl StreamClose {
    /// The stream is complete. RFC 6455: "normal closure".
    pub(super) const DONE: u16 = 1000;
    /// The gateway stops. RFC 6455: "going away".
    const STOPPING: u16 = 1001;
    /// The credential became invalid, or the connection is closed in favor of another connection.
    const OVER: u16 = 1008;
    /// The stream failed. The reason of the close frame contains the cause. Codes from 4000 on are
    /// application-specific.
    pub(super) const FAILED: u16 = 4000;
    /// The lease does not exist.
    pub(super) const NOT_FOUND: u16 = 4001;
    /// The cluster query failed.
    pub(super) const UNAVAILABLE: u16 = 4002;

    pub(super) fn new(code: u16, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        // A close frame holds up to 123 bytes of the reason.
        let mut end = reason.len().min(123);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let reason = reason.get(..end).unwrap_or_default().to_owned();
        Self { code, reason }
    }

    pub(super) fn done() -> Self {
        Self::new(Self::DONE, "")
    }

    fn stopping() -> Self {
        Self::new(Self::STOPPING, "the provider is stopping")
    }
}

/// Websocket in two halves, so that messages can be read during writes.
#[derive(Debug)]
pub(super) struct StreamSocket {
    sink: SplitSink<Io, Message>,
    incoming: SplitStream<Io>,
    shutdown: CancellationToken,
    validity: CredentialValidity,
    ping: Duration,
    silence: Duration,
    stalled: Duration,
}

enum WriteEnd {
    /// The stream ended or failed. The client gets a close frame.
    Ended(StreamClose),
    /// The client disconnected, or does not read.
    Disconnected,
}

impl StreamSocket {
    /// Creates a socket. The socket is boxed, so that futures with a socket stay small.
    pub(super) fn new(
        io: Io,
        limits: &GatewayLimits,
        shutdown: CancellationToken,
        validity: CredentialValidity,
    ) -> Box<Self> {
        let (sink, incoming) = io.split();
        Box::new(Self {
            sink,
            incoming,
            shutdown,
            validity,
            ping: limits.ping,
            // A ping is sent, and then its response awaited.
            silence: limits.ping + limits.pong,
            stalled: limits.stalled,
        })
    }

    /// Sends the messages of a stream, and then the close frame. Passes the client's messages to `on_message`
    /// one after the other.
    pub(super) async fn send_all<H, F>(
        mut self: Box<Self>,
        messages: impl Stream<Item = Result<Message, StreamClose>> + Send,
        mut on_message: H,
    ) where
        H: FnMut(Message) -> F + Send,
        F: Future<Output = ()> + Send,
    {
        let over = {
            let writing = write(&mut self.sink, messages, self.ping, self.stalled);
            let listening = listen(&mut self.incoming, self.silence, &mut on_message);
            tokio::select! {
                biased;
                // The shutdown and the end of a credential come first: a busy stream would otherwise starve them.
                () = self.shutdown.cancelled() => WriteEnd::Ended(StreamClose::stopping()),
                over = self.validity.ended() => WriteEnd::Ended(StreamClose::new(StreamClose::OVER, over.message())),
                over = writing => over,
                () = listening => WriteEnd::Disconnected,
            }
        };
        if let WriteEnd::Ended(ending) = over {
            Box::pin(self.send_close(ending)).await;
        }
    }

    /// Closes the websocket. Waits at most [`CLOSE_TIMEOUT`] for the client's close frame.
    pub(super) async fn end(mut self: Box<Self>, ending: StreamClose) {
        Box::pin(self.send_close(ending)).await;
    }

    async fn send_close(&mut self, ending: StreamClose) {
        let frame = CloseFrame {
            code: CloseCode::from(ending.code),
            reason: ending.reason.into(),
        };
        let closing = async {
            if self.sink.send(Message::Close(Some(frame))).await.is_ok() {
                // Until the client's close frame; earlier messages no longer matter.
                while let Some(Ok(_)) = self.incoming.next().await {}
            }
        };
        if timeout(CLOSE_TIMEOUT, closing).await.is_err() {
            tracing::trace!("client sent no close frame");
        }
    }
}

/// Reads messages until the client disconnects or has sent nothing for the time `silence`.
async fn listen<H, F>(incoming: &mut SplitStream<Io>, silence: Duration, on_message: &mut H)
where
    H: FnMut(Message) -> F,
    F: Future<Output = ()>,
{
    loop {
        match timeout(silence, incoming.next()).await {
            Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) | Err(_) => return,
            // The library responds to pings. Both prove that the client is alive.
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
            Ok(Some(Ok(message))) => on_message(message).await,
        }
    }
}

/// Writes the messages, with pings between them.
async fn write(
    sink: &mut SplitSink<Io, Message>,
    messages: impl Stream<Item = Result<Message, StreamClose>>,
    every: Duration,
    stalled: Duration,
) -> WriteEnd {
    let mut messages = pin!(messages);
    let mut pings = interval_at(Instant::now() + every, every);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = tokio::select! {
            biased;
            // Pings first. Otherwise a busy stream would send none, and the client would give up.
            _ = pings.tick() => Some(Ok(Message::Ping(Bytes::new()))),
            next = messages.next() => next,
        };
        let written = match next {
            None => return WriteEnd::Ended(StreamClose::done()),
            Some(Err(ending)) => return WriteEnd::Ended(ending),
            // Boxed for each message, so that an idle stream does not reserve memory for the future.
            Some(Ok(message)) => {
                let putting = Box::pin(put(sink, messages.as_mut(), message));
                timeout(stalled, putting).await
            }
        };
        match written {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(ending))) => return WriteEnd::Ended(ending),
            Ok(Err(error)) => {
                tracing::debug!(%error, "stream client disconnected");
                return WriteEnd::Disconnected;
            }
            Err(_) => {
                tracing::debug!(after = ?stalled, "stream client does not read");
                return WriteEnd::Disconnected;
            }
        }
    }
}

/// A flush contains the first message and at most this number of further messages.
const TOGETHER: usize = 256;

/// Writes `first`, and at most [`TOGETHER`] further messages that are already available.
async fn put(
    sink: &mut SplitSink<Io, Message>,
    mut messages: std::pin::Pin<&mut impl Stream<Item = Result<Message, StreamClose>>>,
    first: Message,
) -> Result<Option<StreamClose>, tokio_tungstenite::tungstenite::Error> {
    // Flushed once: a TLS write for each line of a busy log would cost a record and a system call each.
    sink.feed(first).await?;
    let mut ended = None;
    for _ in 0..TOGETHER {
        match futures::poll!(messages.next()) {
            std::task::Poll::Ready(Some(Ok(message))) => sink.feed(message).await?,
            std::task::Poll::Ready(Some(Err(ending))) => {
                ended = Some(ending);
                break;
            }
            std::task::Poll::Ready(None) => {
                ended = Some(StreamClose::done());
                break;
            }
            std::task::Poll::Pending => break,
        }
    }
    sink.flush().await?;
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_fits_a_frame_and_stays_text() {
        let ending = StreamClose::new(StreamClose::FAILED, "ü".repeat(100));
        assert_eq!(ending.reason.len(), 122);
        assert_eq!(StreamClose::new(1, "short").reason, "short");
    }
}

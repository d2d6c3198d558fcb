//! A websocket that is being served: pings, a client that goes away, a client that reads slowly.

use crate::auth::CredentialValidity;
use crate::settings::Limits;
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

/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(5);

/// How a stream ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ending {
    code: u16,
    reason: String,
}

impl Ending {
    /// All was shown; the code of RFC 6455 for a normal end.
    pub(super) const DONE: u16 = 1000;
    /// The gateway stops: "going away" in RFC 6455.
    const STOPPING: u16 = 1001;
    /// What the client has shown holds no more.
    const OVER: u16 = 1008;
    /// Something went wrong, with the reason in words. Codes from 4000 on are an application's own.
    pub(super) const FAILED: u16 = 4000;
    /// There is no such thing.
    pub(super) const NOT_FOUND: u16 = 4001;
    /// The cluster cannot be asked.
    pub(super) const UNAVAILABLE: u16 = 4002;

    pub(super) fn new(code: u16, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        // A close frame has room for 123 bytes of it.
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

/// A websocket in two halves, so that it is read while something is written.
#[derive(Debug)]
pub(super) struct Socket {
    sink: SplitSink<Io, Message>,
    incoming: SplitStream<Io>,
    shutdown: CancellationToken,
    validity: CredentialValidity,
    ping: Duration,
    silence: Duration,
    stalled: Duration,
}

/// Why writing goes on no more.
enum Over {
    /// All was written, or the stream failed; the client is told which.
    Ended(Ending),
    /// The client is gone, or takes nothing.
    Gone,
}

impl Socket {
    /// In a box: it is handed on from task to task, each of which would keep room for it.
    pub(super) fn new(
        io: Io,
        limits: &Limits,
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
            // A ping is sent, and its answer waited for.
            silence: limits.ping + limits.pong,
            stalled: limits.stalled,
        })
    }

    /// Sends what a stream yields until it ends, and says how it ended. What the client sends goes to `hear`, in
    /// order; the client's frames are read on while `hear` has room.
    pub(super) async fn send_all<H, F>(
        mut self: Box<Self>,
        messages: impl Stream<Item = Result<Message, Ending>> + Send,
        mut hear: H,
    ) where
        H: FnMut(Message) -> F + Send,
        F: Future<Output = ()> + Send,
    {
        let over = {
            let writing = write(&mut self.sink, messages, self.ping, self.stalled);
            let listening = listen(&mut self.incoming, self.silence, &mut hear);
            tokio::select! {
                biased;
                // The stop and the end of a credential come first: a busy stream would never let them have their
                // turn.
                () = self.shutdown.cancelled() => Over::Ended(Ending::stopping()),
                over = self.validity.over() => Over::Ended(Ending::new(Ending::OVER, over.message())),
                over = writing => over,
                () = listening => Over::Gone,
            }
        };
        if let Over::Ended(ending) = over {
            Box::pin(self.say_goodbye(ending)).await;
        }
    }

    /// Says goodbye without having sent anything, and waits for the client's goodbye for [`GOODBYE`] at most.
    pub(super) async fn end(mut self: Box<Self>, ending: Ending) {
        Box::pin(self.say_goodbye(ending)).await;
    }

    async fn say_goodbye(&mut self, ending: Ending) {
        let frame = CloseFrame {
            code: CloseCode::from(ending.code),
            reason: ending.reason.into(),
        };
        let goodbye = async {
            if self.sink.send(Message::Close(Some(frame))).await.is_ok() {
                // The client's own goodbye; what comes before it is of no use any more.
                while let Some(Ok(_)) = self.incoming.next().await {}
            }
        };
        if timeout(GOODBYE, goodbye).await.is_err() {
            tracing::trace!("a client said no goodbye");
        }
    }
}

/// Reads until the client is gone or silent for too long.
async fn listen<H, F>(incoming: &mut SplitStream<Io>, silence: Duration, hear: &mut H)
where
    H: FnMut(Message) -> F,
    F: Future<Output = ()>,
{
    loop {
        match timeout(silence, incoming.next()).await {
            Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) | Err(_) => return,
            // The library answers pings itself. Both count as a sign of life.
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
            Ok(Some(Ok(message))) => hear(message).await,
        }
    }
}

/// Writes what there is, and pings in between.
async fn write(
    sink: &mut SplitSink<Io, Message>,
    messages: impl Stream<Item = Result<Message, Ending>>,
    every: Duration,
    stalled: Duration,
) -> Over {
    let mut messages = pin!(messages);
    let mut pings = interval_at(Instant::now() + every, every);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = tokio::select! {
            biased;
            // Pings first, or a stream that always has something to write would send none, and the client give up.
            _ = pings.tick() => Some(Ok(Message::Ping(Bytes::new()))),
            next = messages.next() => next,
        };
        let written = match next {
            None => return Over::Ended(Ending::done()),
            Some(Err(ending)) => return Over::Ended(ending),
            // Made for each turn, so that a stream on which nothing happens does not keep room for it.
            Some(Ok(message)) => {
                let putting = Box::pin(put(sink, messages.as_mut(), message));
                timeout(stalled, putting).await
            }
        };
        match written {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(ending))) => return Over::Ended(ending),
            Ok(Err(error)) => {
                tracing::debug!("a stream's client is gone: {error}");
                return Over::Gone;
            }
            Err(_) => {
                tracing::debug!("a stream's client took nothing for {stalled:?}");
                return Over::Gone;
            }
        }
    }
}

/// Messages written together at most; a reader that waits for the first does not notice.
const TOGETHER: usize = 256;

/// Writes a message and those that are ready behind it, and only then sends them off.
async fn put(
    sink: &mut SplitSink<Io, Message>,
    mut messages: std::pin::Pin<&mut impl Stream<Item = Result<Message, Ending>>>,
    first: Message,
) -> Result<Option<Ending>, tokio_tungstenite::tungstenite::Error> {
    // Fed and flushed once: a write to TLS for each line of a busy log would cost a record and a system call each.
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
                ended = Some(Ending::done());
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
        let ending = Ending::new(Ending::FAILED, "ü".repeat(100));
        assert_eq!(ending.reason.len(), 122);
        assert_eq!(Ending::new(1, "short").reason, "short");
    }
}

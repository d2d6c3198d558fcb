//! The wire of a connection: what is written has a time, and so has the greeting; and what is held until an answer is
//! written is given back then.
//!
//! ```text
//!  body ends ──► what it holds waits here ──► all bytes are with the system, or the connection is over ──► given back
//! ```

use bytes::Buf;
use hyper::body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};

/// Bytes with which a client begins HTTP/2.
const HTTP2_GREETING: usize = 24;

/// A wire with limits of time.
#[derive(Debug)]
pub(super) struct Wire<S> {
    io: S,
    within: Duration,
    /// Since when nothing was taken, while something waits.
    stalled: Option<Pin<Box<Sleep>>>,
    greeting: Option<Greeting>,
    unwritten: Unwritten,
}

/// What must come before anything else, and until when.
#[derive(Debug)]
struct Greeting {
    left: usize,
    until: Pin<Box<Sleep>>,
}

impl<S> Wire<S> {
    /// A wire whose other end takes something at least as often as that.
    pub(super) fn new(io: S, within: Duration, unwritten: Unwritten) -> Self {
        Self {
            io,
            within,
            stalled: None,
            greeting: None,
            unwritten,
        }
    }

    /// One that must begin HTTP/2 within that time.
    pub(super) fn greeted_within(mut self, within: Duration) -> Self {
        self.greeting = Some(Greeting {
            left: HTTP2_GREETING,
            until: Box::pin(sleep(within)),
        });
        self
    }

    /// Ends what waits for too long.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        // Any progress starts the time anew: a slow link is not a silent one.
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let within = self.within;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(within)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(late("the other end takes nothing")))
    }
}

fn late(words: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, words)
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buffer);
        let Some(greeting) = &mut self.greeting else {
            return polled;
        };
        greeting.left = greeting.left.saturating_sub(buffer.filled().len() - before);
        if greeting.left == 0 {
            self.greeting = None;
        } else if polled.is_pending() && greeting.until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(late("no greeting came")));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.bounded(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, pieces);
        self.bounded(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        // A flush that is done means that no byte waits any more, so what the bodies held can be used by others.
        if polled.is_ready() {
            self.unwritten.give_back();
        }
        self.bounded(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_shutdown(cx);
        self.bounded(cx, polled)
    }
}

impl<S> Drop for Wire<S> {
    fn drop(&mut self) {
        self.unwritten.end();
    }
}

/// What is held until the bytes of a connection are written.
#[derive(Debug, Clone, Default)]
pub(super) struct Unwritten(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    held: Vec<OwnedSemaphorePermit>,
    is_over: bool,
}

impl Unwritten {
    fn hold(&self, turn: OwnedSemaphorePermit) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A body may be dropped after its connection. Pushed then, its turn would be held for ever.
        if !waiting.is_over {
            waiting.held.push(turn);
        }
    }

    fn give_back(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).held.clear();
    }

    fn end(&self) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.is_over = true;
        waiting.held.clear();
    }
}

/// A body that holds a turn until it is written.
#[derive(Debug)]
pub(super) struct Held<B> {
    body: B,
    turn: Option<OwnedSemaphorePermit>,
    unwritten: Unwritten,
}

impl<B> Held<B> {
    pub(super) fn new(body: B, turn: Option<OwnedSemaphorePermit>, unwritten: Unwritten) -> Self {
        Self {
            body,
            turn,
            unwritten,
        }
    }
}

impl<D: Buf, B: Body<Data = D> + Unpin> Body for Held<B> {
    type Data = D;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<D>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Held<B> {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.unwritten.hold(turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use hyper::server::conn::{http1, http2};
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::sync::Semaphore;
    use tokio::task::JoinHandle;

    const LARGE: usize = 10_000;

    /// A server of one large answer at once, on a wire that holds next to nothing.
    fn serve(turns: &Arc<Semaphore>, within: Duration) -> (DuplexStream, JoinHandle<hyper::Result<()>>) {
        let (near, far) = duplex(64);
        let unwritten = Unwritten::default();
        let wire = Wire::new(far, within, unwritten.clone());
        let turns = Arc::clone(turns);
        let service = service_fn(move |_| {
            let (turns, unwritten) = (Arc::clone(&turns), unwritten.clone());
            async move {
                let turn = turns.try_acquire_owned().ok();
                let body = Full::new(bytes::Bytes::from(vec![b'x'; LARGE]));
                Ok::<_, io::Error>(http::Response::new(Held::new(body, turn, unwritten)))
            }
        });
        let serving = http1::Builder::new().serve_connection(TokioIo::new(wire), service);
        (near, tokio::spawn(serving))
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_held_until_the_answer_is_written() {
        let turns = Arc::new(Semaphore::new(1));
        let (mut client, serving) = serve(&turns, Duration::from_secs(60));
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(turns.available_permits(), 0);
        let mut some = vec![0; LARGE - 1000];
        client.read_exact(&mut some).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(turns.available_permits(), 0);
        let mut rest = vec![0; 1000];
        client.read_exact(&mut rest).await.unwrap();
        let mut head = [0; 64];
        drop(client.read(&mut head).await);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(turns.available_permits(), 1);
        drop(client);
        drop(serving.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_let_go_and_so_is_its_turn() {
        let turns = Arc::new(Semaphore::new(1));
        let (mut client, serving) = serve(&turns, Duration::from_secs(60));
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        // Whoever takes a little is not cut; who takes nothing for the whole time is.
        for _ in 0..3 {
            sleep(Duration::from_secs(50)).await;
            let mut some = [0; 64];
            client.read_exact(&mut some).await.unwrap();
        }
        assert!(!serving.is_finished() && turns.available_permits() == 0);
        let ended = tokio::time::timeout(Duration::from_secs(61), serving).await;
        assert!(ended.expect("an end").unwrap().is_err());
        assert_eq!(turns.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_begin_http2_is_let_go() {
        for greeting in [&b""[..], b"PRI * HTTP/2.0\r\n"] {
            let (mut client, far) = duplex(64);
            let wire = Wire::new(far, Duration::from_secs(60), Unwritten::default());
            let wire = wire.greeted_within(Duration::from_secs(10));
            let service = service_fn(|_| async {
                Ok::<_, io::Error>(http::Response::new(Full::new(bytes::Bytes::new())))
            });
            let serving = http2::Builder::new(TokioExecutor::new());
            let serving = tokio::spawn(serving.serve_connection(TokioIo::new(wire), service));
            client.write_all(greeting).await.unwrap();
            sleep(Duration::from_secs(9)).await;
            assert!(!serving.is_finished());
            sleep(Duration::from_secs(2)).await;
            assert!(serving.is_finished(), "{greeting:?}");
        }
    }
}

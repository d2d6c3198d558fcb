//! Connection with time limits for writes and for the HTTP/2 preface. The permit of a response is released after all
//! bytes of the response are written.
//!
//! ```text
//!  body ends ──► its permit waits here ──► all bytes are written, or the connection is closed ──► released
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

/// Length of the HTTP/2 connection preface, in bytes.
const HTTP2_GREETING: usize = 24;

/// Connection with time limits.
#[derive(Debug)]
pub(super) struct Wire<S> {
    io: S,
    within: Duration,
    /// Timer for a write without progress. Runs only while data waits to be written.
    stalled: Option<Pin<Box<Sleep>>>,
    greeting: Option<Greeting>,
    pending_writes: PendingWrites,
}

/// Incomplete HTTP/2 preface: the number of missing bytes and the time limit.
#[derive(Debug)]
struct Greeting {
    left: usize,
    until: Pin<Box<Sleep>>,
}

impl<S> Wire<S> {
    /// Creates a connection that fails if a write makes no progress for the time `within`.
    pub(super) fn new(io: S, within: Duration, pending_writes: PendingWrites) -> Self {
        Self {
            io,
            within,
            stalled: None,
            greeting: None,
            pending_writes,
        }
    }

    /// Adds a time limit for receiving the HTTP/2 preface.
    pub(super) fn greeted_within(mut self, within: Duration) -> Self {
        self.greeting = Some(Greeting {
            left: HTTP2_GREETING,
            until: Box::pin(sleep(within)),
        });
        self
    }

    /// Returns the write result `polled`, or an error if the write has made no progress within the time
    /// limit.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        // Any progress restarts the timer: a slow client is not a dead one.
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let within = self.within;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(within)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(late("client does not read")))
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
            return Poll::Ready(Err(late("no HTTP/2 preface received")));
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
        // A completed flush means that no byte is pending, so the permits of the bodies can be released.
        if polled.is_ready() {
            self.pending_writes.release();
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
        self.pending_writes.end();
    }
}

/// Semaphore permits of responses that are not completely written.
#[derive(Debug, Clone, Default)]
pub(super) struct PendingWrites(Arc<Mutex<HeldPermits>>);

#[derive(Debug, Default)]
struct HeldPermits {
    permits: Vec<OwnedSemaphorePermit>,
    is_over: bool,
}

impl PendingWrites {
    fn hold(&self, permit: OwnedSemaphorePermit) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A body may be dropped after its connection. Its permit would then never be released.
        if !waiting.is_over {
            waiting.permits.push(permit);
        }
    }

    fn release(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .permits
            .clear();
    }

    fn end(&self) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.is_over = true;
        waiting.permits.clear();
    }
}

/// Response body that holds a permit until all of its bytes are written.
#[derive(Debug)]
pub(super) struct PermitBody<B> {
    body: B,
    permit: Option<OwnedSemaphorePermit>,
    pending_writes: PendingWrites,
}

impl<B> PermitBody<B> {
    pub(super) fn new(body: B, permit: Option<OwnedSemaphorePermit>, pending_writes: PendingWrites) -> Self {
        Self {
            body,
            permit,
            pending_writes,
        }
    }
}

impl<D: Buf, B: Body<Data = D> + Unpin> Body for PermitBody<B> {
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

impl<B> Drop for PermitBody<B> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.pending_writes.hold(permit);
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

    /// Starts a server with one large response and a small buffer.
    fn serve(permits: &Arc<Semaphore>, within: Duration) -> (DuplexStream, JoinHandle<hyper::Result<()>>) {
        let (near, far) = duplex(64);
        let pending_writes = PendingWrites::default();
        let wire = Wire::new(far, within, pending_writes.clone());
        let permits = Arc::clone(permits);
        let service = service_fn(move |_| {
            let (permits, pending_writes) = (Arc::clone(&permits), pending_writes.clone());
            async move {
                let permit = permits.try_acquire_owned().ok();
                let body = Full::new(bytes::Bytes::from(vec![b'x'; LARGE]));
                Ok::<_, io::Error>(http::Response::new(PermitBody::new(body, permit, pending_writes)))
            }
        });
        let serving = http1::Builder::new().serve_connection(TokioIo::new(wire), service);
        (near, tokio::spawn(serving))
    }

    #[tokio::test(start_paused = true)]
    async fn permit_is_held_until_the_response_is_written() {
        let permits = Arc::new(Semaphore::new(1));
        let (mut client, serving) = serve(&permits, Duration::from_secs(60));
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(permits.available_permits(), 0);
        let mut some = vec![0; LARGE - 1000];
        client.read_exact(&mut some).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(permits.available_permits(), 0);
        let mut rest = vec![0; 1000];
        client.read_exact(&mut rest).await.unwrap();
        let mut head = [0; 64];
        drop(client.read(&mut head).await);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(permits.available_permits(), 1);
        drop(client);
        drop(serving.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn connection_that_does_not_read_is_closed_and_its_permit_released() {
        let permits = Arc::new(Semaphore::new(1));
        let (mut client, serving) = serve(&permits, Duration::from_secs(60));
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        // A client that reads a little is not disconnected; one that reads nothing for the whole time is.
        for _ in 0..3 {
            sleep(Duration::from_secs(50)).await;
            let mut some = [0; 64];
            client.read_exact(&mut some).await.unwrap();
        }
        assert!(!serving.is_finished() && permits.available_permits() == 0);
        let ended = tokio::time::timeout(Duration::from_secs(61), serving).await;
        assert!(ended.expect("an end").unwrap().is_err());
        assert_eq!(permits.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn connection_without_http2_preface_is_closed() {
        for greeting in [&b""[..], b"PRI * HTTP/2.0\r\n"] {
            let (mut client, far) = duplex(64);
            let wire = Wire::new(far, Duration::from_secs(60), PendingWrites::default());
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

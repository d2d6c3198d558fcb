//! Open calls of an HTTP/2 connection, from the head of the request to the end of the response.
//!
//! An HTTP/2 connection stays open between calls, and the protocol has no timeout for an idle connection. As with
//! HTTP/1, the gateway closes a connection that has had no open call for some time. A stream that waits for updates is
//! an open call. The body of a request has a time limit, so it cannot keep a call open.

use axum::BoxError;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};

/// Number of open calls on one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenCalls {
    open: Arc<watch::Sender<usize>>,
}

/// Open call. Dropping this value counts the call as closed.
#[derive(Debug)]
pub(super) struct OpenCall(Arc<watch::Sender<usize>>);

/// Response body of a call. The call counts as open until the body is dropped.
#[derive(Debug)]
pub(super) struct CallBody<B> {
    body: B,
    _call: OpenCall,
}

impl OpenCalls {
    /// Counts a call as open until the returned value is dropped.
    pub(super) fn start(&self) -> OpenCall {
        self.open.send_modify(|open| *open += 1);
        OpenCall(Arc::clone(&self.open))
    }

    /// Waits until there has been no open call for the duration `time`.
    pub(super) async fn idle_for(&self, time: Duration) {
        let mut open = self.open.subscribe();
        loop {
            // Both fail only without a sender, and `self` owns one.
            drop(open.wait_for(|open| *open == 0).await);
            tokio::select! {
                // A call that starts at the last moment wins over the timer. Otherwise its response would be sent on a
                // closing connection.
                biased;
                _ = open.changed() => {}
                () = sleep(time) => return,
            }
        }
    }
}

impl OpenCall {
    pub(super) const fn attach<B>(self, body: B) -> CallBody<B> {
        CallBody { body, _call: self }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl<B: Body + Unpin> Body for CallBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Request body that fails if it is not received within a time limit.
#[derive(Debug)]
pub(super) struct TimedBody<B> {
    body: B,
    until: Pin<Box<Sleep>>,
}

impl<B> TimedBody<B> {
    pub(super) fn new(body: B, within: Duration) -> Self {
        Self {
            body,
            until: Box::pin(sleep(within)),
        }
    }
}

impl<B: Body<Error: Into<BoxError>> + Unpin> Body for TimedBody<B> {
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        // Data that is ready counts even after the limit: only a body that makes the reader wait is late.
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_pending() && self.until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err("the request took too long".into())));
        }
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn connection_is_idle_after_the_whole_time_without_a_call() {
        let calls = OpenCalls::default();
        let second = Duration::from_secs(1);
        let mut idle = Box::pin(calls.idle_for(LIMIT));
        let mut is_idle = async |within| timeout(within, &mut idle).await.is_ok();
        assert!(!is_idle(LIMIT - second).await);
        // Even a short call restarts the time.
        drop(calls.start());
        assert!(!is_idle(LIMIT - second).await);
        let long = calls.start().attach(());
        let other = calls.start();
        assert!(!is_idle(100 * LIMIT).await);
        drop(long);
        assert!(!is_idle(100 * LIMIT).await);
        drop(other);
        assert!(!is_idle(LIMIT - second).await);
        sleep(2 * second).await;
        assert!(is_idle(second).await);
    }
}

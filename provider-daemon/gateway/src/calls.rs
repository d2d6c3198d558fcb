//! What is under way on a connection of HTTP/2: calls, from their heads to the ends of their answers.
//!
//! A connection of HTTP/2 lives on between calls, and nothing in the protocol ends it. One on which nothing is under
//! way is ended after a while, as one of HTTP/1 is; a stream that waits for news is under way however long it is still.
//! A call whose request does not come to its end is not under way for ever.

use axum::BoxError;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};

/// The calls of one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    open: Arc<watch::Sender<usize>>,
}

/// One of them; over when it is dropped.
#[derive(Debug)]
pub(super) struct Call(Arc<watch::Sender<usize>>);

/// An answer's body; its call is over with it.
#[derive(Debug)]
pub(super) struct Counted<B> {
    body: B,
    _call: Call,
}

impl Calls {
    /// Counts one more call until the returned value is dropped, however the call ends.
    pub(super) fn begin(&self) -> Call {
        self.open.send_modify(|open| *open += 1);
        Call(Arc::clone(&self.open))
    }

    /// Waits until nothing has been under way for so long.
    pub(super) async fn idle_for(&self, time: Duration) {
        let mut open = self.open.subscribe();
        loop {
            // Both fail only without a sender, and that one is here.
            drop(open.wait_for(|open| *open == 0).await);
            tokio::select! {
                // A call that began at the last moment wins over the timer, or it would be answered on a closing
                // connection.
                biased;
                _ = open.changed() => {}
                () = sleep(time) => return,
            }
        }
    }
}

impl Call {
    /// It goes on until this body is over.
    pub(super) const fn through<B>(self, body: B) -> Counted<B> {
        Counted { body, _call: self }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl<B: Body + Unpin> Body for Counted<B> {
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

/// A request's body that comes to its end within a time.
#[derive(Debug)]
pub(super) struct Timely<B> {
    body: B,
    until: Pin<Box<Sleep>>,
}

impl<B> Timely<B> {
    pub(super) fn new(body: B, within: Duration) -> Self {
        Self {
            body,
            until: Box::pin(sleep(within)),
        }
    }
}

impl<B: Body<Error: Into<BoxError>> + Unpin> Body for Timely<B> {
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        // What is there already counts even after the time: only a body that keeps us waiting is late.
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
    async fn it_is_idle_when_nothing_was_under_way_for_the_whole_time() {
        let calls = Calls::default();
        let second = Duration::from_secs(1);
        let mut idle = Box::pin(calls.idle_for(LIMIT));
        let mut is_idle = async |within| timeout(within, &mut idle).await.is_ok();
        assert!(!is_idle(LIMIT - second).await);
        // However short it was, the time begins anew.
        drop(calls.begin());
        assert!(!is_idle(LIMIT - second).await);
        let long = calls.begin().through(());
        let other = calls.begin();
        assert!(!is_idle(100 * LIMIT).await);
        drop(long);
        assert!(!is_idle(100 * LIMIT).await);
        drop(other);
        assert!(!is_idle(LIMIT - second).await);
        sleep(2 * second).await;
        assert!(is_idle(second).await);
    }
}

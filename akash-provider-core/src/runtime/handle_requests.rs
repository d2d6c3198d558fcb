//! Requests of handles to the loop, and the registry of pending replies.

use crate::RestartState;
use crate::engine::reservations::Capacity;
use crate::engine::{Leadership, Refusal, RefusalKind, Reply, Request, RequestId, Response, Status};
use crate::types::{GroupId, LeaseId};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Length of the queue from handles to the loop.
const QUEUE: usize = 256;
/// Maximum number of requests that wait for a reply of the engine.
const WAITING: usize = 1024;

/// A request from a handle. If the provider has stopped, the reply sender is dropped.
#[derive(Debug)]
pub(crate) enum HandleRequest {
    Request(Request, oneshot::Sender<Response>),
    Leadership(Leadership, oneshot::Sender<()>),
    RestoreState(RestartState, oneshot::Sender<()>),
    PricesChanged(oneshot::Sender<()>),
    HoldBids(Option<Arc<str>>, oneshot::Sender<()>),
    Status(oneshot::Sender<Arc<Status>>),
    Capacity(oneshot::Sender<Option<Box<Capacity>>>),
    HasLease(LeaseId, oneshot::Sender<bool>),
    LeaseOf(GroupId, oneshot::Sender<Option<LeaseId>>),
}

/// Queue of the requests of handles, with the reply channel of each pending request.
#[derive(Debug)]
pub(crate) struct RequestQueue {
    asks: mpsc::Receiver<HandleRequest>,
    waiting: BTreeMap<RequestId, oneshot::Sender<Response>>,
    next_id: u64,
    closed: bool,
}

impl RequestQueue {
    pub(crate) fn new() -> (Self, mpsc::Sender<HandleRequest>) {
        let (sender, asks) = mpsc::channel(QUEUE);
        let desk = Self {
            asks,
            waiting: BTreeMap::new(),
            next_id: 0,
            closed: false,
        };
        (desk, sender)
    }

    pub(crate) async fn next(&mut self) -> Option<HandleRequest> {
        self.asks.recv().await
    }

    pub(crate) fn try_next(&mut self) -> Option<HandleRequest> {
        self.asks.try_recv().ok()
    }

    /// Registers a pending request. Returns `None` if the request was refused.
    pub(crate) fn admit(&mut self, reply: oneshot::Sender<Response>) -> Option<RequestId> {
        if self.closed {
            let _ = reply.send(Err(stopping()));
            return None;
        }
        if self.waiting.len() >= WAITING {
            let _ = reply.send(Err(busy()));
            return None;
        }
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.waiting.insert(id, reply);
        Some(id)
    }

    /// Sends the engine's reply to the caller, unless the caller has stopped waiting.
    pub(crate) fn answer(&mut self, id: RequestId, response: Response) {
        match self.waiting.remove(&id) {
            Some(reply) => {
                if reply.send(response).is_err() {
                    tracing::debug!(request = id.0, "reply dropped, caller stopped waiting");
                }
            }
            None => tracing::error!(
                request = id.0,
                "reply dropped: no request with this number is pending; report this as a bug"
            ),
        }
    }

    /// Refuses all later requests to the engine. Status queries are served until the loop ends.
    pub(crate) const fn stop_admitting(&mut self) {
        self.closed = true;
    }

    /// Refuses all pending and all later requests.
    pub(crate) fn close(&mut self) {
        self.stop_admitting();
        // Closed before it is emptied, so that no request is added in between.
        self.asks.close();
        while let Ok(ask) = self.asks.try_recv() {
            // A dropped query means for its caller that the provider has stopped.
            if let HandleRequest::Request(_, reply) = ask {
                let _ = reply.send(Err(stopping()));
            }
        }
        for (_, reply) in std::mem::take(&mut self.waiting) {
            let _ = reply.send(Err(stopping()));
        }
    }
}

pub(crate) fn stopping() -> Refusal {
    Refusal::new(
        RefusalKind::Stopping,
        "the provider is stopping; try again when it runs",
    )
}

pub(crate) fn busy() -> Refusal {
    Refusal::new(RefusalKind::Busy, "too many pending requests; try again later")
}

/// Returns the refusal for a reply that does not match its request.
pub(crate) fn misplaced(reply: &Reply) -> Refusal {
    Refusal::new(
        RefusalKind::Unavailable,
        format!("unexpected reply of the provider ({reply:?})"),
    )
}

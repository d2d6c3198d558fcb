//! What handles ask of the loop, and the desk where each request gets its one reply.

use crate::Kept;
use crate::engine::reservations::Capacity;
use crate::engine::{Leadership, Refusal, RefusalKind, Reply, Request, RequestId, Response, Status};
use crate::types::{GroupId, LeaseId};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Asks on their way to the loop: it takes them within milliseconds, so this many are a burst, not a load.
const QUEUE: usize = 256;
/// Requests the engine owes a reply: each holds a manifest of up to some megabytes.
const WAITING: usize = 1024;

/// One question or request of a handle. Its sender dropped without a word means that the provider is over.
#[derive(Debug)]
pub(crate) enum Ask {
    Request(Request, oneshot::Sender<Response>),
    Leadership(Leadership, oneshot::Sender<()>),
    Kept(Kept, oneshot::Sender<()>),
    PricesChanged(oneshot::Sender<()>),
    HoldBids(Option<Arc<str>>, oneshot::Sender<()>),
    Status(oneshot::Sender<Arc<Status>>),
    Capacity(oneshot::Sender<Option<Box<Capacity>>>),
    HasLease(LeaseId, oneshot::Sender<bool>),
    LeaseOf(GroupId, oneshot::Sender<Option<LeaseId>>),
}

/// The loop's end: takes asks in and remembers who waits for which reply.
#[derive(Debug)]
pub(crate) struct Desk {
    asks: mpsc::Receiver<Ask>,
    waiting: BTreeMap<RequestId, oneshot::Sender<Response>>,
    next_id: u64,
    closed: bool,
}

impl Desk {
    pub(crate) fn new() -> (Self, mpsc::Sender<Ask>) {
        let (sender, asks) = mpsc::channel(QUEUE);
        let desk = Self {
            asks,
            waiting: BTreeMap::new(),
            next_id: 0,
            closed: false,
        };
        (desk, sender)
    }

    pub(crate) async fn next(&mut self) -> Option<Ask> {
        self.asks.recv().await
    }

    pub(crate) fn try_next(&mut self) -> Option<Ask> {
        self.asks.try_recv().ok()
    }

    /// Notes who waits; `None` when the request was refused here.
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

    /// Hands the engine's reply over; the requester may have gone away.
    pub(crate) fn answer(&mut self, id: RequestId, response: Response) {
        match self.waiting.remove(&id) {
            Some(reply) => {
                if reply.send(response).is_err() {
                    tracing::debug!(request = id.0, "the requester did not wait for the reply");
                }
            }
            None => tracing::error!(request = id.0, "a reply without a request"),
        }
    }

    /// From here on every request is refused; questions are answered until the end.
    pub(crate) const fn stop_admitting(&mut self) {
        self.closed = true;
    }

    /// Refuses everything that still waits.
    pub(crate) fn close(&mut self) {
        self.stop_admitting();
        // Closed before it is emptied, so that nothing comes in between.
        self.asks.close();
        while let Ok(ask) = self.asks.try_recv() {
            // Questions are dropped without a word, which their askers take for the end.
            if let Ask::Request(_, reply) = ask {
                let _ = reply.send(Err(stopping()));
            }
        }
        for (_, reply) in std::mem::take(&mut self.waiting) {
            let _ = reply.send(Err(stopping()));
        }
    }
}

/// The provider is over, or about to be.
pub(crate) fn stopping() -> Refusal {
    Refusal {
        kind: RefusalKind::Stopping,
        message: "the provider is stopping; ask again when it runs".into(),
    }
}

/// Too many ask at once.
pub(crate) fn busy() -> Refusal {
    Refusal {
        kind: RefusalKind::Busy,
        message: "too many requests wait for the provider; try again later".into(),
    }
}

/// A reply that does not belong to its request.
pub(crate) fn misplaced(reply: &Reply) -> Refusal {
    Refusal {
        kind: RefusalKind::Unavailable,
        message: format!("the provider answered another question ({reply:?})"),
    }
}

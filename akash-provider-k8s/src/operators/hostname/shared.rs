//! What watches, writer and status share: the board with the index, and what is known of what stands before the routes.

use super::front::Front;
use super::index::{Event, Index, Work};
use super::live::Live;
use super::route::Mode;
use crate::operators::board::{self, Board};
use crate::operators::change::Change;
use crate::operators::queue::Patience;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The watches by their names in the status.
pub(super) const HOSTS: &str = "providerhosts";
pub(super) const MANIFESTS: &str = "manifests";
pub(super) const ROUTES: &str = "routes";

impl board::Index for Index {
    type Event = Event;
    type Work = Work;
    const KEPT: &'static str = "a hostname cannot have its route";

    fn apply(&mut self, event: Event) -> BTreeSet<String> {
        Self::apply(self, event)
    }

    fn is_known(&self) -> bool {
        Self::is_known(self)
    }

    fn names(&self) -> BTreeSet<String> {
        Self::names(self)
    }

    fn work(&self, name: &str) -> Work {
        Self::work(self, name)
    }
}

impl board::Work for Work {
    fn is_done(&self) -> bool {
        Self::is_done(self)
    }

    fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn body(&self) -> Option<&Value> {
        self.write.as_ref().map(|write| &write.body)
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) board: Arc<Board<Index>>,
    front: Mutex<Front>,
}

impl Shared {
    pub(super) fn new(mode: Mode, patience: Patience) -> Self {
        let board = Board::new(Index::new(mode), patience, [HOSTS, MANIFESTS, ROUTES]);
        Self {
            board: Arc::new(board),
            front: Mutex::new(Front::default()),
        }
    }

    pub(super) fn front(&self) -> Front {
        self.front.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps what is known of what stands before the routes; what was known before.
    pub(super) fn set_front(&self, front: Front) -> Front {
        let mut kept = self.front.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut kept, front)
    }

    /// A route was written.
    pub(super) fn written(&self, name: &str, namespace: &str, meta: &ObjectMeta, body: &Value) {
        self.board.inner().counts.written += 1;
        let place = (namespace.to_owned(), name.to_owned());
        let live = Live::written(meta, body);
        self.board.apply(Event::Routes(Change::Put(place, live)));
    }

    /// A route was deleted.
    pub(super) fn deleted(&self, name: &str, namespace: &str, uid: &str) {
        self.board.inner().counts.deleted += 1;
        let place = (namespace.to_owned(), name.to_owned());
        self.board.apply(Event::RouteDeleted(place, uid.to_owned()));
    }

    /// The names of a lease are tried again now; the number of those that had failed.
    pub(super) fn forget(&self, lease: &str) -> usize {
        self.board.forget(|index, name| {
            let host = index.host(name).and_then(|host| host.as_ref().ok());
            host.is_some_and(|host| host.lease.to_string() == lease)
        })
    }
}

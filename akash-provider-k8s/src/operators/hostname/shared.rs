//! What watches, writer and status share: the index, whose turn it is, and how all of it fares.

use super::front::Front;
use super::index::{Event, Index, Work};
use super::live::Live;
use super::queue::{Patience, Queue};
use super::route::Mode;
use crate::apply::hash;
use crate::state::WatchState;
use akash_provider_core::error::Error;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Names that are looked at in one go, so that nobody else waits long.
const LOOKS: usize = 64;

/// What is watched, each by a watch of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// Records of declared hostnames.
    Hosts,
    /// Manifests, for the options of their exposes.
    Manifests,
    /// Routes of all namespaces that have the network's label.
    Routes,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Hosts, Self::Manifests, Self::Routes];
}

/// What was done since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Routes written, new ones and others.
    pub written: u64,
    /// Routes deleted, each by its identity.
    pub deleted: u64,
    /// Writes and deletes that failed.
    pub failed: u64,
}

/// What keeps a name from its route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) text: String,
    pub(super) since: Instant,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) index: Index,
    pub(super) queue: Queue,
    pub(super) watches: BTreeMap<Kind, WatchState>,
    pub(super) problems: BTreeMap<String, Problem>,
    pub(super) counts: Counts,
    pub(super) front: Front,
}

/// A name whose turn it is, and what is to be done.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) name: String,
    pub(super) work: Work,
    /// Of what is to be written.
    hash: Option<String>,
}

/// What the writer is to do next.
#[derive(Debug)]
pub(super) enum Next {
    /// This name, which counts as running from then on.
    Turn(Turn),
    /// Nothing yet; more names are to be looked at.
    More,
    /// Nothing until then, or until something changes.
    Nothing(Option<Instant>),
}

#[derive(Debug)]
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// Something is to be looked at.
    pub(super) news: Notify,
    /// Everything was listed once.
    ready: watch::Sender<bool>,
}

impl Shared {
    pub(super) fn new(mode: Mode, patience: Patience) -> Self {
        Self {
            inner: Mutex::new(Inner {
                index: Index::new(mode),
                queue: Queue::new(patience),
                watches: Kind::ALL.map(|kind| (kind, WatchState::default())).into(),
                problems: BTreeMap::new(),
                counts: Counts::default(),
                front: Front::default(),
            }),
            news: Notify::new(),
            ready: watch::Sender::new(false),
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Takes what a watch says, or what came of our own write.
    pub(super) fn apply(&self, event: Event) {
        let mut inner = self.inner();
        let touched = inner.index.apply(event);
        let is_known = inner.index.is_known();
        inner.queue.changed(touched);
        // The lock is free before anybody is told, who would look at once.
        drop(inner);
        self.ready
            .send_if_modified(|ready| !std::mem::replace(ready, is_known) && is_known);
        self.news.notify_one();
    }

    pub(super) fn next(&self, now: Instant) -> Next {
        let mut inner = self.inner();
        for _ in 0..LOOKS {
            let Some(name) = inner.queue.next(now) else {
                return Next::Nothing(inner.queue.due());
            };
            let work = inner.index.work(&name);
            inner.tell(&name, work.problem.clone(), now);
            if work.is_done() {
                inner.queue.rest(&name);
                continue;
            }
            let hash = work.write.as_ref().map(|write| hash::of(&write.body));
            let may_write = |hash: &String| inner.queue.may_write(&name, hash, now);
            if hash.as_ref().is_none_or(may_write) {
                return Next::Turn(Turn { name, work, hash });
            }
        }
        Next::More
    }

    /// A route was written.
    pub(super) fn written(&self, name: &str, namespace: &str, meta: &ObjectMeta, body: &Value) {
        self.inner().counts.written += 1;
        let place = (namespace.to_owned(), name.to_owned());
        let live = Live::written(meta, body);
        self.apply(Event::Routes(super::index::Change::Put(place, live)));
    }

    /// A route was deleted.
    pub(super) fn deleted(&self, name: &str, namespace: &str, uid: &str) {
        self.inner().counts.deleted += 1;
        let place = (namespace.to_owned(), name.to_owned());
        self.apply(Event::RouteDeleted(place, uid.to_owned()));
    }

    /// The work about a name is over.
    pub(super) fn finish(&self, turn: &Turn, outcome: Result<(), Error>, now: Instant) {
        let mut inner = self.inner();
        match outcome {
            Ok(()) => inner.queue.done(&turn.name, turn.hash.clone(), now),
            Err(error) => {
                inner.counts.failed += 1;
                let is_first = inner.queue.failure(&turn.name).is_none();
                inner.queue.failed(&turn.name, &error, now);
                // Later ones are in the status.
                if is_first {
                    tracing::warn!(hostname = turn.name, error = %error, "a route could not be made as wanted");
                }
            }
        }
    }

    /// Forgets what is of names that are neither declared nor routed.
    pub(super) fn prune(&self) {
        let mut inner = self.inner();
        let names = inner.index.names();
        inner.queue.prune(|name| names.contains(name));
        inner.problems.retain(|name, _| names.contains(name));
    }

    /// The names of a lease are tried again now; the number of those that had failed.
    pub(super) fn forget(&self, lease: &str) -> usize {
        let mut inner = self.inner();
        let Inner { index, queue, .. } = &mut *inner;
        let is_of = |name: &str| {
            let host = index.host(name).and_then(|host| host.as_ref().ok());
            host.is_some_and(|host| host.lease.to_string() == lease)
        };
        let forgotten = queue.forget(is_of);
        drop(inner);
        self.news.notify_one();
        forgotten
    }
}

impl Inner {
    fn tell(&mut self, name: &str, problem: Option<String>, now: Instant) {
        let Some(text) = problem else {
            self.problems.remove(name);
            return;
        };
        // Said once, not with every look.
        if self.problems.get(name).is_none_or(|known| known.text != text) {
            tracing::warn!(
                hostname = name,
                problem = text,
                "a hostname cannot have its route"
            );
            let since = now;
            self.problems.insert(name.to_owned(), Problem { text, since });
        }
    }
}

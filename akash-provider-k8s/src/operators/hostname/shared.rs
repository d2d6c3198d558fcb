//! What watches, writer and status share: the index, whose turn it is, and how all of it fares.

use super::front::Front;
use super::index::{Change, Delete, Event, Index, Plan, Work, Write};
use super::live::Live;
use super::queue::{Patience, Queue};
use super::sort::Sort;
use crate::apply::hash;
use crate::state::WatchState;
use akash_provider_core::error::Error;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
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
    /// Objects of all namespaces that have the network's label.
    Objects(Sort),
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::Hosts,
        Self::Manifests,
        Self::Objects(Sort::Ingress),
        Self::Objects(Sort::HttpRoute),
        Self::Objects(Sort::Filter),
        Self::Objects(Sort::Certificate),
    ];
}

/// What was done since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Objects written, new ones and others.
    pub written: u64,
    /// Objects deleted, each by its identity.
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
    /// Routes that their controller says nothing of, by hostname: which one, and since when it is as wanted.
    pub(super) settling: BTreeMap<String, (String, Instant)>,
    /// How long such a route is waited for before one of the other mode goes.
    handover: Duration,
    pub(super) counts: Counts,
    pub(super) front: Front,
}

/// A name whose turn it is, and what is to be done.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) name: String,
    pub(super) work: Box<Work>,
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
    pub(super) fn new(plan: Plan, patience: Patience, handover: Duration) -> Self {
        Self {
            inner: Mutex::new(Inner {
                index: Index::new(plan),
                queue: Queue::new(patience),
                watches: Kind::ALL.map(|kind| (kind, WatchState::default())).into(),
                problems: BTreeMap::new(),
                settling: BTreeMap::new(),
                handover,
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
            let mut work = inner.index.work(&name);
            inner.hand_over(&name, &mut work, now);
            inner.tell(&name, work.problem.clone(), now);
            if work.is_done() {
                inner.queue.rest(&name);
                continue;
            }
            let bodies: Vec<_> = work.writes().map(|write| hash::of(&write.body)).collect();
            let hash = (!bodies.is_empty()).then(|| bodies.join(" "));
            let may_write = |hash: &String| inner.queue.may_write(&name, hash, now);
            if hash.as_ref().is_none_or(may_write) {
                let work = Box::new(work);
                return Next::Turn(Turn { name, work, hash });
            }
        }
        Next::More
    }

    /// An object was written.
    pub(super) fn written(&self, name: &str, write: &Write, meta: &ObjectMeta) {
        self.inner().counts.written += 1;
        let place = (write.namespace.clone(), name.to_owned());
        let live = Live::written(meta, &write.body);
        self.apply(Event::Objects(write.sort, Change::Put(place, live)));
    }

    /// An object was deleted.
    pub(super) fn deleted(&self, name: &str, deleted: &Delete) {
        self.inner().counts.deleted += 1;
        let place = (deleted.namespace.clone(), name.to_owned());
        self.apply(Event::Deleted(deleted.sort, place, deleted.uid.clone()));
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
        inner.settling.retain(|name, _| names.contains(name));
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
    /// Routes of the other mode go when the new one was there for a while. It may have been there long before this
    /// operator was; that is not known, and so the while begins when it is first seen.
    fn hand_over(&mut self, name: &str, work: &mut Work, now: Instant) {
        if work.held.is_empty() {
            self.settling.remove(name);
            return;
        }
        let host = self.index.host(name).and_then(|host| host.as_ref().ok());
        let route = host.and_then(|host| self.index.route(name, &host.namespace));
        let uid = route.map(|route| route.uid.clone()).unwrap_or_default();
        let seen = self.settling.get(name).filter(|(known, _)| *known == uid);
        let since = seen.map_or(now, |(_, since)| *since);
        self.settling.insert(name.to_owned(), (uid, since));
        let until = since + self.handover;
        if until <= now {
            work.deletes.append(&mut work.held);
        } else {
            self.queue.remind(name, until);
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_status_comes_in_pages_that_have_each_name_once() {
        let shared = Shared::new(Plan::default(), Patience::default(), Duration::ZERO);
        let names: BTreeSet<String> = (0..25).map(|n| format!("n{n}.example.com")).collect();
        let garbage = names.iter().map(|name| (name.clone(), Err("garbage".to_owned())));
        shared.apply(Event::Hosts(Change::Listed(garbage.collect())));
        let (mut seen, mut after, mut pages) = (Vec::new(), None::<String>, 0);
        loop {
            let page = shared.status(after.as_deref(), 10);
            assert!(page.hostnames.len() <= 10);
            seen.extend(page.hostnames.into_keys());
            pages += 1;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!((pages, seen), (3, names.into_iter().collect()));
        assert_eq!(
            shared.status(None, 25).next,
            None,
            "there is nothing after the last"
        );
        assert!(shared.status_of("n7.example.com").is_some() && shared.status_of("other.org").is_none());
    }
}

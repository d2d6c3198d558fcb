//! What watches, writer, count and status share.

use super::database::Database;
use super::node::NodeView;
use super::rules::Rules;
use super::wanted::{self, Wanted};
use crate::operators::Counts;
use crate::state::WatchState;
use akash_provider_core::error::Error;
use akash_provider_core::inventory::Metrics;
use kube::core::ObjectMeta;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Longest wait after failures.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// What is watched for the labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// Nodes.
    Nodes,
    /// Storage classes.
    Classes,
}

/// How the writing of a node's labels fares.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    /// Failures, or writes that somebody undid, in a row.
    pub(super) setbacks: u32,
    /// Not before then.
    pub(super) not_before: Option<Instant>,
    pub(super) error: Option<String>,
    /// What was written last.
    wrote: Option<Wanted>,
    is_running: bool,
}

/// A node, and how its labels fare.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) view: NodeView,
    pub(super) pace: Pace,
    /// It has its labels, by what was known then: see [`Inner::known`].
    settled: Option<u64>,
}

/// A write that is due.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) name: String,
    uid: String,
    pub(super) patch: Value,
    wanted: Wanted,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) nodes: BTreeMap<String, Entry>,
    /// Nodes were listed.
    pub(super) are_known: bool,
    /// Classes with the network's label, and those without; `None` before they were listed.
    pub(super) classes: Option<BTreeMap<String, bool>>,
    pub(super) rules: Arc<Rules>,
    pub(super) list: Arc<Database>,
    /// Another number whenever something changes that all nodes hang on.
    known: u64,
    pub(super) watches: BTreeMap<Kind, WatchState>,
    pub(super) counts: Counts,
    /// What is counted, before the rules.
    pub(super) counted: Option<Metrics>,
    /// Why it may be out of date.
    pub(super) count_error: Option<String>,
}

/// The cluster as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Nodes and storage that are offered.
    pub metrics: Metrics,
    /// The list of GPUs.
    pub list: Arc<Database>,
}

#[derive(Debug)]
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// Something is to be looked at.
    pub(super) news: Notify,
    pub(super) shown: watch::Sender<Option<Arc<Shown>>>,
    retry_delay: Duration,
}

impl Shared {
    pub(super) fn new(rules: Rules, retry_delay: Duration) -> Self {
        Self {
            inner: Mutex::new(Inner {
                nodes: BTreeMap::new(),
                are_known: false,
                classes: None,
                rules: Arc::new(rules),
                list: Arc::default(),
                known: 0,
                watches: Kind::ALL.map(|kind| (kind, WatchState::default())).into(),
                counts: Counts::default(),
                counted: None,
                count_error: None,
            }),
            news: Notify::new(),
            shown: watch::Sender::new(None),
            retry_delay,
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something that others look at, and tells them.
    pub(super) fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner();
        change(&mut inner);
        let shown = inner.shown().map(Arc::new);
        // Under the lock, so that of two changes the later one is told last.
        self.shown.send_if_modified(|told| {
            let is_news = *told != shown;
            *told = shown;
            is_news
        });
        drop(inner);
        self.news.notify_one();
    }

    /// The next write that is due, which counts as running from then on; else when there may be one.
    pub(super) fn next(&self, now: Instant) -> Result<Turn, Option<Instant>> {
        let mut inner = self.inner();
        if !inner.are_known {
            return Err(None);
        }
        let classes = inner.offered_classes();
        let Inner {
            nodes,
            rules,
            list,
            known,
            ..
        } = &mut *inner;
        let mut due = None;
        for (name, entry) in nodes {
            // Most nodes have their labels, and each event comes by here.
            if entry.pace.is_running || entry.settled == Some(*known) {
                continue;
            }
            let wanted = wanted::wanted(&entry.view, rules, classes.as_ref(), list);
            let Some(patch) = wanted::patch(&entry.view, &wanted) else {
                entry.settled = Some(*known);
                continue;
            };
            // Written already and not there: somebody undoes it, and does not hurry us.
            if entry.pace.wrote.as_ref() == Some(&wanted) {
                entry.pace.wrote = None;
                entry.pace.set_back(self.retry_delay, now);
            }
            match entry.pace.not_before.filter(|then| *then > now) {
                Some(then) => due = Some(due.map_or(then, |due: Instant| due.min(then))),
                None => {
                    entry.pace.is_running = true;
                    return Ok(Turn {
                        name: name.clone(),
                        uid: entry.view.uid.clone(),
                        patch,
                        wanted,
                    });
                }
            }
        }
        Err(due)
    }

    /// A write is over.
    pub(super) fn finish(&self, turn: &Turn, outcome: Result<ObjectMeta, Error>, now: Instant) {
        let mut inner = self.inner();
        let Inner { nodes, counts, .. } = &mut *inner;
        match &outcome {
            Ok(_) => counts.written += 1,
            Err(_) => counts.failed += 1,
        }
        // Gone meanwhile, or another machine of the name: the answer is about neither.
        let entry = nodes
            .get_mut(&turn.name)
            .filter(|entry| entry.view.uid == turn.uid);
        let Some(entry) = entry else {
            return;
        };
        entry.pace.is_running = false;
        match outcome {
            Ok(meta) => {
                if version_is_newer(&entry.view, &meta) {
                    entry.view.set_meta(&meta);
                    entry.settled = None;
                }
                entry.pace.error = None;
                entry.pace.wrote = Some(turn.wanted.clone());
            }
            Err(error) => {
                if entry.pace.error.is_none() {
                    tracing::warn!(node = turn.name, %error, "the labels of a node could not be written");
                }
                entry.pace.error = Some(error.to_string());
                entry.pace.set_back(self.retry_delay, now);
            }
        }
    }

    /// Nothing runs any more: the term before may have ended in the middle of something.
    pub(super) fn restart(&self) {
        for entry in self.inner().nodes.values_mut() {
            entry.pace.is_running = false;
        }
    }
}

fn version_is_newer(view: &NodeView, meta: &ObjectMeta) -> bool {
    let version = crate::operators::version_of(meta);
    meta.uid.as_deref() == Some(&view.uid) && version >= view.version
}

impl Pace {
    /// The next write waits, twice as long each time.
    fn set_back(&mut self, first: Duration, now: Instant) {
        let wait = first.saturating_mul(1 << self.setbacks.min(20)).min(WAIT_MAX);
        self.setbacks = self.setbacks.saturating_add(1);
        self.not_before = Some(now + wait);
    }
}

impl Inner {
    /// Something has changed that all nodes hang on: rules, classes, the list of GPUs.
    pub(super) fn look_again(&mut self) {
        self.known += 1;
    }

    /// Takes a node as a watch has it.
    pub(super) fn put(&mut self, view: NodeView) {
        match self.nodes.get_mut(&view.name) {
            // What our own write answered is newer than what a watch is still telling.
            Some(entry) if entry.view.uid == view.uid && entry.view.version > view.version => {}
            Some(entry) if entry.view.uid == view.uid => {
                let before = std::mem::replace(&mut entry.view, view);
                entry.settled = None;
                // A change of the machine itself is a reason to try at once.
                if before.devices != entry.view.devices || before.is_ready != entry.view.is_ready {
                    entry.pace.setbacks = 0;
                    entry.pace.not_before = None;
                }
            }
            _ => {
                let name = view.name.clone();
                let pace = Pace::default();
                let settled = None;
                self.nodes.insert(name, Entry { view, pace, settled });
            }
        }
    }

    /// The classes of the cluster that have the network's label.
    pub(super) fn offered_classes(&self) -> Option<BTreeSet<String>> {
        let classes = self.classes.as_ref()?.iter();
        Some(
            classes
                .filter(|(_, offered)| **offered)
                .map(|(name, _)| name.clone())
                .collect(),
        )
    }

    fn shown(&self) -> Option<Shown> {
        let mut metrics = self.counted.clone()?;
        // At once, and not when their labels are gone.
        metrics.nodes.retain(|node| !self.rules.excludes(&node.name));
        metrics.storage.retain(|class, _| self.rules.offers(class));
        for node in &mut metrics.nodes {
            let name = node.name.clone();
            let may = |class: &String| self.rules.classes_of(&name).any(|known| known == class);
            node.storage_classes.retain(may);
        }
        let list = Arc::clone(&self.list);
        Some(Shown { metrics, list })
    }
}

#[cfg(test)]
mod tests;

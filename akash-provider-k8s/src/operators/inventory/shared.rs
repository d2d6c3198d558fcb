//! What watches, writer, count and status share: the board with the index, what was counted, and what is shown of it.

use super::database::Database;
use super::index::{Event, Index, Work};
use super::rules::Rules;
use crate::operators::board::{self, Board};
use crate::operators::queue::Patience;
use akash_provider_core::inventory::Metrics;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// The watches by their names in the status.
pub(super) const NODES: &str = "nodes";
pub(super) const CLASSES: &str = "storageclasses";

impl board::Index for Index {
    type Event = Event;
    type Work = Work;
    const KEPT: &'static str = "a node does not have the labels that it should";

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
        self.write.is_none()
    }

    fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn bodies(&self) -> Vec<&Value> {
        self.write.iter().map(|write| &write.wanted).collect()
    }
}

/// The cluster as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Nodes and storage that are offered.
    pub metrics: Metrics,
    /// The list of GPUs.
    pub list: Arc<Database>,
}

/// What is counted, before the rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Count {
    /// `None` before the first time.
    pub(super) metrics: Option<Metrics>,
    /// Why it may be out of date.
    pub(super) error: Option<String>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) board: Arc<Board<Index>>,
    /// Never locked by who holds the board.
    count: Mutex<Count>,
    pub(super) shown: watch::Sender<Option<Arc<Shown>>>,
}

impl Shared {
    pub(super) fn new(rules: Rules, retry_delay: Duration) -> Self {
        let patience = Patience {
            retry_delay,
            // A node is ours to label whatever was refused: it is tried for ever.
            refusals: u32::MAX,
            ..Patience::default()
        };
        Self {
            board: Arc::new(Board::new(Index::new(rules), patience, [NODES, CLASSES])),
            count: Mutex::default(),
            shown: watch::Sender::new(None),
        }
    }

    pub(super) fn count(&self) -> Count {
        self.count.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over what is chosen, and shows what it changes.
    pub(super) fn choose(&self, event: Event) {
        self.board.apply(event);
        self.show(|_| ());
    }

    /// Takes over what is counted, or why it is not.
    pub(super) fn counted(&self, outcome: Result<Metrics, String>) {
        self.show(|count| match outcome {
            Ok(metrics) => {
                count.metrics = Some(metrics);
                count.error = None;
            }
            Err(error) => count.error = Some(error),
        });
    }

    fn show(&self, change: impl FnOnce(&mut Count)) {
        // Locked to the end, so that of two changes the later one is told last.
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut count);
        let (rules, list) = {
            let inner = self.board.inner();
            (Arc::clone(inner.index.rules()), Arc::clone(inner.index.list()))
        };
        let metrics = count.metrics.clone();
        let shown = metrics.map(|metrics| Arc::new(offered(metrics, &rules, list)));
        self.shown.send_if_modified(|told| {
            let is_news = *told != shown;
            *told = shown;
            is_news
        });
    }

    /// Labels were written.
    pub(super) fn written(&self, name: &str, meta: ObjectMeta) {
        self.board.inner().counts.written += 1;
        self.answered(name, meta);
    }

    /// The API server says how a node is.
    pub(super) fn answered(&self, name: &str, meta: ObjectMeta) {
        self.board.apply(Event::Answered(name.to_owned(), Box::new(meta)));
    }
}

/// What of a cluster is offered: at once, and not when the labels are gone.
fn offered(mut metrics: Metrics, rules: &Rules, list: Arc<Database>) -> Shown {
    metrics.nodes.retain(|node| !rules.excludes(&node.name));
    metrics.storage.retain(|class, _| rules.offers(class));
    for node in &mut metrics.nodes {
        let name = node.name.clone();
        let may = |class: &String| rules.classes_of(&name).any(|known| known == class);
        node.storage_classes.retain(may);
    }
    Shown { metrics, list }
}

#[cfg(test)]
mod tests;

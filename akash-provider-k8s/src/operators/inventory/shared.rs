//! State that watches, writer, inventory and status share: the index, the last count and the published report.

use super::database::Database;
use super::discovery::Processors;
use super::discovery::seeker::Desk;
use super::index::{Event, Index, Work};
use super::rules::Rules;
use crate::operators::board::{self, Board};
use crate::operators::queue::Patience;
use crate::state::Definitions;
use akash_provider_core::inventory::{Inventory, Metrics};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Names of the watches in the status.
pub(super) const NODES: &str = "nodes";
pub(super) const CLASSES: &str = "storageclasses";

impl board::Index for Index {
    type Event = Event;
    type Work = Work;
    const KEPT: &'static str = "node labels incomplete";

    const TOGETHER: bool = true;

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

    fn prune(&mut self) {
        self.forget_gone();
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

/// Inventory that is computed on the first use, from the state at its creation.
#[derive(Clone)]
pub(super) struct Counted(Arc<LazyLock<Arc<dyn Inventory>, Count>>);

type Count = Box<dyn FnOnce() -> Arc<dyn Inventory> + Send>;

impl Counted {
    pub(super) fn new(count: impl FnOnce() -> Arc<dyn Inventory> + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(count))))
    }

    pub(super) fn metrics(&self) -> Metrics {
        self.0.metrics()
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Counted").finish_non_exhaustive()
    }
}

/// Report of the cluster. The offered part is computed on the first use: with thousands of nodes that takes longer
/// than a recount, and most changes are never read.
#[derive(Debug, Clone)]
pub struct Shown {
    counted: Counted,
    rules: Arc<Rules>,
    offered: OnceLock<Metrics>,
    /// List of GPUs.
    pub list: Arc<Database>,
    /// Discovered processors.
    pub processors: Arc<Processors>,
}

impl Shown {
    /// Returns the offered nodes and storage.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        self.offered
            .get_or_init(|| offered(self.counted.metrics(), &self.rules))
    }

    /// Returns true if both reports have the same count, rules, list and processors.
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.counted.0, &other.counted.0)
            && Arc::ptr_eq(&self.rules, &other.rules)
            && Arc::ptr_eq(&self.list, &other.list)
            && Arc::ptr_eq(&self.processors, &other.processors)
    }
}

/// Last count, before the rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// `None` before the first count.
    pub(super) inventory: Option<Counted>,
    /// Reason why the count may be outdated.
    pub(super) error: Option<String>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) board: Arc<Board<Index>>,
    /// Lock order: before the state of the operator.
    count: Mutex<Known>,
    pub(super) shown: watch::Sender<Option<Arc<Shown>>>,
    /// Queue of discovery; `None` without discovery. Lock order: before the state of the operator.
    pub(super) desk: Option<Mutex<Desk>>,
}

impl Shared {
    pub(super) fn new(rules: Rules, retry_delay: Duration, definitions: Definitions, looks: bool) -> Self {
        let patience = Patience {
            retry_delay,
            // The labels of a node are retried forever, with any refusal.
            refusals: u32::MAX,
            ..Patience::default()
        };
        Self {
            board: Arc::new(Board::new(
                Index::new(rules),
                patience,
                [NODES, CLASSES],
                definitions,
            )),
            count: Mutex::default(),
            shown: watch::Sender::new(None),
            desk: looks.then(|| Mutex::new(Desk::new(patience))),
        }
    }

    /// Returns the queue of discovery.
    pub(super) fn desk(&self) -> Option<MutexGuard<'_, Desk>> {
        let desk = self.desk.as_ref()?;
        Some(desk.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn count(&self) -> Known {
        self.count.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Applies a change of the configuration, and publishes the report.
    pub(super) fn choose(&self, event: Event) {
        self.board.apply(event);
        self.show(|_| ());
    }

    /// Stores a count, or the reason for its absence, and publishes the report.
    pub(super) fn counted(&self, outcome: Result<Counted, String>) {
        self.show(|count| match outcome {
            Ok(inventory) => {
                count.inventory = Some(inventory);
                count.error = None;
            }
            Err(error) => count.error = Some(error),
        });
    }

    fn show(&self, change: impl FnOnce(&mut Known)) {
        // Locked until the end, so that the last change is published last.
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut count);
        let (rules, list, processors) = {
            let index = &self.board.inner().index;
            (
                Arc::clone(index.rules()),
                Arc::clone(index.list()),
                Arc::clone(index.processors()),
            )
        };
        let Some(counted) = count.inventory.clone() else {
            return;
        };
        let shown = Shown {
            counted,
            rules,
            offered: OnceLock::new(),
            list,
            processors,
        };
        self.shown.send_if_modified(|told| {
            let is_news = told.as_ref().is_none_or(|told| !told.is_same(&shown));
            if is_news {
                *told = Some(Arc::new(shown));
            }
            is_news
        });
    }

    /// Records written labels.
    pub(super) fn written(&self, name: &str, meta: ObjectMeta) {
        self.board.inner().counts.written += 1;
        self.answered(name, meta);
    }

    /// Applies metadata from a response of the API server.
    pub(super) fn answered(&self, name: &str, meta: ObjectMeta) {
        self.board.apply(Event::Answered(name.to_owned(), Box::new(meta)));
    }
}

/// Returns the offered part of a cluster. The rules apply at once, before labels are removed.
fn offered(mut metrics: Metrics, rules: &Rules) -> Metrics {
    metrics.nodes.retain(|node| !rules.excludes(&node.name));
    metrics.storage.retain(|class, _| rules.offers(class));
    for node in &mut metrics.nodes {
        let name = node.name.clone();
        let may = |class: &String| rules.classes_of(&name).any(|known| known == class);
        node.storage_classes.retain(may);
    }
    metrics
}

#[cfg(test)]
mod tests;

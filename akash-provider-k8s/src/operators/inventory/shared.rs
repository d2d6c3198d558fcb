//! What watches, writer, count and status share: the board with the index, what was counted, and what is shown of it.

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

/// The watches by their names in the status.
pub(super) const NODES: &str = "nodes";
pub(super) const CLASSES: &str = "storageclasses";

impl board::Index for Index {
    type Event = Event;
    type Work = Work;
    const KEPT: &'static str = "a node does not have the labels that it should";

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

/// What is counted, made when somebody looks for the first time, of what is known then.
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

/// The cluster as it is shown. What is offered is made when somebody looks: with thousands of nodes that takes longer
/// than to count what changed, and most changes nobody looks at.
#[derive(Debug, Clone)]
pub struct Shown {
    counted: Counted,
    rules: Arc<Rules>,
    offered: OnceLock<Metrics>,
    /// The list of GPUs.
    pub list: Arc<Database>,
    /// Which processors machines have that were looked at.
    pub processors: Arc<Processors>,
}

impl Shown {
    /// Nodes and storage that are offered.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        self.offered
            .get_or_init(|| offered(self.counted.metrics(), &self.rules))
    }

    /// True where both are of one count, by the same rules.
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.counted.0, &other.counted.0)
            && Arc::ptr_eq(&self.rules, &other.rules)
            && Arc::ptr_eq(&self.list, &other.list)
            && Arc::ptr_eq(&self.processors, &other.processors)
    }
}

/// What is counted, before the rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// `None` before the first time.
    pub(super) inventory: Option<Counted>,
    /// Why it may be out of date.
    pub(super) error: Option<String>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) board: Arc<Board<Index>>,
    /// Never locked by who holds the board.
    count: Mutex<Known>,
    pub(super) shown: watch::Sender<Option<Arc<Shown>>>,
    /// The machines that are looked at; `None` where none are. Locked before the board, never by who holds it.
    pub(super) desk: Option<Mutex<Desk>>,
}

impl Shared {
    pub(super) fn new(rules: Rules, retry_delay: Duration, definitions: Definitions, looks: bool) -> Self {
        let patience = Patience {
            retry_delay,
            // A node is ours to label whatever was refused: it is tried for ever.
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

    /// The machines that are looked at.
    pub(super) fn desk(&self) -> Option<MutexGuard<'_, Desk>> {
        let desk = self.desk.as_ref()?;
        Some(desk.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn count(&self) -> Known {
        self.count.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over what is chosen, and shows what it changes.
    pub(super) fn choose(&self, event: Event) {
        self.board.apply(event);
        self.show(|_| ());
    }

    /// Takes over what is counted, or why it is not.
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
        // Locked to the end, so that of two changes the later one is told last.
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

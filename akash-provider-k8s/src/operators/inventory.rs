//! The inventory operator: shows what a cluster has, and labels its nodes with it.
//!
//! ```text
//! nodes   ┐           ┌─ rules, list of GPUs ┐
//! classes ┴─ watches ─► index ─► wanted labels ─► queue ─► writer ─► API server
//!                         ▲                                  │
//!                         └───────── what it answers ◄───────┘
//! nodes, pods, classes, volumes ─► the provider's own count ─► what is shown
//! ```
//!
//! [`rules`] is what an operator chooses, [`database`] says which model a device is, [`mod@wanted`] which labels a node is
//! to have, and [`index`] puts them together: none of them has a clock or a network. What is shown is counted as [`crate::inventory`] counts it for the
//! provider, from what nodes say, labels included: a model is offered when its label is there, because pods are bound by
//! it.

pub mod database;
pub mod discovery;
pub mod index;
pub mod node;
pub mod rules;
mod shared;
mod status;
pub mod wanted;
mod watch;
mod writer;

pub use super::Counts;
pub use discovery::seeker::{DiscoveryStatus, MachineStatus};
pub use shared::Shown;
pub use status::{NodeStatus, Status};
#[cfg(test)]
pub(crate) use watch::NodeLabelParts;

use super::worker::{Pace, Running};
use crate::apply::Calls;
use crate::cluster::LeadershipGate;
use crate::inventory::{self, WholeInventory};
use crate::state::WatchConfig;
use database::Database;
use discovery::seeker::Seeker;
use index::Event;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::core::ApiResource;
use rules::Rules;
use shared::{Counted, Shared};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch as channel;
use writer::Writer;

/// How often is forgotten what is of nodes that are gone.
const PRUNE_EVERY: Duration = Duration::from_secs(600);

/// What an operator chooses. [`Options::default`] has the defaults of the command line.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which nodes and storage classes are offered, until [`InventoryOperator::set_rules`].
    pub rules: Rules,
    /// How the cluster is counted.
    pub count: inventory::Options,
    /// First wait after a failure; it doubles up to five minutes (`--retry-delay`).
    pub retry_delay: Duration,
    /// Limit of one call to the API server.
    pub call_timeout: Duration,
    /// How eagerly the watches are kept up.
    pub watch_config: WatchConfig,
    /// How machines are looked at whose labels do not say which GPUs they have; `None` looks at none.
    pub discovery: Option<discovery::Options>,
    /// No label is written while it is shut.
    pub gate: LeadershipGate,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            count: inventory::Options::default(),
            retry_delay: Duration::from_secs(3),
            call_timeout: Duration::from_secs(10),
            watch_config: WatchConfig::default(),
            discovery: None,
            gate: LeadershipGate::new(true),
        }
    }
}

/// The operator at work. Dropping it ends it at once; [`InventoryOperator::stop`] lets it finish what it began.
#[derive(Debug)]
pub struct InventoryOperator {
    shared: Arc<Shared>,
    running: Running,
}

impl InventoryOperator {
    /// Begins to watch, and writes labels as soon as nodes and classes were listed. It needs the runtime of tokio.
    #[must_use]
    pub fn start(client: &Client, options: Options) -> Self {
        let shared = Arc::new(Shared::new(
            options.rules,
            options.retry_delay,
            options.count.definitions.clone(),
            options.discovery.is_some(),
        ));
        let writer = Writer {
            shared: Arc::clone(&shared),
            calls: Calls::new(client.clone(), options.call_timeout, "labels of a node")
                .guarded(options.gate.clone()),
            resource: ApiResource::erase::<Node>(&()),
        };
        let pace = Pace {
            prune: PRUNE_EVERY,
            grace: options.call_timeout,
        };
        let mut running = Running::start(writer, pace, options.gate.clone());
        if let Some(discovery) = options.discovery {
            let calls = Calls::new(client.clone(), options.call_timeout, "look at a machine");
            let seeker = Seeker::new(&shared, client, calls.guarded(options.gate.clone()), discovery);
            running.lead(options.gate, move |until| seeker.clone().run(until));
        }
        running.keep(watch::start(client, &shared.board, options.watch_config));
        running.spawn(count(
            WholeInventory::start(client, &options.count),
            Arc::clone(&shared),
        ));
        Self { shared, running }
    }

    /// Other rules from here on, for what is shown and for the labels of all nodes.
    pub fn set_rules(&self, rules: Rules) {
        self.shared.choose(Event::Rules(rules));
    }

    /// Another list of GPUs from here on, for all nodes.
    pub fn set_list(&self, list: Database) {
        self.shared.choose(Event::List(list));
    }

    /// Waits until the cluster was counted, and all that labels hang on was listed.
    pub async fn ready(&self) {
        // The other end is in our hands, so it does not go away.
        let _ = self.shown().wait_for(Option::is_some).await;
        self.shared.board.listed().await;
    }

    /// The cluster was counted once, and all that labels hang on was listed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.shown.borrow().is_some() && self.shared.board.is_listed()
    }

    /// The cluster as it is shown, and each change of it; `None` before it was counted once. While it cannot be counted
    /// the last word stays.
    #[must_use]
    pub fn shown(&self) -> channel::Receiver<Option<Arc<Shown>>> {
        self.shared.shown.subscribe()
    }

    /// How everything is at the moment, node by node.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Begins nothing more, and waits for what is under way, at most for the limit of one call.
    pub async fn stop(&self) {
        self.running.stop().await;
    }
}

/// Takes over what is counted, for ever.
async fn count(mut inventory: WholeInventory, shared: Arc<Shared>) {
    loop {
        let outcome = inventory.next().await;
        shared.counted(outcome.map(|counting| Counted::new(move || counting.count())));
    }
}

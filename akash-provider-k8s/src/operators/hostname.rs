//! The hostname operator: from declared hostnames to routes.
//!
//! ```text
//! ProviderHosts ┐                     ┌─ wanted, written, accepted ─► status
//! Manifests     ├─ watches ─► index ──┤
//! routes        ┘     ▲               └─ work ─► queue ─► writer ─► API server
//!                     └────────────── what was written ◄────┘
//! ```
//!
//! [`facts`] reads records, [`index`] says what is to be done and [`queue`] whose turn it is: none of them has a clock or
//! a network. One writer does it. It is driven by what there is and not by what happened, so that a change that was
//! missed is made up for by the next list; and what is as wanted is not written.

pub mod certificate;
pub mod entrance;
pub mod facts;
pub mod filter;
mod front;
pub mod index;
pub mod live;
mod note;
pub mod notes;
pub mod probe;
pub mod proof;
pub mod rounds;
pub mod route;
#[cfg(test)]
mod samples;
mod shared;
pub mod sort;
mod status;
mod watch;
mod writer;

pub use super::{Counts, Ignored, LeaseParts, WatchStatus, queue};
pub use front::Front;
pub use status::{HostnameStatus, Managed, Status};

use super::guard::evidence::Records;
use super::worker::{Pace, Running};
use crate::apply::Calls;
use crate::cluster::LeadershipGate;
use crate::crd::ProviderHost;
use crate::state::{Definitions, WatchConfig};
use akash_provider_core::manifest::with_star;
use index::Plan;
use kube::{Api, Client};
use note::Notebook;
use probe::Probe;
use proof::Proving;
use queue::Patience;
use shared::Shared;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use writer::Writer;

/// What an operator chooses. [`Options::default`] has the defaults of the command line.
#[derive(Debug, Clone)]
pub struct Options {
    /// Namespace of the records (`--k8s-manifest-ns`).
    pub manifest_namespace: String,
    /// What is made of hostnames.
    pub plan: Plan,
    /// How long an Ingress of which nobody says that it serves is there before the HTTPRoute of its name goes
    /// (`--handover-wait`).
    pub handover: Duration,
    /// How failures are answered.
    pub patience: Patience,
    /// How often is forgotten what is of names that are gone (`--prune-interval`).
    pub prune_interval: Duration,
    /// Limit of one call to the API server.
    pub call_timeout: Duration,
    /// How eagerly the watches are kept up.
    pub watch_config: WatchConfig,
    /// Who says when a kind comes that the cluster does not have; one for all of a process.
    pub definitions: Definitions,
    /// Nothing is written while it is shut.
    pub gate: LeadershipGate,
    /// Who asks whether names answer (`--probe`); `None` for nobody.
    pub probe: Option<Probe>,
    /// Who looks for proofs of the names that [`Plan::proof`] wants some of; without it they wait for ever.
    pub proving: Option<Proving>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            manifest_namespace: "lease".to_owned(),
            plan: Plan::default(),
            handover: Duration::from_secs(60),
            patience: Patience::default(),
            prune_interval: Duration::from_secs(600),
            call_timeout: Duration::from_secs(10),
            watch_config: WatchConfig::default(),
            definitions: Definitions::default(),
            gate: LeadershipGate::new(true),
            probe: None,
            proving: None,
        }
    }
}

/// The operator at work. Dropping it ends it at once; [`HostnameOperator::stop`] lets it finish what it began.
#[derive(Debug)]
pub struct HostnameOperator {
    shared: Arc<Shared>,
    running: Running,
}

impl HostnameOperator {
    /// Begins to watch, and writes as soon as everything was listed. It needs the runtime of tokio.
    #[must_use]
    pub fn start(client: &Client, options: Options) -> Self {
        let shared = Arc::new(Shared::new(
            options.plan.clone(),
            options.patience,
            options.handover,
            options.definitions,
        ));
        let writer = Writer {
            shared: Arc::clone(&shared),
            calls: Calls::new(client.clone(), options.call_timeout, "route").guarded(options.gate.clone()),
        };
        let pace = Pace {
            prune: options.prune_interval,
            grace: options.call_timeout,
        };
        let mut running = Running::start(writer, pace, options.gate.clone());
        running.keep(watch::start(
            client,
            &options.manifest_namespace,
            &options.plan.mode,
            &shared.board,
            options.watch_config,
        ));
        running.spawn(front::watch(
            client.clone(),
            options.plan.mode,
            options.watch_config,
            Arc::clone(&shared),
        ));
        let records = Records {
            client: client.clone(),
            api: Api::<ProviderHost>::namespaced(client.clone(), &options.manifest_namespace),
            key: with_star,
            limit: options.call_timeout,
        };
        running.spawn(records.follow(Arc::clone(&shared.board)));
        let notes = Notebook::new(client, &options.manifest_namespace, options.call_timeout);
        if let Some(probe) = options.probe {
            let (shared, notes) = (Arc::clone(&shared), notes.clone());
            running.lead(options.gate.clone(), move |until| {
                probe::run(probe.clone(), Arc::clone(&shared), notes.clone(), until)
            });
        }
        if let Some(proving) = options.proving {
            let shared = Arc::clone(&shared);
            running.lead(options.gate, move |until| {
                proof::run(proving.clone(), Arc::clone(&shared), notes.clone(), until)
            });
        }
        Self { shared, running }
    }

    /// Waits until everything was listed.
    pub async fn ready(&self) {
        self.shared.board.listed().await;
    }

    /// Everything was listed once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.board.is_listed()
    }

    /// How everything is at the moment, name by name.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status(None, usize::MAX)
    }

    /// The same of the names after `after` in their order, so many at most; [`Status::next`] says where to go on.
    #[must_use]
    pub fn status_page(&self, after: Option<&str>, limit: usize) -> Status {
        self.shared.status(after, limit)
    }

    /// The same of one name; `None` where it is neither declared nor routed.
    #[must_use]
    pub fn status_of(&self, hostname: &str) -> Option<Status> {
        self.shared.status_of(hostname)
    }

    /// The names that lead somewhere, as today's operator shows them.
    #[must_use]
    pub fn managed_hostnames(&self) -> BTreeMap<String, Managed> {
        self.shared.managed()
    }

    /// What failed, by lease, as today's operator shows it.
    #[must_use]
    pub fn ignore_list(&self) -> BTreeMap<String, Ignored> {
        self.shared.ignored()
    }

    /// The names of a lease, given as `owner/dseq/gseq/oseq/provider`, are tried again now; the number of those that had
    /// failed.
    #[must_use]
    pub fn forget(&self, lease: &str) -> usize {
        self.shared.forget(lease)
    }

    /// Confirms the deletions of [`Status::hold`]; returns their number.
    #[must_use]
    pub fn confirm(&self) -> usize {
        self.shared.board.confirm()
    }

    /// Begins nothing more, and waits for what is under way, at most for the limit of one call.
    pub async fn stop(&self) {
        self.running.stop().await;
    }
}

//! Hostname operator: creates routes for declared hostnames.
//!
//! ```text
//! ProviderHosts ┐                     ┌─ desired, written, accepted ─► status
//! Manifests     ├─ watches ─► index ──┤
//! routes        ┘     ▲               └─ work ─► queue ─► writer ─► API server
//!                     └────────────── written objects ◄────┘
//! ```
//!
//! [`facts`] decodes records, [`index`] computes the work and [`queue`] orders it; all three are pure. One writer does
//! the work. The operator compares complete states: the next list corrects a missed event, and an object in its desired
//! state is not written.

pub mod certificate;
pub mod facts;
mod filter;
pub mod index;
pub mod live;
mod note_writer;
pub mod object_kind;
pub mod probe;
pub mod proof;
pub mod proxy_address;
pub mod route;
mod route_parent;
#[cfg(test)]
mod samples;
pub mod schedule;
mod shared;
mod status;
mod watch;
mod writer;

pub use super::{IgnoredLease, LeaseParts, OperationCounts, WatchStatus, queue};
pub use shared::RouteParent;
pub use status::{HostnameOperatorStatus, HostnameStatus, ManagedHostname};

use super::WorkStatistics;
use super::guard::evidence::RecordReader;
use super::worker::{OperatorTasks, WorkerTiming};
use akash_provider_core::manifest::with_star;
use akash_provider_kube_kernel::audit::DeletionLog;
use akash_provider_kube_kernel::calls::KubeCalls;
use akash_provider_kube_kernel::watch::{Definitions, WatchConfig};
use akash_provider_kube_kernel::write_client::WriteClient;
use akash_provider_kube_model::crd::ProviderHost;
use index::RoutePlan;
use kube::Api;
use note_writer::NoteWriter;
use probe::Probe;
use proof::ProofConfig;
use queue::RetryPolicy;
use shared::HostnameOperatorState;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use writer::RouteWriter;

/// Settings of the operator. [`HostnameOperatorOptions::default`] has the defaults of the command line.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HostnameOperatorOptions {
    /// Namespace of the ProviderHost and Manifest objects (`--k8s-manifest-ns`).
    pub manifest_namespace: String,
    /// Rules for the objects that the operator creates for hostnames.
    pub plan: RoutePlan,
    /// Age at which an Ingress without a status replaces the HTTPRoute of the same hostname
    /// (`--handover-wait`). The operator then deletes the HTTPRoute.
    pub handover: Duration,
    /// Back-off after failed writes, and limits of the ignore list.
    pub patience: RetryPolicy,
    /// Interval at which the operator removes the state of deleted hostnames (`--prune-interval`).
    pub prune_interval: Duration,
    /// Maximum duration of one call to the API server.
    pub call_timeout: Duration,
    /// Timeouts and back-off of the watches.
    pub watch_config: WatchConfig,
    /// Shared watch of CustomResourceDefinitions; one per process.
    pub definitions: Definitions,
    /// Audit log of deletions. The operator deletes objects that have no record.
    pub deletions: DeletionLog,
    /// Probe of hostnames (`--probe`); `None` disables it.
    pub probe: Option<Probe>,
    /// Settings of the ownership proofs for the hostnames that [`RoutePlan::proof`] selects. With `None`, these
    /// hostnames get no route.
    pub proving: Option<ProofConfig>,
}

impl Default for HostnameOperatorOptions {
    fn default() -> Self {
        Self {
            manifest_namespace: "lease".to_owned(),
            plan: RoutePlan::default(),
            handover: Duration::from_secs(60),
            patience: RetryPolicy::default(),
            prune_interval: Duration::from_secs(600),
            call_timeout: Duration::from_secs(10),
            watch_config: WatchConfig::default(),
            definitions: Definitions::default(),
            deletions: DeletionLog::default(),
            probe: None,
            proving: None,
        }
    }
}

/// Running hostname operator. Dropping the value stops the operator at once. [`HostnameOperator::stop`] first
/// waits for the work in progress.
#[derive(Debug)]
pub struct HostnameOperator {
    shared: Arc<HostnameOperatorState>,
    running: OperatorTasks,
}

impl HostnameOperator {
    /// Starts the watches. The operator writes no objects until the initial lists of all required kinds are
    /// complete. Requires a tokio runtime.
    ///
    /// # Examples
    /// A client without a gate is not accepted:
    /// ```compile_fail,E0308
    /// # use akash_provider_operators::hostname::{HostnameOperator, HostnameOperatorOptions};
    /// # fn example(client: kube::Client) {
    /// let operator = HostnameOperator::start(&client, HostnameOperatorOptions::default());
    /// # }
    /// ```
    #[must_use]
    pub fn start(client: &WriteClient, options: HostnameOperatorOptions) -> Self {
        let (client, gate) = (client.client(), client.gate());
        let shared = Arc::new(HostnameOperatorState::new(
            options.plan.clone(),
            options.patience,
            options.handover,
            options.definitions,
        ));
        let writer = RouteWriter {
            shared: Arc::clone(&shared),
            calls: KubeCalls::new(client.clone(), options.call_timeout, "route").guarded(gate.clone()),
            deletions: options.deletions,
        };
        let pace = WorkerTiming {
            prune: options.prune_interval,
            grace: options.call_timeout,
        };
        let mut running = OperatorTasks::start(writer, pace, gate.clone());
        running.add(watch::start(
            client,
            &options.manifest_namespace,
            &options.plan.mode,
            &shared.state,
            options.watch_config,
        ));
        running.spawn(route_parent::watch(
            client.clone(),
            options.plan.mode,
            options.watch_config,
            Arc::clone(&shared),
        ));
        let records = RecordReader {
            client: client.clone(),
            api: Api::<ProviderHost>::namespaced(client.clone(), &options.manifest_namespace),
            key: with_star,
            limit: options.call_timeout,
        };
        running.spawn(records.follow(Arc::clone(&shared.state)));
        let notes = NoteWriter::new(client, &options.manifest_namespace, options.call_timeout);
        if let Some(probe) = options.probe {
            let (shared, notes) = (Arc::clone(&shared), notes.clone());
            running.lead(gate.clone(), move |until| {
                probe::run(probe.clone(), Arc::clone(&shared), notes.clone(), until)
            });
        }
        if let Some(proving) = options.proving {
            let shared = Arc::clone(&shared);
            running.lead(gate.clone(), move |until| {
                proof::run(proving.clone(), Arc::clone(&shared), notes.clone(), until)
            });
        }
        Self { shared, running }
    }

    /// Waits until every required kind was listed.
    pub async fn ready(&self) {
        self.shared.state.listed().await;
    }

    /// Returns the depth of the work queue, and the write durations and the counters since the start.
    #[must_use]
    pub fn work_statistics(&self) -> WorkStatistics {
        self.shared.state.work_statistics()
    }

    /// Returns true after every required kind was listed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.state.is_listed()
    }

    /// Returns the status of all hostnames.
    #[must_use]
    pub fn status(&self) -> HostnameOperatorStatus {
        self.shared.status(None, usize::MAX)
    }

    /// Returns the status of at most `limit` hostnames that follow `after` in alphabetical order.
    /// [`HostnameOperatorStatus::next`] starts the next page.
    #[must_use]
    pub fn status_page(&self, after: Option<&str>, limit: usize) -> HostnameOperatorStatus {
        self.shared.status(after, limit)
    }

    /// Returns the status of one hostname, or `None` if the hostname has no record and no object.
    #[must_use]
    pub fn status_of(&self, hostname: &str) -> Option<HostnameOperatorStatus> {
        self.shared.status_of(hostname)
    }

    /// Returns the hostnames with a route, in the format of the Go operator.
    #[must_use]
    pub fn managed_hostnames(&self) -> BTreeMap<String, ManagedHostname> {
        self.shared.managed()
    }

    /// Returns the hostnames with failed writes, grouped by lease, in the format of the Go operator.
    #[must_use]
    pub fn ignore_list(&self) -> BTreeMap<String, IgnoredLease> {
        self.shared.ignored()
    }

    /// Retries the failed hostnames of a lease immediately, and returns their number. `lease` has the form
    /// `owner/dseq/gseq/oseq/provider`.
    #[must_use]
    pub fn forget(&self, lease: &str) -> usize {
        self.shared.forget(lease)
    }

    /// Confirms the deletions that [`HostnameOperatorStatus::hold`] reports; returns their number.
    #[must_use]
    pub fn confirm(&self) -> usize {
        self.shared.state.confirm()
    }

    /// Stops the operator. Waits for the work in progress, for at most the timeout of one call.
    pub async fn stop(&self) {
        self.running.stop().await;
    }
}

//! IP operator: creates LoadBalancer Services for leased IP addresses, so that MetalLB assigns the addresses.
//!
//! ```text
//! ProviderLeasedIPs ┐                     ┌─ desired, written, assigned ─► status
//! Manifests         ├─ watches ─► index ──┤
//! Services          │     ▲               └─ work ─► queue ─► writer ─► API server
//! IPAddressPools    ┘     └────────────── written objects ◄────┘
//! ```
//!
//! `facts`, `live` and [`pool`](akash_provider_kube_model::leased_ips::pool) decode objects, and `index` computes
//! the work; all of them are pure. A Service
//! in its desired state is not written. Pools and the metrics of MetalLB affect only the status.

pub mod balancer;
mod facts;
mod index;
mod live;
mod metrics;
mod shared;
mod status;
mod usage;
mod watch;
mod writer;

pub use shared::MetricsStatus;
pub use status::{AddressStatus, AssignedPort, IpOperatorStatus, PortState};

use super::guard::evidence::RecordReader;
use super::queue::RetryPolicy;
use super::worker::{OperatorTasks, WorkerTiming};
use super::{IgnoredLease, WorkStatistics};
use akash_provider_core::types::{Address, LeaseId};
use akash_provider_kube_kernel::audit::DeletionLog;
use akash_provider_kube_kernel::calls::KubeCalls;
use akash_provider_kube_kernel::watch::{Definitions, WatchConfig};
use akash_provider_kube_kernel::write_client::WriteClient;
use akash_provider_kube_model::crd::ProviderLeasedIP;
use akash_provider_kube_model::leased_ips::AddressUsage;
use akash_provider_kube_model::settings::LeasedIpCount;
use balancer::Mode;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::core::ApiResource;
use metrics::MetricsEndpoint;
use shared::IpOperatorState;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use writer::ServiceWriter;

/// Minimum interval between two checks of the assigned addresses. A check finds addresses that are late, from
/// a wrong pool, or shared with another tenant.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Duration for which changes are collected before the addresses are counted.
const GATHER: Duration = Duration::from_millis(75);

/// Settings of the operator. [`IpOperatorOptions::new`] has the defaults of the command line.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IpOperatorOptions {
    /// Provider of the leases that this operator serves (`--provider`).
    pub provider: Address,
    /// Namespace of the ProviderLeasedIP and Manifest objects (`--k8s-manifest-ns`).
    pub manifest_namespace: String,
    /// Pool, annotations and load balancer class of the Services.
    pub mode: Mode,
    /// Namespace of the controller and the address pools of MetalLB.
    pub metallb_namespace: String,
    /// Address of the metrics of the MetalLB controller, as `HOST:PORT`; `None` to use the proxy of the API server
    /// (`--metal-lb-endpoint`).
    pub metallb_endpoint: Option<String>,
    /// Back-off after failed writes, and limits of the ignore list.
    pub patience: RetryPolicy,
    /// Interval at which data about deleted Services is removed from memory (`--prune-interval`).
    pub prune_interval: Duration,
    /// Maximum duration of one call to the API server.
    pub call_timeout: Duration,
    /// Timeouts and back-off of the watches.
    pub watch_config: WatchConfig,
    /// Shared watch of CustomResourceDefinitions; one per process.
    pub definitions: Definitions,
    /// Audit log for deletions of objects that have no record.
    pub deletions: DeletionLog,
    /// Count of addresses that the operator updates for the inventory of the provider in this process.
    pub address_count: Option<LeasedIpCount>,
}

impl IpOperatorOptions {
    /// Returns settings for the leases of `provider`. The values are the defaults of the command line.
    #[must_use]
    pub fn new(provider: Address) -> Self {
        Self {
            provider,
            manifest_namespace: "lease".to_owned(),
            mode: Mode::default(),
            metallb_namespace: "metallb-system".to_owned(),
            metallb_endpoint: None,
            patience: RetryPolicy::default(),
            prune_interval: Duration::from_secs(600),
            call_timeout: Duration::from_secs(10),
            watch_config: WatchConfig::default(),
            definitions: Definitions::default(),
            deletions: DeletionLog::default(),
            address_count: None,
        }
    }
}

/// Running IP operator. Dropping the value stops the operator at once. [`IpOperator::stop`] first waits for
/// the work in progress.
#[derive(Debug)]
pub struct IpOperator {
    shared: Arc<IpOperatorState>,
    provider: Address,
    running: OperatorTasks,
}

impl IpOperator {
    /// Starts the watches. Requires a tokio runtime.
    #[must_use]
    pub fn start(client: &WriteClient, options: IpOperatorOptions) -> Self {
        let (client, gate) = (client.client(), client.gate());
        let shared = Arc::new(IpOperatorState::new(
            options.provider.clone(),
            options.mode.clone(),
            options.patience,
            options.definitions,
        ));
        let writer = ServiceWriter {
            shared: Arc::clone(&shared),
            calls: KubeCalls::new(client.clone(), options.call_timeout, "leased address")
                .guarded(gate.clone()),
            resource: ApiResource::erase::<Service>(&()),
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
            &options.metallb_namespace,
            &shared.state,
            options.watch_config,
        ));
        let endpoint = options.metallb_endpoint.as_deref();
        let source = MetricsEndpoint::new(client, &options.metallb_namespace, endpoint);
        running.spawn(metrics::watch(source, options.call_timeout, Arc::clone(&shared)));
        running.spawn(look(Arc::clone(&shared)));
        if let Some(count) = options.address_count {
            running.spawn(count_addresses(
                options.provider.clone(),
                Arc::clone(&shared),
                count,
            ));
        }
        let records = RecordReader {
            client: client.clone(),
            api: Api::<ProviderLeasedIP>::namespaced(client.clone(), &options.manifest_namespace),
            key: str::to_owned,
            limit: options.call_timeout,
        };
        running.spawn(records.follow(Arc::clone(&shared.state)));
        Self {
            shared,
            provider: options.provider,
            running,
        }
    }

    /// Waits until records, Manifests and Services were listed.
    pub async fn ready(&self) {
        self.shared.state.listed().await;
    }

    /// Returns the depth of the work queue, and the write statistics since the start.
    #[must_use]
    pub fn work_statistics(&self) -> WorkStatistics {
        self.shared.state.work_statistics()
    }

    /// Returns true after records, Manifests and Services were listed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.state.is_listed()
    }

    /// Returns the address of the provider.
    #[must_use]
    pub const fn provider(&self) -> &Address {
        &self.provider
    }

    /// Returns the status of all leased addresses.
    #[must_use]
    pub fn status(&self) -> IpOperatorStatus {
        self.shared.status()
    }

    /// Returns the number of addresses for leases, the number of used addresses, and the status of each pool.
    #[must_use]
    pub fn usage(&self) -> AddressUsage {
        self.shared.usage()
    }

    /// Returns the ports of leased addresses, by lease, in the format of the Go operator. Only ports with an
    /// existing Service are included.
    #[must_use]
    pub fn port_states(&self) -> BTreeMap<String, Vec<PortState>> {
        self.shared.port_states()
    }

    /// Returns the addresses with failed writes, grouped by lease, in the format of the Go operator.
    #[must_use]
    pub fn ignored_leases(&self) -> BTreeMap<String, IgnoredLease> {
        self.shared.ignored()
    }

    /// Returns the assigned addresses of a lease, in the format of the Go operator.
    ///
    /// # Errors
    /// Returns an error with the text of the Go operator if a Service of the lease has no address or is
    /// invalid.
    pub fn assigned(&self, lease: &LeaseId) -> Result<Vec<AssignedPort>, String> {
        self.shared.assigned(lease)
    }

    /// Retries the failed ports of a lease immediately, and returns their number. `lease` has the form
    /// `owner/dseq/gseq/oseq/provider`.
    #[must_use]
    pub fn forget(&self, lease: &str) -> usize {
        self.shared.forget(lease)
    }

    /// Confirms the deletions that [`IpOperatorStatus::hold`] reports; returns their number.
    #[must_use]
    pub fn confirm(&self) -> usize {
        self.shared.state.confirm()
    }

    /// Stops the operator. Waits for the work in progress, for at most the timeout of one call.
    pub async fn stop(&self) {
        self.running.stop().await;
    }
}

/// Counts the addresses after changes. Never returns.
async fn count_addresses(provider: Address, shared: Arc<IpOperatorState>, count: LeasedIpCount) {
    let mut changes = shared.state.changes();
    loop {
        changes.borrow_and_update();
        let counted = usage::address_count(&provider, &shared.state.inner().index);
        if let Some(counted) = counted {
            let _ = count.set(counted);
        }
        // The sender is a field of the shared state, so the channel is open.
        let _ = changes.changed().await;
        sleep(GATHER).await;
    }
}

/// Checks addresses after changes, and periodically while a Service waits for its address. Never returns.
async fn look(shared: Arc<IpOperatorState>) {
    let mut changes = shared.state.changes();
    loop {
        changes.borrow_and_update();
        let (notices, is_waited) = {
            let inner = shared.state.inner();
            let now = Timestamp::now();
            (
                usage::notices(&inner.index, now),
                usage::is_waited(&inner.index, now),
            )
        };
        shared.log(notices);
        if !is_waited {
            // The sender is a field of the shared state, so the channel is open.
            let _ = changes.changed().await;
        }
        sleep(LOOK_EVERY).await;
    }
}

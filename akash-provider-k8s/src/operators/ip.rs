//! The IP operator: from declared addresses to load balancers, which MetalLB gives addresses to.
//!
//! ```text
//! ProviderLeasedIPs ┐                     ┌─ wanted, written, given ─► status
//! Manifests         ├─ watches ─► index ──┤
//! Services          │     ▲               └─ work ─► queue ─► writer ─► API server
//! IPAddressPools    ┘     └────────────── what was written ◄────┘
//! ```
//!
//! [`facts`], [`live`] and [`pool`] read objects, and [`index`] says what is to be done: none of them has a clock or a
//! network. What is as wanted is not written. Of pools and of what MetalLB says nothing depends but what is shown.

pub mod balancer;
mod capacity;
pub mod facts;
pub mod index;
pub mod live;
mod metrics;
pub mod pool;
mod shared;
mod status;
mod usage;
mod watch;
mod writer;

pub(crate) use capacity::Capacity;
pub use metrics::MetricsStatus;
pub use status::{AddressStatus, Assigned, Held, Status};
pub use usage::{PoolStatus, Usage};

use super::Ignored;
use super::guard::evidence::Records;
use super::queue::Patience;
use super::worker::{Pace, Running};
use crate::apply::Calls;
use crate::cluster::LeadershipGate;
use crate::crd::ProviderLeasedIP;
use crate::state::{Definitions, WatchConfig};
use akash_provider_core::types::{Address, LeaseId};
use balancer::Mode;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;
use kube::core::ApiResource;
use kube::{Api, Client};
use metrics::Source;
use shared::Shared;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use writer::Writer;

/// After a change, and while a Service waits for its address, so much time passes before it is looked whether one is late,
/// outside of its pool or not one tenant's alone.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What an operator chooses. [`Options::new`] has the defaults of the command line.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose leases are served (`--provider`).
    pub provider: Address,
    /// Namespace of the records (`--k8s-manifest-ns`).
    pub manifest_namespace: String,
    /// How leased addresses become load balancers.
    pub mode: Mode,
    /// Namespace of MetalLB, its pools and its controller.
    pub metallb_namespace: String,
    /// Where MetalLB's controller says what it counts, as `HOST:PORT`; `None` to ask by the API server
    /// (`--metal-lb-endpoint`).
    pub metallb_endpoint: Option<String>,
    /// How failures are answered.
    pub patience: Patience,
    /// How often is forgotten what is of Services that are gone (`--prune-interval`).
    pub prune_interval: Duration,
    /// Limit of one call to the API server.
    pub call_timeout: Duration,
    /// How eagerly the watches are kept up.
    pub watch_config: WatchConfig,
    /// Who says when a kind comes that the cluster does not have; one for all of a process.
    pub definitions: Definitions,
    /// Nothing is written while it is shut.
    pub gate: LeadershipGate,
}

impl Options {
    /// Those of the command line, for a provider's leases.
    #[must_use]
    pub fn new(provider: Address) -> Self {
        Self {
            provider,
            manifest_namespace: "lease".to_owned(),
            mode: Mode::default(),
            metallb_namespace: "metallb-system".to_owned(),
            metallb_endpoint: None,
            patience: Patience::default(),
            prune_interval: Duration::from_secs(600),
            call_timeout: Duration::from_secs(10),
            watch_config: WatchConfig::default(),
            definitions: Definitions::default(),
            gate: LeadershipGate::new(true),
        }
    }
}

/// The operator at work. Dropping it ends it at once; [`IpOperator::stop`] lets it finish what it began.
#[derive(Debug)]
pub struct IpOperator {
    shared: Arc<Shared>,
    provider: Address,
    running: Running,
}

impl IpOperator {
    /// Begins to watch, and writes as soon as records and Services were listed. It needs the runtime of tokio.
    #[must_use]
    pub fn start(client: &Client, options: Options) -> Self {
        let shared = Arc::new(Shared::new(
            options.provider.clone(),
            options.mode.clone(),
            options.patience,
            options.definitions,
        ));
        let writer = Writer {
            shared: Arc::clone(&shared),
            calls: Calls::new(client.clone(), options.call_timeout, "leased address")
                .guarded(options.gate.clone()),
            resource: ApiResource::erase::<Service>(&()),
        };
        let pace = Pace {
            prune: options.prune_interval,
            grace: options.call_timeout,
        };
        let mut running = Running::start(writer, pace, options.gate);
        running.keep(watch::start(
            client,
            &options.manifest_namespace,
            &options.metallb_namespace,
            &shared.board,
            options.watch_config,
        ));
        let endpoint = options.metallb_endpoint.as_deref();
        let source = Source::new(client, &options.metallb_namespace, endpoint);
        running.spawn(metrics::watch(source, options.call_timeout, Arc::clone(&shared)));
        running.spawn(look(Arc::clone(&shared)));
        let records = Records {
            client: client.clone(),
            api: Api::<ProviderLeasedIP>::namespaced(client.clone(), &options.manifest_namespace),
            key: str::to_owned,
            limit: options.call_timeout,
        };
        running.spawn(records.follow(Arc::clone(&shared.board)));
        Self {
            shared,
            provider: options.provider,
            running,
        }
    }

    /// Waits until records and Services were listed.
    pub async fn ready(&self) {
        self.shared.board.listed().await;
    }

    /// Records and Services were listed once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.board.is_listed()
    }

    /// Whose leases are served.
    #[must_use]
    pub const fn provider(&self) -> &Address {
        &self.provider
    }

    /// How everything is at the moment, address by address.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// How many addresses there are, and how many are in use.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.shared.usage()
    }

    /// The ports of leased addresses that lead somewhere by lease, as today's operator shows them.
    #[must_use]
    pub fn held(&self) -> BTreeMap<String, Vec<Held>> {
        self.shared.held()
    }

    /// What failed, by lease, as today's operator shows it.
    #[must_use]
    pub fn ignored_leases(&self) -> BTreeMap<String, Ignored> {
        self.shared.ignored()
    }

    /// What a lease was given, as today's operator shows it.
    ///
    /// # Errors
    /// In its words: a Service of the lease has no address, or makes no sense.
    pub fn assigned(&self, lease: &LeaseId) -> Result<Vec<Assigned>, String> {
        self.shared.assigned(lease)
    }

    /// The addresses of a lease, given as `owner/dseq/gseq/oseq/provider`, are tried again now; the number of ports that
    /// had failed.
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

/// Looks at what has changed, and at what time alone makes odd, for ever.
async fn look(shared: Arc<Shared>) {
    let mut changes = shared.board.changes();
    loop {
        changes.borrow_and_update();
        let (notices, is_waited) = {
            let inner = shared.board.inner();
            let now = Timestamp::now();
            (
                usage::notices(&inner.index, now),
                usage::is_waited(&inner.index, now),
            )
        };
        shared.tell(notices);
        if !is_waited {
            // The other end is in our hands, so it does not go away.
            let _ = changes.changed().await;
        }
        sleep(LOOK_EVERY).await;
    }
}

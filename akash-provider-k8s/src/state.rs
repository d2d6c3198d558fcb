//! What the cluster holds of ours, kept current by one shared set of watches.
//!
//! ```text
//! list and watch (follow) ─► caches ─► by lease (index) ─► health ─► listeners (changes)
//!                 └─► what is known of each watch (watches)
//! ```

mod cache;
mod changes;
pub(crate) mod definitions;
pub(crate) mod follow;
mod health;
mod history;
mod index;
mod kind;
mod nodes;
pub(crate) mod object;
mod orphans;
mod outage;
pub(crate) mod reading;
#[cfg(test)]
pub(crate) mod samples;
mod shared;
mod starter;
mod status;
mod trim;
mod view;
mod watch_config;
mod watches;

pub use definitions::Definitions;
pub use health::{Replicas, replicas};
pub use history::{History, Recorded};
pub use kind::{Kind, lease_of_host};
pub use orphans::{Orphan, Reason};
pub use status::{forwarded_ports, has_service, lease_status, pod_service, restarts, service_status};
pub use view::LeaseView;
pub use watch_config::WatchConfig;
pub use watches::WatchState;

pub(crate) use history::service_of;
pub(crate) use kind::Watched;
pub(crate) use shared::{EVERYWHERE, Shared};
pub(crate) use watch_config::asked_to_wait;

use crate::crd::{Manifest, ProviderHost, ProviderLeasedIP};
use crate::settings::Settings;
use crate::task;
use akash_provider_core::cluster::{ClusterChange, ForwardedPort, Health, LeaseStatus, ServiceStatus};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use futures::stream::BoxStream;
use health::Write;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Pod, ResourceQuota, Service, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::runtime::reflector::Store;
use kube::{Api, Client};
use starter::Starter;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::task::AbortOnDropHandle;

/// Caches of everything with our label, and what follows from them. Dropping it ends the watches.
#[derive(Debug)]
pub struct State {
    /// Namespaces that have the network's label.
    pub namespaces: Store<Namespace>,
    /// Workloads without persistent volumes.
    pub deployments: Store<Deployment>,
    /// Workloads with persistent volumes.
    pub stateful_sets: Store<StatefulSet>,
    /// Pods of leases: names, nodes and status only.
    pub pods: Store<Pod>,
    /// Services that have the network's label, those of operators too.
    pub services: Store<Service>,
    /// Network policies in the namespaces of leases.
    pub policies: Store<NetworkPolicy>,
    /// Manifests, in the manifest namespace.
    pub manifests: Store<Manifest>,
    /// Declared hostnames, in the manifest namespace.
    pub hosts: Store<ProviderHost>,
    /// Declared addresses, in the manifest namespace.
    pub ips: Store<ProviderLeasedIP>,
    history: Arc<History>,
    shared: Arc<Shared>,
    #[expect(dead_code, reason = "dropping them ends the watches")]
    tasks: Vec<AbortOnDropHandle<()>>,
}

impl State {
    /// Starts the watches. It returns at once, also when the API server is down.
    #[must_use]
    pub fn start(client: &Client, settings: &Settings) -> Self {
        Self::start_with(client, settings, WatchConfig::default())
    }

    /// Starts the watches with settings of one's own.
    #[must_use]
    pub fn start_with(client: &Client, settings: &Settings, watch_config: WatchConfig) -> Self {
        let shared = Arc::new(Shared::new(settings, watch_config));
        // Weak: whoever keeps the history does not keep the caches.
        let history = Arc::new(History::new(settings.event_history, Arc::downgrade(&shared)));
        let mut watches = Starter {
            client,
            namespace: &settings.manifest_namespace,
            definitions: &settings.definitions,
            shared: Arc::clone(&shared),
            tasks: Vec::new(),
        };
        watches.follow(
            Kind::Events,
            "",
            Api::<object::Guarded<Event>>::all(client.clone()),
            history::Recorder(Arc::clone(&history)),
        );
        // The index of leases holds these; no caller reads them by kind.
        watches.everywhere::<ResourceQuota>();
        watches.everywhere::<ServiceAccount>();
        watches.unlabelled::<Role>();
        watches.unlabelled::<RoleBinding>();
        let nodes = nodes::follow(client.clone(), settings.call_timeout, Arc::clone(&shared));
        watches.tasks.push(task::kept("reader of nodes", nodes));
        Self {
            namespaces: watches.cluster(),
            deployments: watches.everywhere(),
            stateful_sets: watches.everywhere(),
            pods: watches.everywhere(),
            services: watches.everywhere(),
            policies: watches.unlabelled(),
            manifests: watches.manifests(),
            hosts: watches.manifests(),
            ips: watches.manifests(),
            tasks: watches.tasks,
            history,
            shared,
        }
    }

    /// Waits until everything was listed once; kinds that a cluster may lack count as empty then.
    pub async fn ready(&self) {
        let mut watches = self.shared.board.subscribe();
        // The sender lives as long as this state.
        let _ = watches.wait_for(watches::are_ready).await;
    }

    /// True when everything was listed and no watch that health needs is down for longer than a moment.
    #[must_use]
    pub fn known(&self) -> bool {
        self.shared.known()
    }

    /// What is known of each watch.
    #[must_use]
    pub fn watches(&self) -> BTreeMap<Kind, WatchState> {
        self.shared.board.read(Clone::clone)
    }

    /// Health as it changes: a snapshot first and after each gap, `Lost` while nobody knows.
    #[must_use]
    pub fn changes(&self) -> BoxStream<'static, Result<ClusterChange, Error>> {
        changes::changes(&self.shared)
    }

    /// Health of one lease; unknown while it does not run, while the watches are down and until they saw what we
    /// wrote.
    #[must_use]
    pub fn health(&self, lease: &LeaseId) -> Health {
        if !self.known() {
            return Health::Unknown;
        }
        let index = self.shared.index();
        let entry = index.leases.get(&lease.namespace());
        entry.and_then(|e| e.health).unwrap_or_default()
    }

    /// The objects of a lease; empty for a lease that is unknown.
    #[must_use]
    pub fn lease(&self, lease: &LeaseId) -> LeaseView {
        self.lease_in(&lease.namespace())
    }

    /// The objects of the lease of a namespace.
    #[must_use]
    pub fn lease_in(&self, namespace: &str) -> LeaseView {
        let index = self.shared.index();
        let entry = index.leases.get(namespace);
        entry.map(|e| e.view.clone()).unwrap_or_default()
    }

    /// The objects of a namespace that is of a lease of ours.
    pub(crate) fn ours_in(&self, namespace: &str) -> Option<LeaseView> {
        let index = self.shared.index();
        let entry = index.leases.get(namespace)?;
        entry.lease.is_some().then(|| entry.view.clone())
    }

    /// Every lease of ours, recorded or running, by namespace.
    #[must_use]
    pub fn leases(&self) -> BTreeMap<String, LeaseId> {
        let index = self.shared.index();
        let ours = index.leases.iter();
        ours.filter_map(|(home, entry)| Some((home.clone(), entry.lease.clone()?)))
            .collect()
    }

    /// What there is of every lease, by namespace, with the lease where it is ours.
    pub(crate) fn views(&self) -> Vec<(String, LeaseView, Option<LeaseId>)> {
        let index = self.shared.index();
        let all = index.leases.iter();
        all.map(|(home, entry)| (home.clone(), entry.view.clone(), entry.lease.clone()))
            .collect()
    }

    /// Status of all services of a lease.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for a lease without record and workload, [`ErrorKind::Unavailable`] while
    /// nobody knows.
    pub fn lease_status(&self, lease: &LeaseId) -> Result<LeaseStatus, Error> {
        let view = self.current(lease)?;
        status::lease_status(&view, &self.shared.host).ok_or_else(|| no_lease(lease))
    }

    /// Status of one service.
    ///
    /// # Errors
    /// As [`State::lease_status`]; also for a service that is unknown.
    pub fn service_status(&self, lease: &LeaseId, service: &str) -> Result<ServiceStatus, Error> {
        let view = self.current(lease)?;
        // Says which of the two is missing: the lease, or only the service.
        if status::lease_status(&view, "").is_none() {
            return Err(no_lease(lease));
        }
        status::service_status(&view, service).ok_or_else(|| no_service(lease, service))
    }

    /// Ports of the provider's host by service.
    ///
    /// # Errors
    /// As [`State::lease_status`].
    pub fn forwarded_ports(&self, lease: &LeaseId) -> Result<BTreeMap<String, Vec<ForwardedPort>>, Error> {
        Ok(self.lease_status(lease)?.forwarded_ports)
    }

    /// How often containers of each service of a lease started again.
    ///
    /// # Errors
    /// As [`State::lease_status`].
    pub fn restarts(&self, lease: &LeaseId) -> Result<BTreeMap<String, u32>, Error> {
        Ok(status::restarts(&self.current(lease)?))
    }

    /// True once all objects of a kind were listed.
    pub(crate) fn has_listed(&self, kind: Kind) -> bool {
        self.shared
            .board
            .read(|all| all.get(&kind).is_some_and(|watch| watch.synced))
    }

    /// What happened in the namespaces of leases.
    #[must_use]
    pub const fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// True once the events there are have been read.
    #[must_use]
    pub fn sees_events(&self) -> bool {
        self.has_listed(Kind::Events)
    }

    /// True for a lease of ours that is recorded or runs.
    #[must_use]
    pub fn has(&self, lease: &LeaseId) -> bool {
        let index = self.shared.index();
        let entry = index.leases.get(&lease.namespace());
        entry.is_some_and(|e| e.lease.as_ref() == Some(lease))
    }

    /// Namespaces of leases of which something changed; who is behind has to look again.
    pub(crate) fn touched(&self) -> broadcast::Receiver<Arc<str>> {
        self.shared.touched.subscribe()
    }

    /// What has our label and belongs to nothing.
    #[must_use]
    pub fn orphans(&self) -> Vec<Orphan> {
        orphans::orphans(&self.shared.index())
    }

    /// Says that the API server accepted a write: until the watches saw it, health is unknown. `object` is its
    /// answer. Only kinds that decide health count.
    pub fn wrote<K: kube::Resource<DynamicType = ()> + 'static>(&self, object: &K) {
        let Some((kind, home)) = kind::decisive(object) else {
            return;
        };
        let meta = object.meta();
        let write = Write {
            kind,
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or(0),
        };
        let signal = self.shared.index().wrote(&home, write);
        self.shared.tell(signal);
    }

    /// Says that a lease is being changed: until the answer is dropped, its health is unknown.
    pub fn hold(&self, lease: &LeaseId) -> Hold {
        let home = lease.namespace();
        let signal = self.shared.index().hold(&home, 1);
        self.shared.tell(signal);
        Hold {
            shared: Arc::clone(&self.shared),
            home,
        }
    }

    /// True when the watches saw everything we wrote of a lease.
    #[must_use]
    pub fn is_settled(&self, lease: &LeaseId) -> bool {
        let index = self.shared.index();
        let entry = index.leases.get(&lease.namespace());
        entry.is_none_or(index::Entry::is_settled)
    }

    /// Waits until the watches saw everything we wrote of a lease. It may take for ever while they are down.
    pub async fn settled(&self, lease: &LeaseId) {
        // Before the first look, so that no change falls between the two.
        let mut touched = self.touched();
        while !self.is_settled(lease) {
            if let Err(RecvError::Closed) = touched.recv().await {
                return;
            }
        }
    }

    /// Objects with our label that cannot be read: kind, name and why.
    #[must_use]
    pub fn unreadable(&self) -> Vec<(Kind, String, String)> {
        let unreadable = |orphan: Orphan| match orphan.reason {
            Reason::Unreadable(why) => Some((orphan.kind, orphan.name, why)),
            Reason::NoManifest | Reason::NoLease => None,
        };
        self.orphans().into_iter().filter_map(unreadable).collect()
    }

    /// The objects of a lease, as long as the caches are current.
    fn current(&self, lease: &LeaseId) -> Result<LeaseView, Error> {
        if self.known() {
            return Ok(self.lease(lease));
        }
        let message = "the cluster is not being watched at the moment";
        Err(Error::new(ErrorKind::Unavailable, STATUS, message))
    }
}

const STATUS: &str = "status";

fn no_lease(lease: &LeaseId) -> Error {
    Error::new(ErrorKind::NotFound, STATUS, format!("lease {lease} is unknown"))
}

fn no_service(lease: &LeaseId, service: &str) -> Error {
    let message = format!("lease {lease} has no service `{service}`");
    Error::new(ErrorKind::NotFound, STATUS, message)
}

/// A lease is being changed as long as this lives.
#[derive(Debug)]
#[must_use = "dropping it ends the change"]
pub struct Hold {
    shared: Arc<Shared>,
    home: String,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let signal = self.shared.index().hold(&self.home, -1);
        self.shared.tell(signal);
    }
}

//! Objects of leases in the cluster, cached by one shared set of watches.
//!
//! ```text
//! list and watch (follow) ─► caches ─► by lease (index) ─► health ─► listeners (changes)
//!                 └─► state of each watch (watches)
//! ```

mod cache;
mod changes;
mod health;
mod history;
mod index;
mod kind;
mod nodes;
mod orphans;
mod outage;
mod replica_counts;
#[cfg(test)]
pub(crate) mod samples;
mod shared;
mod starter;
mod status;
mod trim;
mod view;
mod watches;

pub use akash_provider_kube_kernel::watch::{Definitions, WatchConfig, WatchState};
pub use health::replicas;
pub use history::{EventHistory, EventStore, RecordedEvent, StoredEvent};
pub use kind::{CachedKind, is_lease_namespace};
pub use orphans::{Orphan, Reason};
pub use replica_counts::Replicas;
pub use status::{forwarded_ports, has_service, lease_status, pod_service, restarts, service_status};
pub use view::LeaseView;

pub(crate) use history::service_of;
pub(crate) use kind::WatchedKind;
pub(crate) use shared::{CacheShared, EVERYWHERE};

use crate::settings::KubeSettings;
use crate::task;
use akash_provider_core::cluster::{ClusterChange, ForwardedPort, Health, LeaseStatus, ServiceStatus};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::watch::Decoded;
use akash_provider_kube_model::crd::{Manifest, ProviderHost, ProviderLeasedIP};
use futures::stream::BoxStream;
use health::WorkloadWrite;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Pod, ResourceQuota, Service, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::runtime::reflector::Store;
use kube::{Api, Client};
use starter::Starter;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::task::AbortOnDropHandle;

/// Caches of the objects of leases, and the health of leases. The watches stop when `ObjectCache` is dropped.
#[derive(Debug)]
pub struct ObjectCache {
    /// Namespaces with the label `akash.network=true`.
    pub namespaces: Store<Namespace>,
    /// Workloads without persistent volumes.
    pub deployments: Store<Deployment>,
    /// Workloads with persistent volumes.
    pub stateful_sets: Store<StatefulSet>,
    /// Pods of leases: names, nodes and status only.
    pub pods: Store<Pod>,
    /// Services with the label `akash.network=true`, including those of the IP operator.
    pub services: Store<Service>,
    /// Network policies in the namespaces of leases.
    pub policies: Store<NetworkPolicy>,
    /// Manifests, in the manifest namespace.
    pub manifests: Store<Manifest>,
    /// ProviderHost objects: declared hostnames, in the manifest namespace.
    pub hosts: Store<ProviderHost>,
    /// ProviderLeasedIP objects: declared leased addresses, in the manifest namespace.
    pub ips: Store<ProviderLeasedIP>,
    history: Arc<EventHistory>,
    shared: Arc<CacheShared>,
    #[expect(dead_code, reason = "dropping them ends the watches")]
    tasks: Vec<AbortOnDropHandle<()>>,
}

impl ObjectCache {
    /// Starts the watches. Returns at once, even if the API server is down.
    #[must_use]
    pub fn start(client: &Client, settings: &KubeSettings) -> Self {
        Self::start_with(client, settings, WatchConfig::default())
    }

    /// Starts the watches with the timing `watch_config`.
    #[must_use]
    pub fn start_with(client: &Client, settings: &KubeSettings, watch_config: WatchConfig) -> Self {
        let shared = Arc::new(CacheShared::new(settings, watch_config));
        // Weak, so that the history does not keep the caches alive.
        let history = Arc::new(EventHistory::new(settings.event_history, Arc::downgrade(&shared)));
        let mut watches = Starter {
            client,
            namespace: &settings.manifest_namespace,
            definitions: &settings.definitions,
            shared: Arc::clone(&shared),
            tasks: Vec::new(),
        };
        watches.follow(
            CachedKind::Events,
            "",
            Api::<Decoded<Event>>::all(client.clone()),
            history::EventSink(Arc::clone(&history)),
        );
        // Only the index of leases stores these kinds.
        watches.everywhere::<ResourceQuota>();
        watches.everywhere::<ServiceAccount>();
        watches.unlabelled::<Role>();
        watches.unlabelled::<RoleBinding>();
        let nodes = nodes::follow(client.clone(), settings.call_timeout, Arc::clone(&shared));
        watches.tasks.push(task::spawn("reader of nodes", nodes));
        let terminations = history::terminations::follow(Arc::clone(&history), Arc::clone(&shared));
        watches
            .tasks
            .push(task::spawn("events of terminations", terminations));
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

    /// Waits for the first list of all required kinds. A missing optional kind counts as empty.
    pub async fn ready(&self) {
        let mut watches = self.shared.watches.subscribe();
        // The sender is a field of `self`, so the channel is open.
        let _ = watches.wait_for(watches::are_ready).await;
    }

    /// Returns true if all kinds that affect lease health were listed. Returns false if a watch of these
    /// kinds has been down for longer than the grace period.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.shared.is_known()
    }

    /// Returns the state of each watch.
    #[must_use]
    pub fn watches(&self) -> BTreeMap<CachedKind, WatchState> {
        self.shared.watches.read(Clone::clone)
    }

    /// Subscribes to health changes. The stream starts with a snapshot, and sends another snapshot after
    /// missed changes. The stream sends `Lost` when the health becomes unknown.
    #[must_use]
    pub fn changes(&self) -> BoxStream<'static, Result<ClusterChange, Error>> {
        changes::changes(&self.shared)
    }

    /// Returns the health of a lease; unknown if the lease does not run, the watches are down, or a write of
    /// the provider was not observed yet.
    #[must_use]
    pub fn health(&self, lease: &LeaseId) -> Health {
        if !self.is_known() {
            return Health::Unknown;
        }
        let index = self.shared.index();
        let entry = index.leases.get(&lease.namespace());
        entry.and_then(|e| e.health).unwrap_or_default()
    }

    /// Returns the objects of a lease; empty for an unknown lease.
    #[must_use]
    pub fn lease(&self, lease: &LeaseId) -> LeaseView {
        self.lease_in(&lease.namespace())
    }

    /// Returns the objects of the lease in `namespace`.
    #[must_use]
    pub fn lease_in(&self, namespace: &str) -> LeaseView {
        let index = self.shared.index();
        let entry = index.leases.get(namespace);
        entry.map(|e| e.view.clone()).unwrap_or_default()
    }

    /// Returns the lease in `namespace` and its objects, if the lease belongs to this provider.
    pub(crate) fn ours_in(&self, namespace: &str) -> Option<(LeaseId, LeaseView)> {
        let index = self.shared.index();
        let entry = index.leases.get(namespace)?;
        Some((entry.lease.clone()?, entry.view.clone()))
    }

    /// Returns all leases of this provider with a Manifest or a workload, by namespace.
    #[must_use]
    pub fn leases(&self) -> BTreeMap<String, LeaseId> {
        let index = self.shared.index();
        let ours = index.leases.iter();
        ours.filter_map(|(home, entry)| Some((home.clone(), entry.lease.clone()?)))
            .collect()
    }

    /// Returns the namespace and the objects of every lease, and the ID of each lease of this provider.
    pub(crate) fn views(&self) -> Vec<(String, LeaseView, Option<LeaseId>)> {
        let index = self.shared.index();
        let all = index.leases.iter();
        all.map(|(home, entry)| (home.clone(), entry.view.clone(), entry.lease.clone()))
            .collect()
    }

    /// Returns the status of all services of a lease.
    ///
    /// # Errors
    /// Returns [`ErrorKind::NotFound`] for a lease without record and workload, [`ErrorKind::Unavailable`] while the
    /// watches are down.
    pub fn lease_status(&self, lease: &LeaseId) -> Result<LeaseStatus, Error> {
        let view = self.current(lease)?;
        status::lease_status(&view, &self.shared.host).ok_or_else(|| no_lease(lease))
    }

    /// Returns the status of one service.
    ///
    /// # Errors
    /// Returns the errors of [`ObjectCache::lease_status`], and `NotFound` for an unknown service.
    pub fn service_status(&self, lease: &LeaseId, service: &str) -> Result<ServiceStatus, Error> {
        let view = self.current(lease)?;
        // Distinguishes a missing lease from a missing service.
        if status::lease_status(&view, "").is_none() {
            return Err(no_lease(lease));
        }
        status::service_status(&view, service).ok_or_else(|| no_service(lease, service))
    }

    /// Returns the node ports of each service of a lease. Clients reach these ports at the provider's public
    /// hostname.
    pub fn forwarded_ports(&self, lease: &LeaseId) -> Result<BTreeMap<String, Vec<ForwardedPort>>, Error> {
        Ok(self.lease_status(lease)?.forwarded_ports)
    }

    /// Returns the number of container restarts of each service of a lease.
    ///
    /// # Errors
    /// Returns an error as [`ObjectCache::lease_status`] does.
    pub fn restarts(&self, lease: &LeaseId) -> Result<BTreeMap<String, u32>, Error> {
        Ok(status::restarts(&self.current(lease)?))
    }

    pub(crate) fn has_listed(&self, kind: CachedKind) -> bool {
        self.shared
            .watches
            .read(|all| all.get(&kind).is_some_and(|watch| watch.synced))
    }

    /// Returns the kinds for which all objects were listed. These objects are in every view that is read
    /// after this call.
    pub(crate) fn listed(&self) -> BTreeSet<CachedKind> {
        let synced = |watches: &watches::Watches| {
            let listed = watches.iter().filter(|(_, watch)| watch.synced);
            listed.map(|(kind, _)| *kind).collect()
        };
        self.shared.watches.read(synced)
    }

    /// Returns the history of Kubernetes events in lease namespaces.
    #[must_use]
    pub const fn history(&self) -> &Arc<EventHistory> {
        &self.history
    }

    /// Returns true after the first complete list of Kubernetes events.
    #[must_use]
    pub fn sees_events(&self) -> bool {
        self.has_listed(CachedKind::Events)
    }

    /// Returns true for a lease of this provider that has a Manifest or that runs.
    #[must_use]
    pub fn has(&self, lease: &LeaseId) -> bool {
        let index = self.shared.index();
        let entry = index.leases.get(&lease.namespace());
        entry.is_some_and(|e| e.lease.as_ref() == Some(lease))
    }

    /// Subscribes to changes of lease objects. Each message is a namespace, or [`EVERYWHERE`]. A receiver
    /// that misses messages must check all leases.
    pub(crate) fn touched(&self) -> broadcast::Receiver<Arc<str>> {
        self.shared.touched.subscribe()
    }

    /// Returns the objects with the label `akash.network=true` that belong to no lease or are invalid.
    #[must_use]
    pub fn orphans(&self) -> Vec<Orphan> {
        orphans::orphans(&self.shared.index())
    }

    /// Records an accepted write. `object` is the response of the API server. Health is unknown until the
    /// watches have observed this write. Ignores objects of kinds that do not affect health.
    pub fn wrote<K: kube::Resource<DynamicType = ()> + 'static>(&self, object: &K) {
        let Some((kind, home)) = kind::decisive(object) else {
            return;
        };
        let meta = object.meta();
        let write = WorkloadWrite {
            kind,
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or(0),
        };
        let signal = self.shared.index().wrote(&home, write);
        self.shared.tell(signal);
    }

    /// Marks a lease as changing. The health of the lease is unknown until the returned value is dropped.
    pub fn hold(&self, lease: &LeaseId) -> LeaseHold {
        let home = lease.namespace();
        let signal = self.shared.index().hold(&home, 1);
        self.shared.tell(signal);
        LeaseHold {
            shared: Arc::clone(&self.shared),
            home,
        }
    }

    /// Returns true if the watches have observed all writes of this process for a lease.
    #[must_use]
    pub fn is_settled(&self, lease: &LeaseId) -> bool {
        let index = self.shared.index();
        let entry = index.leases.get(&lease.namespace());
        entry.is_none_or(index::IndexedLease::is_settled)
    }

    /// Waits until the watches have observed all writes of this process for a lease. Does not return while
    /// the watches are down.
    pub async fn settled(&self, lease: &LeaseId) {
        // Subscribed before the first check, so that no change is missed.
        let mut touched = self.touched();
        while !self.is_settled(lease) {
            if let Err(RecvError::Closed) = touched.recv().await {
                return;
            }
        }
    }

    /// Returns the invalid objects, and the objects without the ID of a lease: kind, name and reason. Only
    /// objects with the label `akash.network=true` are included.
    #[must_use]
    pub fn unreadable(&self) -> Vec<(CachedKind, String, String)> {
        let unreadable = |orphan: Orphan| match orphan.reason {
            Reason::Unreadable(why) => Some((orphan.kind, orphan.name, why)),
            Reason::NoManifest | Reason::NoLease => None,
        };
        self.orphans().into_iter().filter_map(unreadable).collect()
    }

    /// Returns the objects of a lease, or an error while the caches are not current.
    fn current(&self, lease: &LeaseId) -> Result<LeaseView, Error> {
        if self.is_known() {
            return Ok(self.lease(lease));
        }
        let message = "the watches of the cluster are down";
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

/// Marks a lease as changing until the value is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the change"]
pub struct LeaseHold {
    shared: Arc<CacheShared>,
    home: String,
}

impl Drop for LeaseHold {
    fn drop(&mut self) {
        let signal = self.shared.index().hold(&self.home, -1);
        self.shared.tell(signal);
    }
}

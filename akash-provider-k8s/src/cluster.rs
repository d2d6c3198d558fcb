//! [`KubeCluster`]: Kubernetes as a [`Cluster`](akash_provider_core::cluster::Cluster).
//!
//! ```text
//! record    Secret of passwords ─► Manifest object
//! deploy    record ─► render ─► plan against caches and live lists ─► apply
//! heal      watches ─► difference from the applied objects ─► confirm (live) ─► apply
//! teardown  namespace ─► hostnames, addresses ─► (namespace deleted) Manifest object, Secret
//! queries   the caches
//! ```

mod close;
mod deploy;
mod differences;
mod grants;
mod heal;
mod leftovers;
mod listing;
mod locks;
mod manifests;
mod namespace;
mod passwords;
mod port;
pub(crate) mod records;
mod rollouts;
mod teardown;
mod unrecorded;
pub(crate) mod unwatched;

pub use akash_provider_core::election::LeadershipGate;

use crate::access::Access;
use crate::error::within;
use crate::labels;
use crate::settings::{Egress, KubeSettings};
use crate::state::ObjectCache;
use crate::statistics::{ClusterCounters, ClusterStatistics};
use crate::write_client::WriteClient;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::calls::KubeCalls;
use akash_provider_kube_kernel::rights::{self, Attempt};
use akash_provider_kube_model::crd::{Manifest, ProviderHost, ProviderLeasedIP};
use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::reflector::{Lookup, ObjectRef, Store};
use kube::{Api, Client, Resource};
use records::RecordApi;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{OnceCell, Semaphore};

const LEASES_AT_ONCE: usize = 8;
/// Maximum time that an operation waits for the watches to report the writes of the operation.
const SEEN_LIMIT: Duration = Duration::from_secs(2);
/// Interval between two checks of the caches.
const SEEN_PAUSE: Duration = Duration::from_millis(2);

/// Kubernetes cluster that runs leases.
#[derive(Clone)]
pub struct KubeCluster {
    inner: Arc<ClusterContext>,
}

/// State shared by the modules of the cluster.
pub(crate) struct ClusterContext {
    pub(crate) client: Client,
    pub(crate) settings: KubeSettings,
    pub(crate) state: Arc<ObjectCache>,
    pub(crate) access: Access,
    pub(crate) passwords: passwords::Passwords,
    /// Permitted and blocked networks for pods, with the current addresses of nodes and API servers.
    egress: RwLock<Egress>,
    leases: Semaphore,
    locks: locks::LeaseLocks,
    start: unwatched::StartupLists,
    pub(crate) counters: ClusterCounters,
    /// User or ServiceAccount of the provider. RoleBindings in the namespaces of leases refer to this
    /// account.
    account: OnceCell<Option<Subject>>,
}

impl fmt::Debug for KubeCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for ClusterContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeCluster")
            .field("provider", &self.settings.provider)
            .field("manifest_namespace", &self.settings.manifest_namespace)
            .finish_non_exhaustive()
    }
}

impl KubeCluster {
    /// Starts the watches. Operations that need the watches fail until the API server is available.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for invalid settings.
    ///
    /// # Examples
    /// A client without a gate is not accepted:
    /// ```compile_fail,E0308
    /// # use akash_provider_k8s::{cluster::KubeCluster, settings::KubeSettings};
    /// # fn example(client: kube::Client, settings: KubeSettings) {
    /// let cluster = KubeCluster::connect(client, settings);
    /// # }
    /// ```
    pub fn connect(client: WriteClient, settings: KubeSettings) -> Result<Arc<Self>, Error> {
        if settings.manifest_namespace.is_empty() {
            let message = "the namespace of the Manifest objects is empty; the default is `lease`";
            return Err(Error::new(ErrorKind::Invalid, "connect", message));
        }
        let client = client.client().clone();
        let state = Arc::new(ObjectCache::start(&client, &settings));
        let access = Access::new(client.clone(), Arc::clone(&state), &settings);
        let inner = ClusterContext {
            client,
            egress: RwLock::new(settings.egress.clone()),
            settings,
            state,
            access,
            passwords: passwords::Passwords::default(),
            leases: Semaphore::new(LEASES_AT_ONCE),
            locks: locks::LeaseLocks::default(),
            start: unwatched::StartupLists::default(),
            counters: ClusterCounters::default(),
            account: OnceCell::new(),
        };
        Ok(Arc::new(Self {
            inner: Arc::new(inner),
        }))
    }

    pub(crate) fn inner(&self) -> &ClusterContext {
        &self.inner
    }

    /// Returns the caches of the watches: objects and health of leases.
    #[must_use]
    pub fn state(&self) -> &ObjectCache {
        &self.inner.state
    }

    /// Returns the counters of deploys, teardowns and repairs.
    #[must_use]
    pub fn statistics(&self) -> ClusterStatistics {
        self.inner.counters.statistics()
    }

    /// Applies the isolation level of the settings to a running lease. Pods are replaced if their template
    /// changes.
    ///
    /// # Errors
    /// As [`Cluster::deploy`](akash_provider_core::cluster::Cluster::deploy).
    pub async fn harden(&self, lease: &LeaseId) -> Result<(), Error> {
        self.inner.harden(lease).await
    }
}

impl ClusterContext {
    /// Returns the settings for rendering, with the current list of networks that pods must not reach.
    pub(crate) fn rendering(&self) -> KubeSettings {
        let egress = self.egress.read().unwrap_or_else(PoisonError::into_inner);
        let mut settings = self.settings.clone();
        settings.egress = egress.clone();
        settings.lease_account = self.lease_account();
        settings
    }

    pub(crate) fn calls(&self, operation: &'static str) -> KubeCalls {
        KubeCalls::new(self.client.clone(), self.settings.call_timeout, operation)
    }

    /// Returns access to custom resources in the manifest namespace.
    pub(crate) fn records<K>(&self, operation: &'static str) -> RecordApi<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        RecordApi {
            api: Api::namespaced(self.client.clone(), &self.settings.manifest_namespace),
            limit: self.settings.call_timeout,
            operation,
        }
    }

    /// Returns an object of the manifest namespace from the cache. If the cache is not synchronized, queries
    /// the API server.
    pub(crate) async fn look<K>(
        &self,
        store: &Store<K>,
        name: &str,
        operation: &'static str,
    ) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Lookup<DynamicType = ()>
            + Clone
            + fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        if self.state.is_known() {
            return Ok(self.cached(store, name).map(|object| (*object).clone()));
        }
        self.records::<K>(operation).read(name).await
    }

    pub(crate) fn cached<K>(&self, store: &Store<K>, name: &str) -> Option<Arc<K>>
    where
        K: Lookup<DynamicType = ()> + Clone + 'static,
    {
        store.get(&ObjectRef::new(name).within(&self.settings.manifest_namespace))
    }

    /// Waits until the caches are synchronized.
    pub(crate) async fn current(&self, operation: &'static str) -> Result<(), Error> {
        let ready = async {
            self.state.ready().await;
            // A watch that has listed its objects may have failed since.
            while !self.state.is_known() {
                tokio::time::sleep(SEEN_PAUSE).await;
            }
        };
        let in_time = tokio::time::timeout(self.settings.call_timeout, ready).await;
        in_time.map_err(|_| {
            let message = "the watches of the cluster are not synchronized: the API server does not respond";
            Error::new(ErrorKind::Unavailable, operation, message)
        })?;
        self.identify(operation).await
    }

    /// Waits briefly until the watches show a write, so that the next query returns the written object.
    pub(crate) async fn until_seen(&self, mut is_seen: impl FnMut() -> bool) {
        let seen = async {
            while self.state.is_known() && !is_seen() {
                tokio::time::sleep(SEEN_PAUSE).await;
            }
        };
        // An early query may return an older state. Preconditions protect every write, and durable records are read
        // live.
        let _ = tokio::time::timeout(SEEN_LIMIT, seen).await;
    }

    /// Returns true if the cached object is at least as new as `meta`.
    pub(crate) fn holds<K>(&self, store: &Store<K>, meta: &ObjectMeta) -> bool
    where
        K: Resource<DynamicType = ()> + Lookup<DynamicType = ()> + Clone + 'static,
    {
        let cached = meta.name.as_deref().and_then(|name| self.cached(store, name));
        cached.is_some_and(|object| is_as_new(object.meta(), meta.resource_version.as_deref()))
    }

    /// Returns true if a cache does not hold the object with this uid.
    pub(crate) fn lacks<K>(&self, store: &Store<K>, name: &str, uid: &str) -> bool
    where
        K: Resource<DynamicType = ()> + Lookup<DynamicType = ()> + Clone + 'static,
    {
        self.cached(store, name)
            .is_none_or(|object| object.meta().uid.as_deref() != Some(uid))
    }

    /// Deletes all objects of kind `K` in the manifest namespace that have the labels of the lease.
    pub(crate) async fn purge_of_lease<K>(
        &self,
        store: &Store<K>,
        lease: &LeaseId,
        operation: &'static str,
    ) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Lookup<DynamicType = ()>
            + Clone
            + fmt::Debug
            + DeserializeOwned
            + 'static,
    {
        let is_of_lease = |object: &Arc<K>| {
            object.meta().labels.as_ref().and_then(labels::lease_of).as_ref() == Some(lease)
        };
        let has_any = || store.state().iter().any(is_of_lease);
        // Most leases declare nothing, which must not cost a call.
        if self.state.is_known() && !has_any() {
            return Ok(());
        }
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.settings.manifest_namespace);
        let selector = labels::to_selector(&labels::lease(lease));
        let (all, of_lease) = (DeleteParams::default(), ListParams::default().labels(&selector));
        let limit = self.settings.call_timeout;
        let deleted = within(limit, operation, api.delete_collection(&all, &of_lease)).await;
        if let Err(error) = deleted {
            let attempt = Attempt::at::<K>(&["deletecollection"], api.namespace());
            return Err(rights::judged(&self.client, limit, &attempt, error).await);
        }
        self.until_seen(|| !has_any()).await;
        Ok(())
    }

    pub(crate) fn check_provider(&self, lease: &LeaseId, operation: &'static str) -> Result<(), Error> {
        if lease.provider == self.settings.provider {
            return Ok(());
        }
        let message = format!(
            "lease {lease} does not belong to provider {}",
            self.settings.provider
        );
        Err(Error::new(ErrorKind::Invalid, operation, message))
    }

    /// Returns true if the chain id in the annotation of an object differs from the configured chain id.
    pub(crate) fn is_of_other_chain(&self, meta: &ObjectMeta) -> bool {
        let chain = meta.annotations.as_ref().and_then(|a| a.get(labels::CHAIN_ID));
        // Objects of other providers have no annotation and are accepted.
        chain.is_some_and(|chain| !chain.is_empty() && *chain != self.settings.chain_id)
    }

    pub(crate) fn manifests(&self) -> &Store<Manifest> {
        &self.state.manifests
    }

    pub(crate) fn hosts(&self) -> &Store<ProviderHost> {
        &self.state.hosts
    }

    pub(crate) fn ips(&self) -> &Store<ProviderLeasedIP> {
        &self.state.ips
    }
}

/// Returns true if the resource version of `meta` is `version` or later.
pub(crate) fn is_as_new(meta: &ObjectMeta, version: Option<&str>) -> bool {
    let number = |text: Option<&str>| text.and_then(|t| t.parse::<u64>().ok());
    match (number(meta.resource_version.as_deref()), number(version)) {
        (Some(there), Some(wanted)) => there >= wanted,
        // Other versions can only be compared for equality.
        _ => meta.resource_version.as_deref() == version,
    }
}

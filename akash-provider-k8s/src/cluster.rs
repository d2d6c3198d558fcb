//! [`KubeCluster`]: Kubernetes as a [`Cluster`](akash_provider_core::cluster::Cluster).
//!
//! ```text
//! record    Secret of passwords ─► Manifest object
//! deploy    record ─► render ─► plan against the caches and what is looked up ─► apply
//! heal      watches ─► what is not as applied ─► is it so? (live) ─► apply
//! teardown  namespace ─► hostnames, addresses ─► (namespace gone) Manifest object, Secret
//! questions the caches
//! ```

mod close;
mod deploy;
mod differences;
pub(crate) mod grants;
mod heal;
mod lanes;
mod leftovers;
mod listing;
mod manifests;
mod passwords;
mod port;
pub(crate) mod records;
mod rollouts;
mod teardown;
mod unrecorded;
pub(crate) mod unwatched;

pub use akash_provider_core::election::LeadershipGate;

use crate::access::Access;
use crate::apply::Calls;
use crate::crd::{Manifest, ProviderHost, ProviderLeasedIP};
use crate::error::within;
use crate::labels;
use crate::rights::{self, Attempt};
use crate::settings::{Egress, Settings};
use crate::state::State;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::reflector::{Lookup, ObjectRef, Store};
use kube::{Api, Client, Resource};
use records::Records;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{OnceCell, Semaphore};

/// Leases that are written at once: together they keep the API server busy, and who came first runs first.
const LEASES_AT_ONCE: usize = 8;
/// How long an operation waits for the watches to see what it wrote.
const SEEN_LIMIT: Duration = Duration::from_secs(2);
/// Between two looks at the caches.
const SEEN_PAUSE: Duration = Duration::from_millis(2);

/// A Kubernetes cluster that runs leases.
#[derive(Clone)]
pub struct KubeCluster {
    inner: Arc<Inner>,
}

/// What the rooms share.
pub(crate) struct Inner {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) state: Arc<State>,
    pub(crate) access: Access,
    pub(crate) passwords: passwords::Passwords,
    /// Nodes and API servers come and go.
    egress: RwLock<Egress>,
    leases: Semaphore,
    lanes: lanes::Lanes,
    start: unwatched::Start,
    /// The account that is bound in the namespaces of leases.
    account: OnceCell<Option<Subject>>,
}

impl fmt::Debug for KubeCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeCluster")
            .field("provider", &self.settings.provider)
            .field("manifest_namespace", &self.settings.manifest_namespace)
            .finish_non_exhaustive()
    }
}

impl KubeCluster {
    /// Starts to watch. The API server may be down: the watches go on trying, and what needs it fails until then.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for settings that cannot work.
    pub fn connect(client: Client, settings: Settings) -> Result<Arc<Self>, Error> {
        if settings.manifest_namespace.is_empty() {
            let message = "the namespace of the Manifest objects has no name; the network's is `lease`";
            return Err(Error::new(ErrorKind::Invalid, "connect", message));
        }
        let state = Arc::new(State::start(&client, &settings));
        let access = Access::new(client.clone(), Arc::clone(&state), &settings);
        let inner = Inner {
            client,
            egress: RwLock::new(settings.egress.clone()),
            settings,
            state,
            access,
            passwords: passwords::Passwords::default(),
            leases: Semaphore::new(LEASES_AT_ONCE),
            lanes: lanes::Lanes::default(),
            start: unwatched::Start::default(),
            account: OnceCell::new(),
        };
        Ok(Arc::new(Self {
            inner: Arc::new(inner),
        }))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// What the watches hold.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.inner.state
    }

    /// Gives the pods of a lease the isolation of the settings; they are replaced where that changes them.
    ///
    /// # Errors
    /// As [`Cluster::deploy`](akash_provider_core::cluster::Cluster::deploy).
    pub async fn harden(&self, lease: &LeaseId) -> Result<(), Error> {
        self.inner.harden(lease).await
    }
}

impl Inner {
    /// The settings that objects are rendered by at the moment.
    pub(crate) fn rendering(&self) -> Settings {
        let egress = self.egress.read().unwrap_or_else(PoisonError::into_inner);
        Settings {
            egress: egress.clone(),
            lease_account: self.lease_account(),
            ..self.settings.clone()
        }
    }

    pub(crate) fn calls(&self, operation: &'static str) -> Calls {
        Calls::new(self.client.clone(), self.settings.call_timeout, operation)
    }

    /// Custom resources of the manifest namespace.
    pub(crate) fn records<K>(&self, operation: &'static str) -> Records<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        Records {
            api: Api::namespaced(self.client.clone(), &self.settings.manifest_namespace),
            limit: self.settings.call_timeout,
            operation,
        }
    }

    /// An object of the manifest namespace: from its cache while that is current, else live.
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
        if self.state.known() {
            return Ok(self.cached(store, name).map(|object| (*object).clone()));
        }
        self.records::<K>(operation).read(name).await
    }

    /// An object of the manifest namespace as its cache has it.
    pub(crate) fn cached<K>(&self, store: &Store<K>, name: &str) -> Option<Arc<K>>
    where
        K: Lookup<DynamicType = ()> + Clone + 'static,
    {
        store.get(&ObjectRef::new(name).within(&self.settings.manifest_namespace))
    }

    /// Waits until the caches are current.
    pub(crate) async fn current(&self, operation: &'static str) -> Result<(), Error> {
        let ready = async {
            self.state.ready().await;
            // Listed once is not enough: a watch may be down since.
            while !self.state.known() {
                tokio::time::sleep(SEEN_PAUSE).await;
            }
        };
        let in_time = tokio::time::timeout(self.settings.call_timeout, ready).await;
        in_time.map_err(|_| {
            let message = "the cluster is not being watched at the moment: the API server does not answer";
            Error::new(ErrorKind::Unavailable, operation, message)
        })?;
        self.identify(operation).await
    }

    /// Waits until the watches saw what was written, so that the next question sees it too. Not for long: what was
    /// written is durable in any case.
    pub(crate) async fn until_seen(&self, mut is_seen: impl FnMut() -> bool) {
        let seen = async {
            while self.state.known() && !is_seen() {
                tokio::time::sleep(SEEN_PAUSE).await;
            }
        };
        // Whoever asks too early gets an older answer; preconditions keep every write right, and a record that is to
        // stay is read itself.
        let _ = tokio::time::timeout(SEEN_LIMIT, seen).await;
    }

    /// True when a cache holds an object at least as new as this.
    pub(crate) fn holds<K>(&self, store: &Store<K>, meta: &ObjectMeta) -> bool
    where
        K: Resource<DynamicType = ()> + Lookup<DynamicType = ()> + Clone + 'static,
    {
        let cached = meta.name.as_deref().and_then(|name| self.cached(store, name));
        cached.is_some_and(|object| is_as_new(object.meta(), meta.resource_version.as_deref()))
    }

    /// True when a cache no longer holds the object of this identity.
    pub(crate) fn lacks<K>(&self, store: &Store<K>, name: &str, uid: &str) -> bool
    where
        K: Resource<DynamicType = ()> + Lookup<DynamicType = ()> + Clone + 'static,
    {
        self.cached(store, name)
            .is_none_or(|object| object.meta().uid.as_deref() != Some(uid))
    }

    /// Deletes what was declared for a lease, and nothing of any other.
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
        // Most leases declare nothing: that costs no call.
        if self.state.known() && !has_any() {
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

    /// Refuses what is not ours to write.
    pub(crate) fn check_provider(&self, lease: &LeaseId, operation: &'static str) -> Result<(), Error> {
        if lease.provider == self.settings.provider {
            return Ok(());
        }
        let message = format!(
            "lease {lease} is of another provider than {}",
            self.settings.provider
        );
        Err(Error::new(ErrorKind::Invalid, operation, message))
    }

    /// True when an object says that it belongs to another chain.
    pub(crate) fn is_of_other_chain(&self, meta: &ObjectMeta) -> bool {
        let chain = meta.annotations.as_ref().and_then(|a| a.get(labels::CHAIN_ID));
        // Objects of other providers name no chain and are not refused for it.
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

/// Versions of one kind of object are numbers that grow.
pub(crate) fn is_as_new(meta: &ObjectMeta, version: Option<&str>) -> bool {
    let number = |text: Option<&str>| text.and_then(|t| t.parse::<u64>().ok());
    match (number(meta.resource_version.as_deref()), number(version)) {
        (Some(there), Some(wanted)) => there >= wanted,
        // What is no number can only be compared for being the same.
        _ => meta.resource_version.as_deref() == version,
    }
}

//! Watches of the capacity, and publication of updates.
//!
//! No update is published before nodes, pods and manifests were listed. While one of these kinds cannot be
//! watched, the last update stays valid, and the failure is reported once. Unreadable storage is reported,
//! and its classes are not offered. Changes are collected for [`Options::gather`], so that a burst of changes
//! causes one update.

use super::facts::{Change, Kind, ObjectFacts};
use super::lease::LeaseFacts;
use super::node::NodeFacts;
use super::pod::PodFacts;
use super::storage::{
    CapacityFacts, CephClusterFacts, CephPoolFacts, ClassFacts, StorageOptions, VolumeFacts,
};
use super::tally::Tally;
use super::watch::{CountSink, NodeParts, PodParts, Read, Reporter, Watch, WatchCounts};
use crate::labels;
use crate::operators::ip::Capacity;
use crate::settings::Settings;
use crate::state::follow::Follower;
use crate::state::reading::{Bookkeeping, Reading};
use crate::state::{Definitions, WatchConfig};
use crate::statistics::IgnoredResources;
use crate::task;
use akash_provider_core::error::{Error, ErrorKind, Failure};
use akash_provider_core::inventory::node_inventory::MemoryInventorySource;
use akash_provider_core::inventory::{Inventory, InventorySource, InventoryUpdate, LeasedIpUsage};
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::{CSIStorageCapacity, StorageClass};
use kube::api::ApiResource;
use kube::core::{DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Field selector of pods that use resources: bound to a node and not finished.
const TAKING: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// Settings of the capacity count. [`Options::default`] is suitable if nodes and storage classes have their
/// `akash.network` labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Settings of persistent storage.
    pub storage: StorageOptions,
    /// Duration for which changes are collected before an inventory update is published.
    pub gather: Duration,
    /// Maximum wait for storage objects before the first inventory update. After this time, the update omits
    /// unread storage.
    pub patience: Duration,
    /// Timeouts and back-off of the watches.
    pub watch_config: WatchConfig,
    /// Shared watch of CustomResourceDefinitions; one per process.
    pub definitions: Definitions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            storage: StorageOptions::default(),
            gather: Duration::from_millis(75),
            patience: Duration::from_secs(20),
            watch_config: WatchConfig {
                page_size: 250,
                ..WatchConfig::default()
            },
            definitions: Definitions::default(),
        }
    }
}

/// Capacity of a Kubernetes cluster, updated by watches. Dropping the value stops the watches.
#[derive(Debug)]
pub struct KubeInventory {
    shared: Arc<Shared>,
    #[expect(dead_code, reason = "dropping them ends the watches")]
    tasks: Vec<AbortOnDropHandle<()>>,
}

/// State of the watch of a Kubernetes kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InventoryWatch {
    /// All objects were listed, and the watch has not failed since.
    pub is_connected: bool,
    /// Number of started watches.
    pub starts: u64,
    /// Number of failures.
    pub failures: u64,
    /// Time since the last list or event; `None` before the first list.
    pub last_event: Option<Duration>,
}

/// Capacity count that includes the pods of leases. Computed only on request, because a count is slow.
/// Dropping the value stops the watches.
#[derive(Debug)]
pub(crate) struct WholeInventory {
    shared: Arc<Shared>,
    publications: watch::Receiver<Publication>,
    #[expect(dead_code, reason = "dropping them ends the watches")]
    tasks: Vec<AbortOnDropHandle<()>>,
}

/// Last announcement: `Ok` after a change of the capacity, or the reason why the capacity is unknown. `None`
/// before the first announcement.
type Publication = Option<Result<(), String>>;

/// Handle that computes the current capacity count on request.
#[derive(Debug, Clone)]
pub(crate) struct CountHandle(Arc<Shared>);

impl CountHandle {
    pub(crate) fn count(&self) -> Arc<dyn Inventory> {
        self.0.inner().tally.recount()
    }
}

/// Capacity count of the cluster. The watches update this count.
#[derive(Debug)]
pub(super) struct Shared {
    inner: Mutex<Inner>,
    change: Notify,
    updates: MemoryInventorySource,
    /// Channel that announces changes. `None` if the changes are published as complete updates.
    publisher: Option<watch::Sender<Publication>>,
    /// Settings for the count of leased addresses; `None` if the addresses are not counted.
    leased_ips: Option<Settings>,
    gather: Duration,
    patience: Duration,
}

#[derive(Debug)]
struct Inner {
    tally: Tally,
    watches: BTreeMap<Kind, Watch>,
    /// Time at which all essential kinds of objects were listed; `None` during an outage.
    known_since: Option<Instant>,
    /// Whether the current failure of the essential watches was published.
    is_failure_reported: bool,
    /// True after the first inventory update was published.
    published: bool,
    /// Whether the number of leased addresses changed and was not published yet.
    recounted: bool,
}

/// Next step of the task that publishes inventory updates.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    Publish,
    Fail(String),
    /// Check again after this duration, or after a change.
    Wait(Duration),
}

impl Shared {
    fn new(leased_ips: Option<Settings>, options: &Options) -> Self {
        Self {
            inner: Mutex::new(Inner {
                tally: Tally::new(options.storage.clone()),
                watches: BTreeMap::new(),
                known_since: None,
                is_failure_reported: false,
                published: false,
                recounted: false,
            }),
            change: Notify::new(),
            updates: MemoryInventorySource::new(),
            publisher: None,
            leased_ips,
            gather: options.gather,
            patience: options.patience,
        }
    }

    pub(super) fn apply(&self, changes: impl IntoIterator<Item = Change>) {
        let mut inner = self.inner();
        for change in changes {
            inner.tally.apply(change);
        }
        let dirty = inner.tally.is_dirty();
        // The woken task locks the state at once.
        drop(inner);
        if dirty {
            self.change.notify_one();
        }
    }

    pub(super) fn received(&self, kind: Kind, changes: impl IntoIterator<Item = Change>) {
        self.count(kind, |counts| counts.received = Some(Instant::now()));
        self.apply(changes);
    }

    pub(super) fn count(&self, kind: Kind, change: impl FnOnce(&mut WatchCounts)) {
        change(&mut self.inner().watches.entry(kind).or_default().counts);
    }

    /// Returns the states of the started watches. If the cluster does not serve a kind, the kind is omitted.
    fn watches(&self) -> BTreeMap<&'static str, InventoryWatch> {
        let inner = self.inner();
        let is_shown = |watch: &Watch| watch.counts.starts > 0 && !watch.absent;
        let started = inner.watches.iter().filter(|(_, watch)| is_shown(watch));
        let watches = started.map(|(kind, watch)| {
            let status = InventoryWatch {
                is_connected: watch.synced && watch.down.is_none(),
                starts: watch.counts.starts,
                failures: watch.counts.failures,
                last_event: watch.counts.received.map(|at| at.elapsed()),
            };
            (kind.plural(), status)
        });
        watches.collect()
    }

    pub(super) fn update_watch(&self, kind: Kind, change: impl FnOnce(&mut Watch)) {
        let mut inner = self.inner();
        let watch = inner.watches.entry(kind).or_default();
        let before = watch.clone();
        change(watch);
        let changed = before != *watch;
        drop(inner);
        if changed {
            self.change.notify_one();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the usage of leased addresses, or `None` if the usage is unknown. Without a known usage, the
    /// provider offers no addresses.
    fn leased_ips(&self) -> Option<LeasedIpUsage> {
        let (total, in_use) = self.leased_ips.as_ref()?.leased_pool()?;
        Some(LeasedIpUsage {
            total,
            in_use,
            // Every reservation counts separately.
            confirmed: Vec::new(),
        })
    }

    /// Updates the number of leased addresses, forever.
    async fn count_addresses(self: Arc<Self>, settings: Settings, capacity: Capacity) {
        loop {
            capacity.changed().await;
            // Gathers changes.
            sleep(self.gather).await;
            let is_changed = capacity
                .count()
                .is_some_and(|count| settings.leased_ip_count.set(count));
            if is_changed {
                self.inner().recounted = true;
                self.change.notify_one();
            }
        }
    }

    fn fail(&self, message: String) {
        if self.publisher.is_some() {
            self.tell(Err(message));
            return;
        }
        self.updates.fail(Failure {
            kind: ErrorKind::Unavailable,
            transient: true,
            message,
        });
    }

    fn tell(&self, outcome: Result<(), String>) {
        if let Some(sender) = &self.publisher {
            sender.send_replace(Some(outcome));
        }
    }

    /// Gathers and publishes changes, forever.
    async fn publish(self: Arc<Self>) {
        let mut again: Option<Duration> = None;
        loop {
            let change = self.change.notified();
            match again.take() {
                // The rest of the wait, or an earlier change.
                Some(left) => drop(timeout(left, change).await),
                None => change.await,
            }
            // After the notification, to gather further changes.
            sleep(self.gather).await;
            let next = self.inner().next(self.patience);
            match next {
                Next::Nothing => {}
                Next::Wait(left) => again = Some(left),
                Next::Fail(message) => self.fail(message),
                Next::Publish if self.publisher.is_some() => {
                    self.inner().tally.published();
                    self.tell(Ok(()));
                }
                Next::Publish => {
                    let snapshot = self.inner().tally.snapshot();
                    self.updates.push(InventoryUpdate {
                        inventory: snapshot.inventory,
                        placements: snapshot.placements,
                        leased_ips: self.leased_ips(),
                    });
                }
            }
        }
    }
}

impl Inner {
    fn next(&mut self, patience: Duration) -> Next {
        let essential = |kind: &Kind| kind.is_essential();
        let watch = |kind: Kind| self.watches.get(&kind);
        let down = Kind::ALL.into_iter().filter(essential).find_map(|kind| {
            let why = watch(kind)?.down.as_ref()?;
            Some(format!("{} cannot be watched: {why}", kind.plural()))
        });
        if let Some(message) = down {
            // After an outage the wait for storage starts again.
            self.known_since = None;
            let first = !std::mem::replace(&mut self.is_failure_reported, true);
            return if first { Next::Fail(message) } else { Next::Nothing };
        }
        let synced = |kind: Kind| watch(kind).is_some_and(|w| w.synced);
        if !Kind::ALL.into_iter().filter(essential).all(synced) {
            return Next::Nothing;
        }
        let since = *self.known_since.get_or_insert_with(Instant::now);
        let open = |kind: &Kind| !synced(*kind) && !watch(*kind).is_some_and(|w| w.absent);
        let left = patience.saturating_sub(since.elapsed());
        // Only before the first update: later storage failures are reported without a wait.
        if !self.published && !left.is_zero() && Kind::ALL.iter().any(open) {
            return Next::Wait(left);
        }
        for kind in Kind::ALL.into_iter().filter(|k| !k.is_essential()) {
            let watch = self.watches.entry(kind).or_default();
            // A kind that the cluster does not serve is not a failure.
            let unread = !watch.absent && !watch.synced;
            let why = unread.then(|| watch.down.clone().unwrap_or_else(|| "list pending".to_owned()));
            self.tally.trouble(kind, why);
        }
        // After an outage an update is published without a change, because the last publication was a failure.
        let again = std::mem::take(&mut self.is_failure_reported);
        let first = !std::mem::replace(&mut self.published, true);
        // The first update is published for an empty cluster too.
        let recounted = std::mem::take(&mut self.recounted);
        if again || first || recounted || self.tally.is_dirty() {
            Next::Publish
        } else {
            Next::Nothing
        }
    }
}

impl KubeInventory {
    /// Starts the watches. Returns at once, even if the API server is down.
    #[must_use]
    pub fn start(client: &Client, settings: &Settings, options: &Options) -> Self {
        Self::start_with(
            client,
            options,
            settings.leased_ips.then(|| settings.clone()),
            |starter| starter.leases(settings),
        )
    }

    /// Starts a capacity count that includes the pods of leases, for reports that do not use reservations.
    #[must_use]
    pub fn start_whole(client: &Client, options: &Options) -> Self {
        Self::start_with(client, options, None, without_leases)
    }

    fn start_with(
        client: &Client,
        options: &Options,
        leased_ips: Option<Settings>,
        leases: impl FnOnce(&mut Starter<'_>),
    ) -> Self {
        let shared = Arc::new(Shared::new(leased_ips.clone(), options));
        let tasks = start(client, &shared, options, leased_ips, leases);
        Self { shared, tasks }
    }
}

impl KubeInventory {
    /// Returns the watch state of each served kind, by plural name.
    #[must_use]
    pub fn watches(&self) -> BTreeMap<&'static str, InventoryWatch> {
        self.shared.watches()
    }

    /// Returns the number of resources that the provider does not offer, by reason.
    #[must_use]
    pub fn ignored_resources(&self) -> IgnoredResources {
        self.shared.inner().tally.ignored_resources()
    }
}

impl WholeInventory {
    /// Starts the watches as [`KubeInventory::start_whole`] does.
    pub(crate) fn start(client: &Client, options: &Options) -> Self {
        let (sender, publications) = watch::channel(None);
        let shared = Arc::new(Shared {
            publisher: Some(sender),
            ..Shared::new(None, options)
        });
        let tasks = start(client, &shared, options, None, without_leases);
        Self {
            shared,
            publications,
            tasks,
        }
    }

    /// Waits for the next change of the capacity count. Returns a handle for the count, or the reason why the
    /// capacity is unknown.
    pub(crate) async fn next(&mut self) -> Result<CountHandle, String> {
        loop {
            if self.publications.changed().await.is_err() {
                // The sender is a field of `self`, so the channel is open.
                std::future::pending::<()>().await;
            }
            let publication = self.publications.borrow_and_update().clone();
            match publication {
                None => {}
                Some(outcome) => return outcome.map(|()| CountHandle(Arc::clone(&self.shared))),
            }
        }
    }
}

/// Marks the watch of Manifests as synced. The inventory of the whole cluster does not start this watch.
fn without_leases(starter: &mut Starter<'_>) {
    starter
        .shared
        .update_watch(Kind::Lease, |watch| watch.synced = true);
}

fn start(
    client: &Client,
    shared: &Arc<Shared>,
    options: &Options,
    leased_ips: Option<Settings>,
    leases: impl FnOnce(&mut Starter<'_>),
) -> Vec<AbortOnDropHandle<()>> {
    let mut starter = Starter {
        client,
        shared,
        watch_config: options.watch_config,
        definitions: &options.definitions,
        tasks: Vec::new(),
    };
    let node = |n: &Node| NodeFacts::from_object(n).map(ObjectFacts::Node);
    let reading = Reading::new::<NodeParts>();
    starter.read(Kind::Node, "", reading, Box::new(node));
    let pod = |p: &Pod| PodFacts::from_object(p).map(ObjectFacts::Pod);
    let reading = Reading::new::<PodParts>();
    starter.read(Kind::Pod, TAKING, reading, Box::new(pod));
    leases(&mut starter);
    starter.storage();
    let mut tasks = starter.tasks;
    if let Some(settings) = leased_ips {
        let (pool, namespace) = (&settings.metallb_pool, &settings.metallb_namespace);
        let watching = (options.watch_config, options.definitions.clone());
        let capacity = Capacity::start(client, &settings.provider, pool, namespace, watching);
        let counting = Arc::clone(shared).count_addresses(settings, capacity);
        tasks.push(task::spawn("count of addresses", counting));
    }
    tasks.push(task::spawn("capacity", Arc::clone(shared).publish()));
    tasks
}

impl InventorySource for KubeInventory {
    fn watch(&self) -> BoxStream<'static, Result<InventoryUpdate, Error>> {
        self.shared.updates.watch()
    }
}

/// Starts the watches one by one.
struct Starter<'a> {
    client: &'a Client,
    shared: &'a Arc<Shared>,
    watch_config: WatchConfig,
    definitions: &'a Definitions,
    tasks: Vec<AbortOnDropHandle<()>>,
}

impl Starter<'_> {
    fn leases(&mut self, settings: &Settings) {
        let kind = GroupVersionKind::gvk(crate::crd::GROUP, crate::crd::VERSION, "Manifest");
        let resource = ApiResource::from_gvk_with_plural(&kind, "manifests");
        let namespace = &settings.manifest_namespace;
        let api = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let settings = settings.clone();
        let read = move |manifest: &DynamicObject| match LeaseFacts::from_object(manifest, &settings) {
            Ok(facts) => facts.map(ObjectFacts::Lease),
            Err(why) => Some(ObjectFacts::BadLease(why)),
        };
        let reading = Reading::new::<Bookkeeping>();
        self.follow(Kind::Lease, api, (labels::SELECTOR, ""), reading, Box::new(read));
    }

    fn storage(&mut self) {
        let class = |c: &StorageClass| Some(ObjectFacts::Class(ClassFacts::from_object(c)));
        self.all(Kind::Class, "", Box::new(class));
        let volume = |v: &PersistentVolume| VolumeFacts::from_object(v).map(ObjectFacts::Volume);
        self.all(Kind::Volume, "", Box::new(volume));
        let capacity = |c: &CSIStorageCapacity| CapacityFacts::from_object(c).map(ObjectFacts::Capacity);
        self.all(Kind::Capacity, "", Box::new(capacity));
        let cluster = |c: &DynamicObject| Some(ObjectFacts::CephCluster(CephClusterFacts::from_object(c)));
        self.rook(Kind::CephCluster, "CephCluster", Box::new(cluster));
        let pool = |p: &DynamicObject| Some(ObjectFacts::CephPool(CephPoolFacts::from_object(p)));
        self.rook(Kind::CephPool, "CephBlockPool", Box::new(pool));
    }

    fn rook(&mut self, kind: Kind, name: &str, read: Read<DynamicObject>) {
        let gvk = GroupVersionKind::gvk("ceph.rook.io", "v1", name);
        let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
        let api = Api::all_with(self.client.clone(), &resource);
        self.follow(kind, api, ("", ""), Reading::new::<Bookkeeping>(), read);
    }

    fn all<T>(&mut self, kind: Kind, fields: &'static str, read: Read<T>)
    where
        T: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.read(kind, fields, Reading::new::<Bookkeeping>(), read);
    }

    fn read<T>(&mut self, kind: Kind, fields: &'static str, reading: Reading, read: Read<T>)
    where
        T: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.follow(kind, Api::all(self.client.clone()), ("", fields), reading, read);
    }

    fn follow<T>(
        &mut self,
        kind: Kind,
        api: Api<T>,
        (labels, fields): (&'static str, &'static str),
        reading: Reading,
        read: Read<T>,
    ) where
        T: kube::Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let follower = Follower {
            api,
            labels,
            fields: fields.into(),
            is_metadata: false,
            reading,
            definitions: self.definitions.clone(),
            sink: CountSink::new(kind, self.shared, read),
            report: Reporter {
                kind,
                shared: Arc::clone(self.shared),
            },
            watch_config: self.watch_config,
        };
        self.tasks.push(task::spawn("watch of capacity", follower.run()));
    }
}

#[cfg(test)]
mod tests;

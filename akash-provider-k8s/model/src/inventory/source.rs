//! Watches of the capacity, and publication of updates.
//!
//! No update is published before nodes, pods and manifests were listed. While one of these kinds cannot be
//! watched, the last update stays valid, and the failure is reported once. Unreadable storage is reported,
//! and its classes are not offered. Changes are collected for [`CapacityOptions::gather`], so that a burst of changes
//! causes one update.

use super::addresses::balancer;
use super::facts::{InventoryKind, ObjectFacts};
use super::lease::LeaseFacts;
use super::node::NodeFacts;
use super::options::CapacityOptions;
use super::pod::PodFacts;
use super::served::OperatorFeed;
use super::shared::{ADDRESSES, CapacityTracker, InventoryWatch, Publication, ServedAge};
use super::storage::{CapacityFacts, CephClusterFacts, CephPoolFacts, ClassFacts, VolumeFacts};
use super::watch::{CountSink, FactsDecoder, NodeParts, PodParts, Reporter};
use crate::inventory::IgnoredResources;
use crate::leased_ips::pool::pool;
use crate::settings::KubeSettings;
use akash_provider_core::error::Error;
use akash_provider_core::inventory::{Inventory, InventorySource, InventoryUpdate};
use akash_provider_kube_kernel::labels;
use akash_provider_kube_kernel::task;
use akash_provider_kube_kernel::watch::{Bookkeeping, Follower, ListerWatcher};
use akash_provider_kube_kernel::watch::{Definitions, WatchConfig};
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod, Service};
use k8s_openapi::api::storage::v1::{CSIStorageCapacity, StorageClass};
use kube::api::ApiResource;
use kube::core::{DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Field selector of pods that use resources: bound to a node and not finished.
const TAKING: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// Capacity of a Kubernetes cluster, updated by watches. Dropping the value stops the watches.
#[derive(Debug)]
pub struct KubeInventory {
    shared: Arc<CapacityTracker>,
    #[expect(dead_code, reason = "dropping them ends the watches")]
    tasks: Vec<AbortOnDropHandle<()>>,
}

/// Capacity count that includes the pods of leases. Computed only on request, because a count is slow.
/// Dropping the value stops the watches.
#[derive(Debug)]
pub struct WholeInventory {
    shared: Arc<CapacityTracker>,
    publications: watch::Receiver<Publication>,
    #[expect(dead_code, reason = "dropping them ends the watches")]
    tasks: Vec<AbortOnDropHandle<()>>,
}

/// Handle that computes the current capacity count on request.
#[derive(Debug, Clone)]
pub struct CountHandle(Arc<CapacityTracker>);

impl CountHandle {
    /// Counts the capacity.
    #[must_use]
    pub fn count(&self) -> Arc<dyn Inventory> {
        self.0.inner().tally.recount()
    }
}

impl KubeInventory {
    /// Starts the watches. Returns at once, even if the API server is down.
    #[must_use]
    pub fn start(client: &Client, settings: &KubeSettings, options: &CapacityOptions) -> Self {
        let shared = Arc::new(CapacityTracker::new(address_settings(settings), options));
        let tasks = start(client, &shared, options, |starter| {
            starter.nodes_and_pods();
            starter.leases(settings);
            starter.storage();
        });
        Self { shared, tasks }
    }

    /// Starts an inventory with nodes and storage from an inventory operator, through the returned feed. The
    /// provider watches only its own leases. If the feed receives nothing for `maximum_age`, all nodes are closed.
    #[must_use]
    pub fn start_served(
        client: &Client,
        settings: &KubeSettings,
        options: &CapacityOptions,
        maximum_age: Duration,
    ) -> (Self, OperatorFeed) {
        let tracker = CapacityTracker::new(address_settings(settings), options);
        tracker.inner().age = Some(ServedAge {
            maximum: maximum_age,
            received: None,
        });
        let shared = Arc::new(tracker);
        let tasks = start(client, &shared, options, |starter| starter.own_leases(settings));
        let feed = OperatorFeed(Arc::clone(&shared));
        (Self { shared, tasks }, feed)
    }

    /// Starts a capacity count that includes the pods of leases, for reports that do not use reservations.
    #[must_use]
    pub fn start_whole(client: &Client, options: &CapacityOptions) -> Self {
        let shared = Arc::new(CapacityTracker::new(None, options));
        let tasks = start(client, &shared, options, without_leases);
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
    #[must_use]
    pub fn start(client: &Client, options: &CapacityOptions) -> Self {
        let (sender, publications) = watch::channel(None);
        let shared = Arc::new(CapacityTracker {
            publisher: Some(sender),
            ..CapacityTracker::new(None, options)
        });
        let tasks = start(client, &shared, options, without_leases);
        Self {
            shared,
            publications,
            tasks,
        }
    }

    /// Waits for the next change of the capacity count. Returns a handle for the count.
    ///
    /// # Errors
    /// Returns the reason why the capacity is unknown.
    pub async fn next(&mut self) -> Result<CountHandle, String> {
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

/// Returns the settings for the count of leased addresses, or `None` if the addresses are not counted.
fn address_settings(settings: &KubeSettings) -> Option<KubeSettings> {
    settings.leased_ips.then(|| settings.clone())
}

/// Starts all watches except that of Manifests, and marks that watch as synced.
fn without_leases(starter: &mut Starter<'_>) {
    starter.nodes_and_pods();
    starter.storage();
    starter
        .shared
        .update_watch(InventoryKind::Lease, |watch| watch.synced = true);
}

fn start(
    client: &Client,
    shared: &Arc<CapacityTracker>,
    options: &CapacityOptions,
    watches: impl FnOnce(&mut Starter<'_>),
) -> Vec<AbortOnDropHandle<()>> {
    let mut starter = Starter {
        client,
        shared,
        watch_config: options.watch_config,
        definitions: &options.definitions,
        tasks: Vec::new(),
    };
    watches(&mut starter);
    starter.addresses();
    let mut tasks = starter.tasks;
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
    shared: &'a Arc<CapacityTracker>,
    watch_config: WatchConfig,
    definitions: &'a Definitions,
    tasks: Vec<AbortOnDropHandle<()>>,
}

impl Starter<'_> {
    fn nodes_and_pods(&mut self) {
        let node = |n: &Node| NodeFacts::from_object(n).map(ObjectFacts::Node);
        let reading = ListerWatcher::new::<NodeParts>();
        let nodes = Api::all(self.client.clone());
        self.follow(InventoryKind::Node, nodes, ("", ""), reading, Box::new(node));
        self.pods("");
    }

    fn pods(&mut self, labels: &'static str) {
        let pod = |p: &Pod| PodFacts::from_object(p).map(ObjectFacts::Pod);
        let reading = ListerWatcher::new::<PodParts>();
        let pods = Api::all(self.client.clone());
        self.follow(InventoryKind::Pod, pods, (labels, TAKING), reading, Box::new(pod));
    }

    /// Starts the watches of the leases, their pods and their volumes.
    fn own_leases(&mut self, settings: &KubeSettings) {
        self.leases(settings);
        self.pods(labels::SELECTOR);
        self.volumes();
        for kind in [
            InventoryKind::Class,
            InventoryKind::Capacity,
            InventoryKind::CephCluster,
            InventoryKind::CephPool,
        ] {
            self.shared.update_watch(kind, |watch| watch.absent = true);
        }
    }

    fn leases(&mut self, settings: &KubeSettings) {
        let kind = GroupVersionKind::gvk(crate::crd::GROUP, crate::crd::VERSION, "Manifest");
        let resource = ApiResource::from_gvk_with_plural(&kind, "manifests");
        let namespace = &settings.manifest_namespace;
        let api = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let settings = settings.clone();
        let read = move |manifest: &DynamicObject| match LeaseFacts::from_object(manifest, &settings) {
            Ok(facts) => facts.map(ObjectFacts::Lease),
            Err(why) => Some(ObjectFacts::BadLease(why)),
        };
        let reading = ListerWatcher::new::<Bookkeeping>();
        self.follow(
            InventoryKind::Lease,
            api,
            (labels::SELECTOR, ""),
            reading,
            Box::new(read),
        );
    }

    /// Starts the watches of pools and load balancers, unless the IP operator counts the addresses.
    fn addresses(&mut self) {
        let shared = self.shared;
        let leased_ips = shared.leased_ips.as_ref();
        let Some(settings) = leased_ips.filter(|_| shared.counts_addresses) else {
            for kind in ADDRESSES {
                shared.update_watch(kind, |watch| watch.synced = true);
            }
            if let Some(settings) = leased_ips {
                let counts = settings.leased_ip_count.changes();
                let following = Arc::clone(shared).follow_count(counts);
                self.tasks.push(task::spawn("count of addresses", following));
            }
            return;
        };
        let reading = ListerWatcher::new::<Bookkeeping>;
        let read = |service: &DynamicObject| balancer(service).map(ObjectFacts::Balancer);
        let services = Api::all_with(self.client.clone(), &ApiResource::erase::<Service>(&()));
        let fields = "spec.type=LoadBalancer";
        self.follow(
            InventoryKind::Balancer,
            services,
            ("", fields),
            reading(),
            Box::new(read),
        );
        let kind = GroupVersionKind::gvk("metallb.io", "v1beta1", "IPAddressPool");
        let (namespace, kind) = (&settings.metallb_namespace, ApiResource::from_gvk(&kind));
        let pools = Api::namespaced_with(self.client.clone(), namespace, &kind);
        let read = |object: &DynamicObject| Some(ObjectFacts::AddressPool(pool(object)));
        self.follow(
            InventoryKind::AddressPool,
            pools,
            ("", ""),
            reading(),
            Box::new(read),
        );
    }

    fn storage(&mut self) {
        let class = |c: &StorageClass| Some(ObjectFacts::Class(ClassFacts::from_object(c)));
        self.all(InventoryKind::Class, Box::new(class));
        self.volumes();
        let capacity = |c: &CSIStorageCapacity| CapacityFacts::from_object(c).map(ObjectFacts::Capacity);
        self.all(InventoryKind::Capacity, Box::new(capacity));
        let cluster = |c: &DynamicObject| Some(ObjectFacts::CephCluster(CephClusterFacts::from_object(c)));
        self.rook(InventoryKind::CephCluster, "CephCluster", Box::new(cluster));
        let pool = |p: &DynamicObject| Some(ObjectFacts::CephPool(CephPoolFacts::from_object(p)));
        self.rook(InventoryKind::CephPool, "CephBlockPool", Box::new(pool));
    }

    fn volumes(&mut self) {
        let volume = |v: &PersistentVolume| VolumeFacts::from_object(v).map(ObjectFacts::Volume);
        self.all(InventoryKind::Volume, Box::new(volume));
    }

    fn rook(&mut self, kind: InventoryKind, name: &str, read: FactsDecoder<DynamicObject>) {
        let gvk = GroupVersionKind::gvk("ceph.rook.io", "v1", name);
        let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
        let api = Api::all_with(self.client.clone(), &resource);
        self.follow(kind, api, ("", ""), ListerWatcher::new::<Bookkeeping>(), read);
    }

    fn all<T>(&mut self, kind: InventoryKind, read: FactsDecoder<T>)
    where
        T: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let reading = ListerWatcher::new::<Bookkeeping>();
        self.follow(kind, Api::all(self.client.clone()), ("", ""), reading, read);
    }

    fn follow<T>(
        &mut self,
        kind: InventoryKind,
        api: Api<T>,
        (labels, fields): (&'static str, &'static str),
        reading: ListerWatcher,
        read: FactsDecoder<T>,
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

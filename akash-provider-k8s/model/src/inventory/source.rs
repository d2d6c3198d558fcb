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
use super::shared::{ADDRESSES, CapacityTracker, InventoryWatch, Publication};
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
        Self::start_with(
            client,
            options,
            settings.leased_ips.then(|| settings.clone()),
            |starter| starter.leases(settings),
        )
    }

    /// Starts a capacity count that includes the pods of leases, for reports that do not use reservations.
    #[must_use]
    pub fn start_whole(client: &Client, options: &CapacityOptions) -> Self {
        Self::start_with(client, options, None, without_leases)
    }

    fn start_with(
        client: &Client,
        options: &CapacityOptions,
        leased_ips: Option<KubeSettings>,
        leases: impl FnOnce(&mut Starter<'_>),
    ) -> Self {
        let shared = Arc::new(CapacityTracker::new(leased_ips, options));
        let tasks = start(client, &shared, options, leases);
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

/// Marks the watch of Manifests as synced. The inventory of the whole cluster does not start this watch.
fn without_leases(starter: &mut Starter<'_>) {
    starter
        .shared
        .update_watch(InventoryKind::Lease, |watch| watch.synced = true);
}

fn start(
    client: &Client,
    shared: &Arc<CapacityTracker>,
    options: &CapacityOptions,
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
    let reading = ListerWatcher::new::<NodeParts>();
    starter.read(InventoryKind::Node, "", reading, Box::new(node));
    let pod = |p: &Pod| PodFacts::from_object(p).map(ObjectFacts::Pod);
    let reading = ListerWatcher::new::<PodParts>();
    starter.read(InventoryKind::Pod, TAKING, reading, Box::new(pod));
    leases(&mut starter);
    starter.storage();
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
        self.all(InventoryKind::Class, "", Box::new(class));
        let volume = |v: &PersistentVolume| VolumeFacts::from_object(v).map(ObjectFacts::Volume);
        self.all(InventoryKind::Volume, "", Box::new(volume));
        let capacity = |c: &CSIStorageCapacity| CapacityFacts::from_object(c).map(ObjectFacts::Capacity);
        self.all(InventoryKind::Capacity, "", Box::new(capacity));
        let cluster = |c: &DynamicObject| Some(ObjectFacts::CephCluster(CephClusterFacts::from_object(c)));
        self.rook(InventoryKind::CephCluster, "CephCluster", Box::new(cluster));
        let pool = |p: &DynamicObject| Some(ObjectFacts::CephPool(CephPoolFacts::from_object(p)));
        self.rook(InventoryKind::CephPool, "CephBlockPool", Box::new(pool));
    }

    fn rook(&mut self, kind: InventoryKind, name: &str, read: FactsDecoder<DynamicObject>) {
        let gvk = GroupVersionKind::gvk("ceph.rook.io", "v1", name);
        let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
        let api = Api::all_with(self.client.clone(), &resource);
        self.follow(kind, api, ("", ""), ListerWatcher::new::<Bookkeeping>(), read);
    }

    fn all<T>(&mut self, kind: InventoryKind, fields: &'static str, read: FactsDecoder<T>)
    where
        T: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.read(kind, fields, ListerWatcher::new::<Bookkeeping>(), read);
    }

    fn read<T>(
        &mut self,
        kind: InventoryKind,
        fields: &'static str,
        reading: ListerWatcher,
        read: FactsDecoder<T>,
    ) where
        T: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.follow(kind, Api::all(self.client.clone()), ("", fields), reading, read);
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

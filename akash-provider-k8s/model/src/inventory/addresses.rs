//! Number of addresses for leases, which limits the bids of the provider. The addresses are counted as in the
//! IP operator. This module writes nothing.

use crate::leased_ips::pool::{Pool, pool};
use crate::leased_ips::{AddressUsage, Assignment, is_balancer, is_leased};
use akash_provider_core::types::Address;
use akash_provider_kube_kernel::watch::{
    Bookkeeping, Definitions, Follower, ListerWatcher, Sink, WatchConfig, WatchObserver, WatchState,
};
use akash_provider_kube_kernel::{labels, task};
use k8s_openapi::api::core::v1::Service;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Watch of pools and load balancers. The watches stop when `AddressCounter` is dropped.
#[derive(Debug)]
pub(super) struct AddressCounter {
    shared: Arc<AddressTracker>,
    #[expect(dead_code, reason = "dropping them ends the watches")]
    watches: [AbortOnDropHandle<()>; 2],
}

#[derive(Debug)]
struct AddressTracker {
    provider: Address,
    /// MetalLB pool of the leased addresses.
    pool: String,
    tables: Mutex<AddressTables>,
    change: Notify,
}

/// Watched objects. A table is `None` before its first list.
#[derive(Debug, Default)]
struct AddressTables {
    /// Pools, by name.
    pools: Option<BTreeMap<String, Pool>>,
    /// Addresses of load balancers without those of the provider's leases, by `NAMESPACE/NAME`.
    balancers: Option<BTreeMap<String, Vec<IpAddr>>>,
}

impl AddressCounter {
    /// Starts the watches; `pool` is the MetalLB pool of the leased addresses.
    pub(super) fn start(
        client: &Client,
        provider: &Address,
        pool: &str,
        namespace: &str,
        (watch_config, definitions): (WatchConfig, Definitions),
    ) -> Self {
        let shared = Arc::new(AddressTracker::new(provider, pool));
        let kind = GroupVersionKind::gvk("metallb.io", "v1beta1", "IPAddressPool");
        let pools = TableSink {
            shared: Arc::clone(&shared),
            read: read_pool,
            table: |tables| &mut tables.pools,
            listed: BTreeMap::new(),
        };
        let balancers = TableSink {
            shared: Arc::clone(&shared),
            read: read_balancer,
            table: |tables| &mut tables.balancers,
            listed: BTreeMap::new(),
        };
        let of_pools = WatchTarget {
            api: Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind)),
            fields: "",
            observer: AddressWatch::new("ipaddresspools.metallb.io", true),
        };
        let of_balancers = WatchTarget {
            api: Api::all_with(client.clone(), &ApiResource::erase::<Service>(&())),
            // The provider watches the Services of its leases separately.
            fields: "spec.type=LoadBalancer",
            observer: AddressWatch::new("services", false),
        };
        let watches = [
            of_balancers.follow(balancers, definitions.clone(), watch_config),
            of_pools.follow(pools, definitions, watch_config),
        ];
        Self { shared, watches }
    }

    /// Waits for a change of the pools or the load balancers.
    pub(super) async fn changed(&self) {
        self.shared.change.notified().await;
    }

    /// Returns the total number of addresses in the pools, and the number of addresses in use. Addresses of
    /// this provider's leases are not counted as in use, because they already count as reservations. Returns
    /// `None` before pools and Services were listed.
    pub(super) fn count(&self) -> Option<(u32, u32)> {
        self.shared.count()
    }
}

impl AddressTracker {
    fn new(provider: &Address, pool: &str) -> Self {
        Self {
            provider: provider.clone(),
            pool: pool.to_owned(),
            tables: Mutex::default(),
            change: Notify::new(),
        }
    }

    fn tables(&self) -> MutexGuard<'_, AddressTables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) -> Option<(u32, u32)> {
        let tables = self.tables();
        let addresses = tables.balancers.as_ref()?.values().flatten().copied().collect();
        AddressUsage::with(tables.pools.as_ref(), &self.pool, &addresses).known()
    }
}

fn read_pool(_: &Address, object: &DynamicObject) -> (String, Pool) {
    (object.metadata.name.clone().unwrap_or_default(), pool(object))
}

/// Decodes the addresses of a Service; none for a lease of the provider.
fn read_balancer(provider: &Address, object: &DynamicObject) -> (String, Vec<IpAddr>) {
    let meta = &object.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let place = format!("{namespace}/{}", meta.name.as_deref().unwrap_or_default());
    let lease = meta.labels.as_ref().and_then(labels::lease_of);
    let is_ours = is_leased(meta.labels.as_ref()) && lease.is_some_and(|lease| lease.provider == *provider);
    let is_counted = object.data.get("spec").is_some_and(is_balancer) && !is_ours;
    let assigned = is_counted.then(|| Assignment::from_status(&object.data).addresses);
    (place, assigned.unwrap_or_default())
}

/// Sink that stores the objects of one kind in a table.
struct TableSink<V> {
    shared: Arc<AddressTracker>,
    /// Function that decodes the key and the value of an object, for a provider.
    read: fn(&Address, &DynamicObject) -> (String, V),
    table: fn(&mut AddressTables) -> &mut Option<BTreeMap<String, V>>,
    /// Objects of a list that is not complete yet.
    listed: BTreeMap<String, V>,
}

impl<V> TableSink<V> {
    fn read(&self, object: &DynamicObject) -> (String, V) {
        (self.read)(&self.shared.provider, object)
    }

    fn change(&self, change: impl FnOnce(&mut Option<BTreeMap<String, V>>)) {
        change((self.table)(&mut self.shared.tables()));
        self.shared.change.notify_one();
    }
}

impl<V: Send> Sink<DynamicObject> for TableSink<V> {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn page(&mut self, objects: Vec<DynamicObject>) {
        let read: Vec<(String, V)> = objects.iter().map(|object| self.read(object)).collect();
        self.listed.extend(read);
    }

    fn complete(&mut self, _: Instant) {
        let listed = std::mem::take(&mut self.listed);
        self.change(|table| *table = Some(listed));
    }

    fn applied(&mut self, object: DynamicObject) {
        let (key, value) = self.read(&object);
        self.change(|table| drop(table.as_mut().map(|table| table.insert(key, value))));
    }

    fn deleted(&mut self, object: DynamicObject) {
        let (key, _) = self.read(&object);
        self.change(|table| drop(table.as_mut().map(|table| table.remove(&key))));
    }
}

/// Objects of one kind to watch.
struct WatchTarget {
    api: Api<DynamicObject>,
    /// Field selector; empty for all objects.
    fields: &'static str,
    observer: AddressWatch,
}

impl WatchTarget {
    fn follow<V: Send + 'static>(
        self,
        sink: TableSink<V>,
        definitions: Definitions,
        watch_config: WatchConfig,
    ) -> AbortOnDropHandle<()> {
        let follower = Follower {
            api: self.api,
            // Any Service can use an address.
            labels: "",
            fields: self.fields.into(),
            is_metadata: false,
            reading: ListerWatcher::new::<Bookkeeping>(),
            definitions,
            sink,
            report: self.observer,
            watch_config,
        };
        task::spawn("watch of addresses", follower.run())
    }
}

/// State of one watch, so that an outage is logged once.
struct AddressWatch {
    name: &'static str,
    /// True if a cluster can lack this kind.
    may_be_absent: bool,
    state: Mutex<WatchState>,
}

impl AddressWatch {
    fn new(name: &'static str, may_be_absent: bool) -> Self {
        Self {
            name,
            may_be_absent,
            state: Mutex::default(),
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut WatchState) -> R) -> R {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl WatchObserver for AddressWatch {
    fn name(&self) -> &'static str {
        self.name
    }

    fn listed(&self) {
        self.change(WatchState::listed);
    }

    fn works(&self) {
        self.change(|watch| watch.down_since = None);
    }

    fn may_be_absent(&self) -> bool {
        self.may_be_absent
    }

    fn absent(&self, error: String) -> bool {
        self.change(|watch| {
            watch.failed(error, Instant::now());
            let awaited = "the cluster does not serve this kind".to_owned();
            watch.awaited.replace(awaited).is_none()
        })
    }

    fn failed(&self, error: String, since: Instant) -> bool {
        self.change(|watch| watch.failed(error, since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const PROVIDER: &str = "akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";
    const OTHER: &str = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh";

    fn service(name: &str, provider: Option<&str>, ip: &str) -> DynamicObject {
        let labels = provider.map(|provider| {
            json!({
                "akash.network": "true", "akash.network/service-target": "metal-lb",
                "akash.network/lease.id.owner": OTHER, "akash.network/lease.id.dseq": "7",
                "akash.network/lease.id.gseq": "1", "akash.network/lease.id.oseq": "1",
                "akash.network/lease.id.provider": provider,
            })
        });
        object(json!({
            "metadata": {"namespace": "a", "name": name, "labels": labels},
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [{"ip": ip}]}},
        }))
    }

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_addresses_of_other_users_count_as_taken() {
        let shared = Arc::new(AddressTracker::new(&PROVIDER.parse().unwrap(), "default"));
        let mut pools = TableSink {
            shared: Arc::clone(&shared),
            read: read_pool,
            table: |tables| &mut tables.pools,
            listed: BTreeMap::new(),
        };
        let mut balancers = TableSink {
            shared: Arc::clone(&shared),
            read: read_balancer,
            table: |tables| &mut tables.balancers,
            listed: BTreeMap::new(),
        };
        pools.page(vec![object(
            json!({"metadata": {"name": "p"}, "spec": {"addresses": ["203.0.113.0/28"]}}),
        )]);
        pools.complete(Instant::now());
        assert_eq!(shared.count(), None, "a missing list is not an empty list");
        balancers.page(vec![
            service("ours", Some(PROVIDER), "203.0.113.1"),
            service("theirs", Some(OTHER), "203.0.113.2"),
            service("ingress", None, "203.0.113.3"),
            service("remote", None, "192.0.2.1"),
        ]);
        balancers.complete(Instant::now());
        assert_eq!(shared.count(), Some((16, 2)));
        let mut internal = service("internal", None, "203.0.113.4");
        internal.data["spec"]["type"] = json!("ClusterIP");
        balancers.applied(internal);
        balancers.deleted(service("ingress", None, "203.0.113.3"));
        assert_eq!(shared.count(), Some((16, 1)));
    }
}

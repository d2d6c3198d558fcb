//! Watch of the addresses of nodes and API servers.
//!
//! ```text
//! nodes, endpoint slices (follow) ─► addresses by object ─► all addresses, after both initial lists ─► caller
//! ```
//!
//! A failed watch preserves its last addresses. If the API server reports no endpoints for itself, pods still cannot
//! reach the previous endpoints.

use super::{API_SERVERS, Infrastructure, backends, node_addresses};
use crate::state::{Definitions, WatchConfig};
use crate::task;
use akash_provider_kube_kernel::watch::{Bookkeeping, Follower, ListerWatcher, Sink, WatchObserver};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Addresses of each object, by object name.
type ByName<A> = BTreeMap<String, Vec<A>>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ListedAddresses {
    nodes: Option<ByName<IpAddr>>,
    api_servers: Option<ByName<SocketAddr>>,
}

impl ListedAddresses {
    /// Returns all addresses; `None` before both initial lists are complete.
    fn all(&self) -> Option<Infrastructure> {
        let (nodes, servers) = (self.nodes.as_ref()?, self.api_servers.as_ref()?);
        Some(Infrastructure {
            nodes: nodes.values().flatten().copied().collect(),
            api_servers: servers.values().flatten().copied().collect(),
        })
    }
}

/// Watch of the addresses. Dropping the value stops its tasks.
#[derive(Debug)]
pub struct InfrastructureWatch {
    addresses: watch::Receiver<ListedAddresses>,
    last: Infrastructure,
    #[expect(dead_code, reason = "dropping the handles stops the watches")]
    tasks: [AbortOnDropHandle<()>; 2],
}

impl InfrastructureWatch {
    /// Starts the watch. `last` are the addresses that the caller already uses.
    #[must_use]
    pub fn start(client: &Client, last: Infrastructure) -> Self {
        let (sender, addresses) = watch::channel(ListedAddresses::default());
        let nodes = AddressSink::new(&sender, node_addresses, |addresses| &mut addresses.nodes);
        let servers = AddressSink::new(&sender, backends, |addresses| &mut addresses.api_servers);
        let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
        Self {
            addresses,
            last,
            tasks: [
                follow(Api::<Node>::all(client.clone()), "", nodes, "nodes"),
                follow(slices, API_SERVERS, servers, "endpointslices"),
            ],
        }
    }

    /// Waits until the addresses differ from the result of the previous call, and returns the new addresses.
    pub async fn changed(&mut self) -> Infrastructure {
        loop {
            let now = self.addresses.borrow_and_update().all();
            let now = now.map(|now| with_last_servers(now, &self.last));
            if let Some(now) = now.filter(|now| *now != self.last) {
                self.last = now.clone();
                return now;
            }
            if self.addresses.changed().await.is_err() {
                // The tasks live as long as this watch.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Returns `now`. If `now` contains no API server, adds the API servers of `last`: at least one API server
/// exists, because an API server sent the addresses.
fn with_last_servers(now: Infrastructure, last: &Infrastructure) -> Infrastructure {
    if now.api_servers.is_empty() {
        let api_servers: BTreeSet<SocketAddr> = last.api_servers.clone();
        return Infrastructure { api_servers, ..now };
    }
    now
}

fn follow<T, A>(
    api: Api<T>,
    labels: &'static str,
    sink: AddressSink<T, A>,
    name: &'static str,
) -> AbortOnDropHandle<()>
where
    T: Resource<DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
    A: Clone + PartialEq + Send + Sync + 'static,
{
    let follower = Follower {
        api,
        labels,
        fields: "".into(),
        is_metadata: false,
        reading: ListerWatcher::new::<Bookkeeping>(),
        definitions: Definitions::default(),
        sink,
        report: WatchLog {
            name,
            is_down: false.into(),
        },
        watch_config: WatchConfig::default(),
    };
    task::spawn("watch of addresses", follower.run())
}

/// Receiver of the addresses in objects of one kind.
struct AddressSink<T, A> {
    sender: watch::Sender<ListedAddresses>,
    read: fn(&T) -> Vec<A>,
    half: fn(&mut ListedAddresses) -> &mut Option<ByName<A>>,
    listed: ByName<A>,
}

impl<T: Resource, A: Clone + PartialEq> AddressSink<T, A> {
    fn new(
        sender: &watch::Sender<ListedAddresses>,
        read: fn(&T) -> Vec<A>,
        half: fn(&mut ListedAddresses) -> &mut Option<ByName<A>>,
    ) -> Self {
        Self {
            sender: sender.clone(),
            read,
            half,
            listed: ByName::new(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Option<ByName<A>>)) {
        // Nodes change frequently without a change of addresses.
        self.sender.send_if_modified(|addresses| {
            let before = addresses.clone();
            change((self.half)(addresses));
            *addresses != before
        });
    }

    fn name(object: &T) -> String {
        object.meta().name.clone().unwrap_or_default()
    }
}

impl<T: Resource + Send, A: Clone + PartialEq + Send> Sink<T> for AddressSink<T, A> {
    fn begin(&mut self) {
        self.listed.clear();
    }

    fn page(&mut self, objects: Vec<T>) {
        let read = self.read;
        let all = objects.iter().map(|object| (Self::name(object), read(object)));
        self.listed.extend(all);
    }

    fn complete(&mut self, _: Instant) {
        let listed = std::mem::take(&mut self.listed);
        self.change(|half| *half = Some(listed));
    }

    fn applied(&mut self, object: T) {
        let (name, addresses) = (Self::name(&object), (self.read)(&object));
        self.change(|half| {
            half.get_or_insert_default().insert(name, addresses);
        });
    }

    fn deleted(&mut self, object: T) {
        let name = Self::name(&object);
        self.change(|half| {
            half.get_or_insert_default().remove(&name);
        });
    }
}

/// Reporter of a watch. Logs each outage of the watch once.
struct WatchLog {
    name: &'static str,
    is_down: std::sync::atomic::AtomicBool,
}

impl WatchLog {
    fn set(&self, is_down: bool) -> bool {
        self.is_down.swap(is_down, std::sync::atomic::Ordering::Relaxed)
    }
}

impl WatchObserver for WatchLog {
    fn name(&self) -> &'static str {
        self.name
    }

    fn listed(&self) {
        self.set(false);
    }

    fn works(&self) {
        self.set(false);
    }

    fn failed(&self, _: String, _: Instant) -> bool {
        !self.set(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str, address: &str) -> Node {
        let node = json!({
            "metadata": {"name": name},
            "status": {"addresses": [{"type": "InternalIP", "address": address}]},
        });
        serde_json::from_value(node).unwrap()
    }

    fn halves() -> (watch::Sender<ListedAddresses>, AddressSink<Node, IpAddr>) {
        let sender = watch::Sender::new(ListedAddresses::default());
        let nodes = AddressSink::new(&sender, node_addresses, |addresses| &mut addresses.nodes);
        (sender, nodes)
    }

    fn addresses(sender: &watch::Sender<ListedAddresses>) -> Vec<String> {
        let addresses = sender.borrow();
        let nodes = addresses.nodes.iter().flat_map(BTreeMap::values).flatten();
        nodes.map(ToString::to_string).collect()
    }

    #[test]
    fn no_addresses_before_both_initial_lists() {
        let (sender, mut nodes) = halves();
        nodes.begin();
        nodes.page(vec![node("a", "10.0.0.1")]);
        assert_eq!(addresses(&sender), [""; 0], "an incomplete list does not count");
        nodes.complete(Instant::now());
        assert_eq!(addresses(&sender), ["10.0.0.1"]);
        assert_eq!(sender.borrow().all(), None, "the API servers are not listed yet");
        sender.send_modify(|addresses| addresses.api_servers = Some(ByName::new()));
        assert!(sender.borrow().all().is_some());
    }

    #[test]
    fn added_changed_and_deleted_nodes_are_followed() {
        let (sender, mut nodes) = halves();
        nodes.begin();
        nodes.page(vec![node("a", "10.0.0.1")]);
        nodes.complete(Instant::now());
        nodes.applied(node("b", "10.0.0.2"));
        assert_eq!(addresses(&sender), ["10.0.0.1", "10.0.0.2"]);
        nodes.applied(node("a", "10.0.0.3"));
        nodes.deleted(node("b", "10.0.0.2"));
        assert_eq!(addresses(&sender), ["10.0.0.3"]);
        nodes.begin();
        nodes.page(vec![node("c", "10.0.0.4")]);
        assert_eq!(addresses(&sender), ["10.0.0.3"], "until the list is complete");
        nodes.complete(Instant::now());
        assert_eq!(addresses(&sender), ["10.0.0.4"]);
    }

    #[test]
    fn api_servers_without_endpoints_stay_closed() {
        let server: SocketAddr = "192.0.2.1:6443".parse().unwrap();
        let last = Infrastructure {
            nodes: BTreeSet::new(),
            api_servers: [server].into(),
        };
        let now = with_last_servers(Infrastructure::default(), &last);
        assert_eq!(now, last);
    }
}

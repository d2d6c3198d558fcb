//! The addresses as they change: nodes come and go, API servers are replaced.
//!
//! ```text
//! nodes, backends (follow) ─► addresses by object ─► all of them, once both were listed ─► whoever closes them
//! ```
//!
//! What is not known changes nothing: a watch that is down leaves what it told, and API servers of which there are
//! suddenly none, though one of them must have said so, stay closed as they were.

use super::{API_SERVERS, Infrastructure, backends, node_addresses};
use crate::state::follow::{Follower, Report, Sink};
use crate::state::reading::{Bookkeeping, Reading};
use crate::state::{Definitions, WatchConfig};
use crate::task;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Addresses by the name of the object that has them.
type ByName<A> = BTreeMap<String, Vec<A>>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Known {
    nodes: Option<ByName<IpAddr>>,
    api_servers: Option<ByName<SocketAddr>>,
}

impl Known {
    /// `None` before both were listed.
    fn all(&self) -> Option<Infrastructure> {
        let (nodes, servers) = (self.nodes.as_ref()?, self.api_servers.as_ref()?);
        Some(Infrastructure {
            nodes: nodes.values().flatten().copied().collect(),
            api_servers: servers.values().flatten().copied().collect(),
        })
    }
}

/// Follows the addresses. Dropping it ends its watches.
#[derive(Debug)]
pub struct InfrastructureWatch {
    known: watch::Receiver<Known>,
    told: Infrastructure,
    #[expect(dead_code, reason = "dropping them ends the watches")]
    tasks: [AbortOnDropHandle<()>; 2],
}

impl InfrastructureWatch {
    /// Begins to watch; `told` is what its user knows already.
    #[must_use]
    pub fn start(client: &Client, told: Infrastructure) -> Self {
        let (sender, known) = watch::channel(Known::default());
        let nodes = Addresses::new(&sender, node_addresses, |known| &mut known.nodes);
        let servers = Addresses::new(&sender, backends, |known| &mut known.api_servers);
        let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
        Self {
            known,
            told,
            tasks: [
                follow(Api::<Node>::all(client.clone()), "", nodes, "nodes"),
                follow(slices, API_SERVERS, servers, "endpointslices"),
            ],
        }
    }

    /// Waits until the addresses are others than those told last.
    pub async fn changed(&mut self) -> Infrastructure {
        loop {
            let now = self.known.borrow_and_update().all();
            let now = now.map(|now| believed(now, &self.told));
            if let Some(now) = now.filter(|now| *now != self.told) {
                self.told = now.clone();
                return now;
            }
            if self.known.changed().await.is_err() {
                // Its tasks live as long as it does.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// An API server that says that there is none is one.
fn believed(now: Infrastructure, told: &Infrastructure) -> Infrastructure {
    if now.api_servers.is_empty() {
        let api_servers: BTreeSet<SocketAddr> = told.api_servers.clone();
        return Infrastructure { api_servers, ..now };
    }
    now
}

fn follow<T, A>(
    api: Api<T>,
    labels: &'static str,
    sink: Addresses<T, A>,
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
        reading: Reading::new::<Bookkeeping>(),
        definitions: Definitions::default(),
        sink,
        report: Place {
            name,
            is_down: false.into(),
        },
        watch_config: WatchConfig::default(),
    };
    task::kept("watch of addresses", follower.run())
}

/// Keeps one half of what is known.
struct Addresses<T, A> {
    sender: watch::Sender<Known>,
    read: fn(&T) -> Vec<A>,
    half: fn(&mut Known) -> &mut Option<ByName<A>>,
    listed: ByName<A>,
}

impl<T: Resource, A: Clone + PartialEq> Addresses<T, A> {
    fn new(
        sender: &watch::Sender<Known>,
        read: fn(&T) -> Vec<A>,
        half: fn(&mut Known) -> &mut Option<ByName<A>>,
    ) -> Self {
        Self {
            sender: sender.clone(),
            read,
            half,
            listed: ByName::new(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Option<ByName<A>>)) {
        // Nodes are written all the time, and that changes no address.
        self.sender.send_if_modified(|known| {
            let before = known.clone();
            change((self.half)(known));
            *known != before
        });
    }

    fn name(object: &T) -> String {
        object.meta().name.clone().unwrap_or_default()
    }
}

impl<T: Resource + Send, A: Clone + PartialEq + Send> Sink<T> for Addresses<T, A> {
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

/// Says once when a watch fails, and again when it fails anew.
struct Place {
    name: &'static str,
    is_down: std::sync::atomic::AtomicBool,
}

impl Place {
    fn set(&self, is_down: bool) -> bool {
        self.is_down.swap(is_down, std::sync::atomic::Ordering::Relaxed)
    }
}

impl Report for Place {
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

    fn halves() -> (watch::Sender<Known>, Addresses<Node, IpAddr>) {
        let sender = watch::Sender::new(Known::default());
        let nodes = Addresses::new(&sender, node_addresses, |known| &mut known.nodes);
        (sender, nodes)
    }

    fn addresses(sender: &watch::Sender<Known>) -> Vec<String> {
        let known = sender.borrow();
        let nodes = known.nodes.iter().flat_map(BTreeMap::values).flatten();
        nodes.map(ToString::to_string).collect()
    }

    #[test]
    fn nothing_is_told_before_both_were_listed() {
        let (sender, mut nodes) = halves();
        nodes.begin();
        nodes.page(vec![node("a", "10.0.0.1")]);
        assert_eq!(addresses(&sender), [""; 0], "a part of a list is not the list");
        nodes.complete(Instant::now());
        assert_eq!(addresses(&sender), ["10.0.0.1"]);
        assert_eq!(sender.borrow().all(), None, "API servers are not known yet");
        sender.send_modify(|known| known.api_servers = Some(ByName::new()));
        assert!(sender.borrow().all().is_some());
    }

    #[test]
    fn nodes_that_come_change_and_go_are_followed() {
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
    fn api_servers_that_seem_to_be_gone_stay_closed() {
        let server: SocketAddr = "192.0.2.1:6443".parse().unwrap();
        let told = Infrastructure {
            nodes: BTreeSet::new(),
            api_servers: [server].into(),
        };
        let now = believed(Infrastructure::default(), &told);
        assert_eq!(now, told);
    }
}

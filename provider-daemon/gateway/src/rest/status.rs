//! The provider's status in today's shape. Anybody may ask for it, and all are shown the same for a moment.

use super::answer;
use crate::{Leadership, LeadershipSource};
use akash_provider_core::engine::Status;
use akash_provider_core::engine::status::{InventoryStatus, ReservationStatus};
use akash_provider_core::inventory::{NodeMetrics, Pair};
use akash_provider_core::provider::{Lifecycle, ProviderHandle};
use akash_provider_core::types::Address;
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout;

#[derive(Serialize)]
struct Body<'a> {
    cluster: ClusterBody<'a>,
    bidengine: BidEngine,
    manifest: Manifests,
    #[serde(skip_serializing_if = "str::is_empty")]
    cluster_public_hostname: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    reclamation_window: u64,
    address: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    leadership: Option<Leadership>,
}

#[derive(Serialize)]
struct ClusterBody<'a> {
    leases: usize,
    inventory: InventoryBody<'a>,
}

#[derive(Serialize)]
struct InventoryBody<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    active: Vec<Amounts<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pending: Vec<Amounts<'a>>,
    available: Available<'a>,
    /// Today's provider has an error here that reads as an empty object.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Map<String, Value>>,
}

#[derive(Serialize)]
struct Amounts<'a> {
    cpu: u64,
    gpu: u64,
    memory: u64,
    storage_ephemeral: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    storage: &'a BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct Available<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<Node<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    storage: Vec<Class<'a>>,
}

#[derive(Serialize)]
struct Node<'a> {
    name: &'a str,
    allocatable: Resources,
    available: Resources,
}

#[derive(Serialize)]
struct Resources {
    cpu: i64,
    gpu: i64,
    memory: i64,
    storage_ephemeral: i64,
}

#[derive(Serialize)]
struct Class<'a> {
    class: &'a str,
    size: i64,
}

#[derive(Serialize)]
struct BidEngine {
    orders: usize,
}

#[derive(Serialize)]
struct Manifests {
    deployments: usize,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// What the network reads as a signed number; without a limit is as much as there can be.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn resources(node: &NodeMetrics, which: impl Fn(&Pair) -> u64) -> Resources {
    Resources {
        cpu: signed(which(&node.cpu)),
        gpu: signed(which(&node.gpu)),
        memory: signed(which(&node.memory)),
        storage_ephemeral: signed(which(&node.storage_ephemeral)),
    }
}

fn amounts(reservations: &[ReservationStatus]) -> Vec<Amounts<'_>> {
    let amounts = |r| {
        let ReservationStatus {
            cpu,
            gpu,
            memory,
            storage_ephemeral,
            storage,
            ..
        }: &ReservationStatus = r;
        Amounts {
            cpu: *cpu,
            gpu: *gpu,
            memory: *memory,
            storage_ephemeral: *storage_ephemeral,
            storage,
        }
    };
    reservations.iter().map(amounts).collect()
}

fn inventory(status: &InventoryStatus, is_known: bool) -> InventoryBody<'_> {
    let nodes = status.available.nodes.iter().map(|node| Node {
        name: &node.name,
        allocatable: resources(node, |p| p.allocatable),
        available: resources(node, |p| p.available),
    });
    let storage = status.available.storage.iter().map(|(class, pair)| Class {
        class,
        size: signed(pair.available),
    });
    InventoryBody {
        active: amounts(&status.active),
        pending: amounts(&status.pending),
        available: Available {
            nodes: nodes.collect(),
            storage: storage.collect(),
        },
        error: (!is_known).then(Map::new),
    }
}

/// What belongs to the status and never changes.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) address: Address,
    pub(crate) public_hostname: String,
    pub(crate) reclamation_window: Option<Duration>,
    pub(crate) leadership: Option<LeadershipSource>,
}

fn body(status: &Status, about: &About) -> Bytes {
    let window = about.reclamation_window.unwrap_or_default().as_nanos();
    let body = Body {
        cluster: ClusterBody {
            leases: status.leases.len(),
            inventory: inventory(&status.inventory, status.inventory_known),
        },
        bidengine: BidEngine {
            orders: status.orders.len(),
        },
        manifest: Manifests {
            deployments: status.deployments.len(),
        },
        cluster_public_hostname: &about.public_hostname,
        reclamation_window: u64::try_from(window).unwrap_or(u64::MAX),
        address: about.address.as_str(),
        leadership: about.leadership.as_ref().map(LeadershipSource::now),
    };
    Bytes::from(answer::encode(&body))
}

/// A status and its body.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) status: Arc<Status>,
    pub(crate) body: Bytes,
    /// Accounts with a live lease; collected when the first request needs them.
    tenants: OnceLock<HashSet<Address>>,
}

/// Age of a status by which connections are ranked: a lease of the last second is seen with the next request.
const TENANTS_AGE: Duration = Duration::from_secs(1);
/// Time after which a request goes on without a status that is less old.
const TENANTS_WAIT: Duration = Duration::from_millis(100);

/// The status, asked for once for everybody.
#[derive(Debug)]
pub(crate) struct StatusPage {
    handle: ProviderHandle,
    about: About,
    age: Duration,
    newest: Mutex<Option<(Instant, Arc<Shown>)>>,
    asking: tokio::sync::Mutex<()>,
}

impl StatusPage {
    pub(crate) fn new(handle: ProviderHandle, about: About, age: Duration) -> Self {
        Self {
            handle,
            about,
            age,
            newest: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) const fn about(&self) -> &About {
        &self.about
    }

    /// The status, at most so old.
    pub(crate) async fn get(&self) -> Arc<Shown> {
        if let Some(shown) = self.at_hand(self.age) {
            return shown;
        }
        // However many ask at once, one question goes to the provider. The others wait here and find its answer.
        let _turn = self.asking.lock().await;
        // Looked at again: whoever had the turn before has just put it there.
        if let Some(shown) = self.at_hand(self.age) {
            return shown;
        }
        let status = self.handle.status().await;
        let body = body(&status, &self.about);
        let shown = Arc::new(Shown {
            status,
            body,
            tenants: OnceLock::new(),
        });
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = Some((Instant::now(), Arc::clone(&shown)));
        shown
    }

    /// What has to be known before "there is none" can be said; `None` once it is.
    pub(crate) async fn awaited(&self) -> Option<&'static str> {
        // Asked of the handle and not of the page: a stopping provider may not answer a question any more.
        if self.handle.lifecycle() >= Lifecycle::Shutdown {
            return Some("the provider is stopping");
        }
        let shown = self.get().await;
        if !shown.status.chain_known {
            Some("the chain is not known yet")
        } else if !shown.status.cluster_known {
            Some("what the cluster runs is not known yet")
        } else {
            None
        }
    }

    /// Returns true if an account has a live lease in the cached status. The status is at most a second old, or older
    /// while the provider does not respond.
    pub(crate) async fn has_lease(&self, account: &Address) -> bool {
        let shown = match self.at_hand(TENANTS_AGE) {
            Some(shown) => Some(shown),
            None => match timeout(TENANTS_WAIT, self.get()).await {
                Ok(shown) => Some(shown),
                Err(_) => self.at_hand(Duration::MAX),
            },
        };
        let tenants = shown.as_ref().map(|shown| {
            shown.tenants.get_or_init(|| {
                let leases = shown.status.leases.iter();
                leases.map(|info| info.lease.owner().clone()).collect()
            })
        });
        tenants.is_some_and(|tenants| tenants.contains(account))
    }

    fn at_hand(&self, age: Duration) -> Option<Arc<Shown>> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, shown) = newest.as_ref()?;
        (since.elapsed() < age).then(|| Arc::clone(shown))
    }
}

#[cfg(test)]
mod tests;

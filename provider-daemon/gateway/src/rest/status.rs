//! Provider status in the format of the Go provider. All clients share a cached status of a short maximum age.

use super::reply;
use crate::{Leadership, LeadershipSource};
use akash_provider_core::engine::Status;
use akash_provider_core::engine::status::{InventoryStatus, LeasedIpStatus, ReservationStatus};
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
struct ProviderStatusBody<'a> {
    cluster: ClusterBody<'a>,
    bidengine: BidEngine,
    manifest: Manifests,
    #[serde(skip_serializing_if = "str::is_empty")]
    cluster_public_hostname: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    reclamation_window: u64,
    address: &'a str,
    leased_ip: LeasedIpBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    leadership: Option<Leadership>,
}

/// Pool of leased IP addresses, as decimal numbers in text. All numbers are 0 without a pool.
#[derive(Serialize)]
struct LeasedIpBody {
    allocatable: String,
    allocated: String,
    capacity: String,
}

impl From<LeasedIpStatus> for LeasedIpBody {
    fn from(ips: LeasedIpStatus) -> Self {
        Self {
            allocatable: ips.total.to_string(),
            allocated: ips.allocated.to_string(),
            capacity: ips.total.to_string(),
        }
    }
}

#[derive(Serialize)]
struct ClusterBody<'a> {
    leases: usize,
    inventory: InventoryBody<'a>,
}

#[derive(Serialize)]
struct InventoryBody<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    active: Vec<ReservationBody<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pending: Vec<ReservationBody<'a>>,
    available: Available<'a>,
    /// Empty object while the inventory is unknown, as in the Go provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Map<String, Value>>,
}

#[derive(Serialize)]
struct ReservationBody<'a> {
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
    nodes: Vec<NodeBody<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    storage: Vec<StorageClassSize<'a>>,
}

#[derive(Serialize)]
struct NodeBody<'a> {
    name: &'a str,
    allocatable: NodeAmounts,
    available: NodeAmounts,
}

#[derive(Serialize)]
struct NodeAmounts {
    cpu: i64,
    gpu: i64,
    memory: i64,
    storage_ephemeral: i64,
}

#[derive(Serialize)]
struct StorageClassSize<'a> {
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

/// Converts an amount for clients that parse signed numbers. "Unlimited" becomes the maximum.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn resources(node: &NodeMetrics, which: impl Fn(&Pair) -> u64) -> NodeAmounts {
    NodeAmounts {
        cpu: signed(which(&node.cpu)),
        gpu: signed(which(&node.gpu)),
        memory: signed(which(&node.memory)),
        storage_ephemeral: signed(which(&node.storage_ephemeral)),
    }
}

fn amounts(reservations: &[ReservationStatus]) -> Vec<ReservationBody<'_>> {
    let amounts = |r| {
        let ReservationStatus {
            cpu,
            gpu,
            memory,
            storage_ephemeral,
            storage,
            ..
        }: &ReservationStatus = r;
        ReservationBody {
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
    let nodes = status.available.nodes.iter().map(|node| NodeBody {
        name: &node.name,
        allocatable: resources(node, |p| p.allocatable),
        available: resources(node, |p| p.available),
    });
    let storage = status
        .available
        .storage
        .iter()
        .map(|(class, pair)| StorageClassSize {
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

/// Those values of the provider status that are not in [`Status`].
#[derive(Debug)]
pub(crate) struct ProviderInfo {
    pub(crate) address: Address,
    pub(crate) public_hostname: String,
    pub(crate) reclamation_window: Option<Duration>,
    pub(crate) leadership: Option<LeadershipSource>,
}

fn body(status: &Status, about: &ProviderInfo) -> Bytes {
    let window = about.reclamation_window.unwrap_or_default().as_nanos();
    let body = ProviderStatusBody {
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
        leased_ip: status.inventory.leased_ips.unwrap_or_default().into(),
        leadership: about.leadership.as_ref().map(LeadershipSource::now),
    };
    Bytes::from(reply::encode(&body))
}

/// Status of the provider, with its encoded response body.
#[derive(Debug)]
pub(crate) struct StatusSnapshot {
    pub(crate) status: Arc<Status>,
    pub(crate) body: Bytes,
    /// Accounts with a live lease, computed from the status at the first use.
    tenants: OnceLock<HashSet<Address>>,
}

/// Maximum age of the status that decides whether an account has a live lease.
const TENANTS_AGE: Duration = Duration::from_secs(1);
/// Maximum time that a request waits for a newer status before it uses the older status.
const TENANTS_WAIT: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct StatusCache {
    handle: ProviderHandle,
    about: ProviderInfo,
    age: Duration,
    newest: Mutex<Option<(Instant, Arc<StatusSnapshot>)>>,
    refresh: tokio::sync::Mutex<()>,
}

impl StatusCache {
    pub(crate) fn new(handle: ProviderHandle, about: ProviderInfo, age: Duration) -> Self {
        Self {
            handle,
            about,
            age,
            newest: Mutex::default(),
            refresh: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) const fn info(&self) -> &ProviderInfo {
        &self.about
    }

    /// Returns the cached status of the provider. If the cached status is too old, requests a new status
    /// first.
    pub(crate) async fn get(&self) -> Arc<StatusSnapshot> {
        if let Some(snapshot) = self.cached(self.age) {
            return snapshot;
        }
        // Concurrent callers share one request to the provider: the others wait here and use its result.
        let _turn = self.refresh.lock().await;
        // Checked again: the previous holder of the lock may have updated the cache.
        if let Some(snapshot) = self.cached(self.age) {
            return snapshot;
        }
        let status = self.handle.status().await;
        let body = body(&status, &self.about);
        let snapshot = Arc::new(StatusSnapshot {
            status,
            body,
            tenants: OnceLock::new(),
        });
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = Some((Instant::now(), Arc::clone(&snapshot)));
        snapshot
    }

    /// Returns the reason why the status may lack leases or workloads. Returns `None` if the provider has
    /// read chain and cluster and is not stopping.
    pub(crate) async fn missing_state(&self) -> Option<&'static str> {
        // From the handle and not from the cache: a stopping provider may not respond any more.
        if self.handle.lifecycle() >= Lifecycle::Shutdown {
            return Some("the provider is stopping");
        }
        let snapshot = self.get().await;
        if !snapshot.status.chain_known {
            Some("the chain is not known yet")
        } else if !snapshot.status.cluster_known {
            Some("the workloads of the cluster are not known yet")
        } else {
            None
        }
    }

    /// Returns true if an account has a live lease in the cached status. The status is older than a second
    /// only while the provider does not respond.
    pub(crate) async fn has_lease(&self, account: &Address) -> bool {
        let snapshot = match self.cached(TENANTS_AGE) {
            Some(snapshot) => Some(snapshot),
            None => match timeout(TENANTS_WAIT, self.get()).await {
                Ok(snapshot) => Some(snapshot),
                Err(_) => self.cached(Duration::MAX),
            },
        };
        let tenants = snapshot.as_ref().map(|snapshot| {
            snapshot.tenants.get_or_init(|| {
                let leases = snapshot.status.leases.iter();
                leases.map(|info| info.lease.owner().clone()).collect()
            })
        });
        tenants.is_some_and(|tenants| tenants.contains(account))
    }

    fn cached(&self, age: Duration) -> Option<Arc<StatusSnapshot>> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, snapshot) = newest.as_ref()?;
        (since.elapsed() < age).then(|| Arc::clone(snapshot))
    }
}

#[cfg(test)]
mod tests;

//! State that the watches write and all callers read.

use super::index::{LeaseFilter, LeaseIndex, Signal};
use super::watches::{self, WatchPublisher, Watches};
use super::{WatchConfig, WatchedKind, changes, kind};
use crate::settings::KubeSettings;
use akash_provider_core::cluster::{ClusterChange, Health};
use akash_provider_core::types::LeaseId;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;
use tokio::time::Instant;

/// Signal that all namespaces changed. Any other signal is the name of one changed namespace.
pub(crate) const EVERYWHERE: &str = "";

#[derive(Debug)]
pub(crate) struct CacheShared {
    pub(super) watch_config: WatchConfig,
    pub(super) host: String,
    pub(super) watches: Arc<WatchPublisher>,
    index: Mutex<LeaseIndex>,
    pub(super) signals: broadcast::Sender<Signal>,
    /// Sender of changes of lease objects. Each message is a namespace, or [`EVERYWHERE`]. A receiver
    /// that misses messages must check all leases.
    pub(super) touched: broadcast::Sender<Arc<str>>,
}

impl CacheShared {
    pub(super) fn new(settings: &KubeSettings, watch_config: WatchConfig) -> Self {
        let ours = LeaseFilter {
            provider: settings.provider.clone(),
            chain_id: settings.chain_id.clone(),
        };
        Self {
            watch_config,
            host: settings.public_hostname.clone(),
            watches: Arc::new(WatchPublisher::new()),
            index: Mutex::new(LeaseIndex::new(ours)),
            signals: broadcast::Sender::new(changes::WAITING_MAX),
            touched: broadcast::Sender::new(changes::WAITING_MAX),
        }
    }

    pub(super) fn index(&self) -> MutexGuard<'_, LeaseIndex> {
        // The index is consistent at every point where a holder could panic.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the state of a node, and reports health changes. `LeaseIndex::node` describes `reports`.
    pub(super) fn node(&self, name: &str, reports: Option<bool>) {
        let signals = self.index().node(name, reports);
        self.tell(signals);
    }

    pub(super) fn is_known(&self) -> bool {
        let grace = self.watch_config.grace;
        self.watches.read(|all| watches::know_health(all, grace))
    }

    pub(super) fn tell(&self, signals: impl IntoIterator<Item = Signal>) {
        for signal in signals {
            // Without a listener nothing is lost, because a new listener starts with a snapshot.
            let _ = self.signals.send(signal);
        }
    }

    pub(super) fn touch(&self, home: Option<&str>) {
        if let Some(home) = home {
            let _ = self.touched.send(home.into());
        }
    }

    pub(super) fn applied<K: WatchedKind>(&self, object: &Arc<K>) {
        let signals = self.index().applied(object);
        self.tell(signals);
        self.touch(object.home().as_deref());
    }

    pub(super) fn deleted<K: WatchedKind>(&self, meta: &ObjectMeta) {
        let signals = self.index().deleted::<K>(meta);
        self.tell(signals);
        self.touch(kind::home_of(K::KIND, meta).as_deref());
    }

    pub(super) fn unreadable<K: WatchedKind>(&self, meta: &ObjectMeta, why: &str) {
        let signals = self.index().unreadable::<K>(meta, why);
        self.tell(signals);
        self.touch(kind::home_of(K::KIND, meta).as_deref());
    }

    pub(super) fn replaced<K: WatchedKind>(
        &self,
        objects: &[Arc<K>],
        unreadable: &[(ObjectMeta, String)],
        asked: Instant,
    ) {
        let state = |all: &Watches| all.get(&K::KIND).is_some_and(|state| state.awaited.is_some());
        let is_served_again = self.watches.read(state);
        {
            let mut index = self.index();
            index.replaced(objects, unreadable, asked);
            // Records were deleted with their definition, and the list cannot show which.
            index.losses += u64::from(K::KIND.is_record() && is_served_again);
        }
        self.tell([Signal::All]);
        // No namespace has this name, so receivers check all leases.
        self.touch(Some(EVERYWHERE));
    }

    pub(super) fn health_in(&self, home: &str) -> Option<ClusterChange> {
        let index = self.index();
        let entry = index.leases.get(home)?;
        Some(ClusterChange::Health {
            lease: entry.lease.clone()?,
            health: entry.health?,
        })
    }

    pub(super) fn all_health(&self) -> BTreeMap<LeaseId, Health> {
        let index = self.index();
        let leases = index.leases.values();
        leases
            .filter_map(|e| Some((e.lease.clone()?, e.health?)))
            .collect()
    }
}

//! State that the capacity watches share, and publication of updates.

use super::facts::{FactChange, InventoryKind};
use super::options::CapacityOptions;
use super::tally::Tally;
use crate::leased_ips::AddressCount;
use crate::settings::KubeSettings;
use akash_provider_core::error::{ErrorKind, Failure};
use akash_provider_core::inventory::node_inventory::MemoryInventorySource;
use akash_provider_core::inventory::{InventoryUpdate, LeasedIpUsage};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

/// Kinds that determine the number of leased addresses.
pub(super) const ADDRESSES: [InventoryKind; 2] = [InventoryKind::Balancer, InventoryKind::AddressPool];

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

/// State of the watch of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct WatchHealth {
    /// All objects were listed once.
    pub(super) synced: bool,
    /// The cluster does not serve the kind.
    pub(super) absent: bool,
    /// Error of a watch that does not work.
    pub(super) down: Option<String>,
    /// Counters. A change of a counter alone causes no inventory update.
    pub(super) counts: WatchCounts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct WatchCounts {
    pub(super) starts: u64,
    pub(super) failures: u64,
    /// Time of the last list or event.
    pub(super) received: Option<Instant>,
}

/// Last announcement: `Ok` after a change of the capacity, or the reason why the capacity is unknown. `None`
/// before the first announcement.
pub(super) type Publication = Option<Result<(), String>>;

/// Capacity count of the cluster. The watches update this count.
#[derive(Debug)]
pub(super) struct CapacityTracker {
    pub(super) inner: Mutex<CapacityState>,
    pub(super) change: Notify,
    pub(super) updates: MemoryInventorySource,
    /// Channel that announces changes. `None` if the changes are published as complete updates.
    pub(super) publisher: Option<watch::Sender<Publication>>,
    /// Settings for the count of leased addresses; `None` if the addresses are not counted.
    pub(super) leased_ips: Option<KubeSettings>,
    /// Whether the watches count the addresses; otherwise the IP operator of the process does.
    pub(super) counts_addresses: bool,
    pub(super) gather: Duration,
    pub(super) patience: Duration,
}

#[derive(Debug)]
pub(super) struct CapacityState {
    pub(super) tally: Tally,
    pub(super) watches: BTreeMap<InventoryKind, WatchHealth>,
    /// Time at which all essential kinds of objects were listed; `None` during an outage.
    pub(super) known_since: Option<Instant>,
    /// Whether the current failure of the essential watches was published.
    pub(super) is_failure_reported: bool,
    /// True after the first inventory update was published.
    pub(super) published: bool,
    /// Whether the number of leased addresses changed and was not published yet.
    pub(super) recounted: bool,
    /// Age of the capacity from an inventory operator; `None` if the provider watches nodes and storage.
    pub(super) age: Option<ServedAge>,
    /// Time after which the next step is determined again without a change.
    pub(super) recheck: Option<Duration>,
}

/// Next step of the task that publishes inventory updates.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PublishStep {
    Nothing,
    Publish,
    Fail(String),
    /// Check again after this duration, or after a change.
    Wait(Duration),
}

/// Age of the capacity from an inventory operator.
#[derive(Debug)]
pub(super) struct ServedAge {
    /// Age at which the provider stops bidding.
    pub(super) maximum: Duration,
    /// Time of the last cluster from the operator.
    pub(super) received: Option<Instant>,
}

impl ServedAge {
    /// Returns the time until the capacity is too old for bids; `None` without a capacity.
    pub(super) fn left(&self) -> Option<Duration> {
        Some(self.maximum.saturating_sub(self.received?.elapsed()))
    }
}

impl CapacityTracker {
    pub(super) fn new(leased_ips: Option<KubeSettings>, options: &CapacityOptions) -> Self {
        Self {
            inner: Mutex::new(CapacityState {
                tally: Tally::new(options.storage.clone()),
                watches: BTreeMap::new(),
                known_since: None,
                is_failure_reported: false,
                published: false,
                recounted: false,
                age: None,
                recheck: None,
            }),
            change: Notify::new(),
            updates: MemoryInventorySource::new(),
            publisher: None,
            leased_ips,
            counts_addresses: options.counts_addresses,
            gather: options.gather,
            patience: options.patience,
        }
    }

    pub(super) fn apply(&self, changes: impl IntoIterator<Item = FactChange>) {
        let mut inner = self.inner();
        for change in changes {
            inner.tally.apply(change);
        }
        let dirty = inner.tally.is_dirty() || inner.tally.addresses.changed;
        // The woken task locks the state at once.
        drop(inner);
        if dirty {
            self.change.notify_one();
        }
    }

    pub(super) fn received(&self, kind: InventoryKind, changes: impl IntoIterator<Item = FactChange>) {
        self.count(kind, |counts| counts.received = Some(Instant::now()));
        self.apply(changes);
    }

    pub(super) fn count(&self, kind: InventoryKind, change: impl FnOnce(&mut WatchCounts)) {
        change(&mut self.inner().watches.entry(kind).or_default().counts);
    }

    /// Returns the states of the started watches. If the cluster does not serve a kind, the kind is omitted.
    pub(super) fn watches(&self) -> BTreeMap<&'static str, InventoryWatch> {
        let inner = self.inner();
        // A watch starts after its first list, which can fail again and again.
        let is_used = |counts: &WatchCounts| counts.starts + counts.failures > 0;
        let is_shown = |watch: &WatchHealth| is_used(&watch.counts) && !watch.absent;
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

    pub(super) fn update_watch(&self, kind: InventoryKind, change: impl FnOnce(&mut WatchHealth)) {
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

    pub(super) fn inner(&self) -> MutexGuard<'_, CapacityState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the usage of leased addresses, or `None` if the usage is unknown. Without a known usage, the
    /// provider offers no addresses.
    pub(super) fn leased_ips(&self) -> Option<LeasedIpUsage> {
        let settings = self.leased_ips.as_ref()?;
        let (total, others) = settings.leased_pool()?;
        let inner = self.inner();
        let count = settings.leased_ip_count.known();
        let used = count.map(|count| count.of_leases(|lease| inner.tally.balancers_of(lease)));
        let (ours, confirmed) = used.unwrap_or_default();
        Some(LeasedIpUsage {
            total,
            in_use: others.saturating_add(ours),
            confirmed,
        })
    }

    /// Counts the addresses after a change of the watched pools or load balancers.
    fn count_addresses(&self) {
        let Some(settings) = self.leased_ips.as_ref().filter(|_| self.counts_addresses) else {
            return;
        };
        let mut inner = self.inner();
        let synced = |kind| inner.watches.get(&kind).is_some_and(|watch| watch.synced);
        if ADDRESSES.into_iter().all(synced)
            && let Some(count) = inner.tally.addresses.recount(settings)
        {
            inner.recounted |= settings.leased_ip_count.set(count);
        }
    }

    /// Publishes the counts of the IP operator, forever.
    pub(super) async fn follow_count(
        self: Arc<Self>,
        mut counts: watch::Receiver<Option<Arc<AddressCount>>>,
    ) {
        while counts.changed().await.is_ok() {
            self.inner().recounted = true;
            self.change.notify_one();
        }
    }

    pub(super) fn fail(&self, message: String) {
        if self.publisher.is_some() {
            self.tell(Err(message));
            return;
        }
        self.updates
            .fail(Failure::transient(ErrorKind::Unavailable, message));
    }

    pub(super) fn tell(&self, outcome: Result<(), String>) {
        if let Some(sender) = &self.publisher {
            sender.send_replace(Some(outcome));
        }
    }

    /// Gathers and publishes changes, forever.
    pub(super) async fn publish(self: Arc<Self>) {
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
            self.count_addresses();
            let next = {
                let mut inner = self.inner();
                let next = inner.next(self.patience);
                again = inner.recheck;
                next
            };
            match next {
                PublishStep::Nothing => {}
                PublishStep::Wait(left) => again = again.into_iter().chain([left]).min(),
                PublishStep::Fail(message) => self.fail(message),
                PublishStep::Publish if self.publisher.is_some() => {
                    self.inner().tally.published();
                    self.tell(Ok(()));
                }
                PublishStep::Publish => {
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

impl CapacityState {
    /// Applies the passage of time to capacity from an inventory operator. Returns true if the capacity is now too
    /// old, and the last update must be replaced.
    fn expires(&mut self) -> bool {
        let now = Instant::now();
        let settles = self.tally.settle(now).map(|at| at.saturating_duration_since(now));
        let left = self.age.as_ref().and_then(ServedAge::left);
        let is_outdated = left.is_some_and(|left| left.is_zero());
        self.recheck = settles.into_iter().chain(left.filter(|_| !is_outdated)).min();
        self.tally.set_outdated(is_outdated) && is_outdated && self.published
    }

    pub(super) fn next(&mut self, patience: Duration) -> PublishStep {
        if self.expires() {
            return PublishStep::Publish;
        }
        let essential = |kind: &InventoryKind| kind.is_essential();
        let watch = |kind: InventoryKind| self.watches.get(&kind);
        let down = InventoryKind::ALL.into_iter().filter(essential).find_map(|kind| {
            let why = watch(kind)?.down.as_ref()?;
            Some(format!("{} cannot be watched: {why}", kind.plural()))
        });
        if let Some(message) = down {
            // After an outage the wait for storage starts again.
            self.known_since = None;
            let first = !std::mem::replace(&mut self.is_failure_reported, true);
            return if first {
                PublishStep::Fail(message)
            } else {
                PublishStep::Nothing
            };
        }
        let synced = |kind: InventoryKind| watch(kind).is_some_and(|w| w.synced);
        if !InventoryKind::ALL.into_iter().filter(essential).all(synced) {
            return PublishStep::Nothing;
        }
        let since = *self.known_since.get_or_insert_with(Instant::now);
        let open = |kind: &InventoryKind| !synced(*kind) && !watch(*kind).is_some_and(|w| w.absent);
        let left = patience.saturating_sub(since.elapsed());
        // Only before the first update: later storage failures are reported without a wait.
        if !self.published && !left.is_zero() && InventoryKind::ALL.iter().any(open) {
            return PublishStep::Wait(left);
        }
        for kind in InventoryKind::ALL.into_iter().filter(|k| !k.is_essential()) {
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
            PublishStep::Publish
        } else {
            PublishStep::Nothing
        }
    }
}

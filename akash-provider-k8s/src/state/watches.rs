//! State of the watches.

use super::CachedKind;
use akash_provider_kube_kernel::watch::{WatchObserver, WatchState};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

pub(super) type Watches = BTreeMap<CachedKind, WatchState>;

fn is_usable(state: &WatchState, kind: CachedKind) -> bool {
    state.synced || (kind.may_be_absent() && state.awaited.is_some())
}

#[derive(Debug)]
pub(super) struct WatchPublisher(watch::Sender<Watches>);

impl WatchPublisher {
    pub(super) fn new() -> Self {
        let all = CachedKind::ALL.map(|kind| (kind, WatchState::default()));
        Self(watch::Sender::new(all.into()))
    }

    pub(super) fn read<T>(&self, f: impl FnOnce(&Watches) -> T) -> T {
        f(&self.0.borrow())
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Watches> {
        self.0.subscribe()
    }

    /// Updates a counter. Receivers are not notified.
    pub(super) fn count(&self, kind: CachedKind, f: impl FnOnce(&mut WatchState)) {
        self.0.send_if_modified(|all| {
            f(all.entry(kind).or_default());
            false
        });
    }

    pub(super) fn listed(&self, kind: CachedKind) {
        self.change(kind, WatchState::listed);
    }

    pub(super) fn works(&self, kind: CachedKind) {
        self.change(kind, |state| state.down_since = None);
    }

    /// Records that a watch stopped working at `since` or earlier. Returns true if the watch worked before.
    pub(super) fn failed(&self, kind: CachedKind, error: String, since: Instant) -> bool {
        let mut is_new = false;
        self.change(kind, |state| is_new = state.failed(error, since));
        is_new
    }

    /// Records that the server does not serve the kind.
    pub(super) fn absent(&self, kind: CachedKind, error: String) {
        self.change(kind, |state| {
            state.failures += 1;
            state.awaited = Some(format!("the cluster does not serve {kind} yet"));
            state.last_error = Some(error);
            // A kind that the cluster may lack is not down.
            state.down_since = if kind.may_be_absent() {
                None
            } else {
                state.down_since.or_else(|| Some(Instant::now()))
            };
        });
    }

    /// Updates a state, and notifies listeners about relevant changes.
    fn change(&self, kind: CachedKind, f: impl FnOnce(&mut WatchState)) {
        self.0.send_if_modified(|all| {
            let state = all.entry(kind).or_default();
            let before = (is_usable(state, kind), state.down_since);
            f(state);
            // Counters change often and notify no listener.
            before != (is_usable(state, kind), state.down_since)
        });
    }
}

#[derive(Debug)]
pub(super) struct WatchReporter {
    pub(super) kind: CachedKind,
    pub(super) watches: Arc<WatchPublisher>,
}

impl WatchObserver for WatchReporter {
    fn name(&self) -> &'static str {
        self.kind.as_str()
    }

    fn listed(&self) {
        self.watches.listed(self.kind);
    }

    fn starts(&self) {
        self.watches.count(self.kind, |state| state.starts += 1);
    }

    fn works(&self) {
        self.watches.works(self.kind);
    }

    fn expired(&self) {
        self.watches.count(self.kind, |state| {
            state.failures += 1;
            state.last_error = Some("the version of the watch expired".to_owned());
        });
    }

    fn may_be_absent(&self) -> bool {
        self.kind.may_be_absent()
    }

    fn absent(&self, error: String) -> bool {
        let is_awaited = |all: &Watches| all.get(&self.kind).is_some_and(|s| s.awaited.is_some());
        let is_new = !self.watches.read(is_awaited);
        self.watches.absent(self.kind, error);
        is_new
    }

    fn failed(&self, error: String, since: Instant) -> bool {
        self.watches.failed(self.kind, error, since)
    }
}

/// Returns true if each required watch is usable: its objects are listed, or the cluster lacks the optional
/// kind.
pub(super) fn are_ready(all: &Watches) -> bool {
    let mut needed = all.iter().filter(|(kind, _)| !kind.may_come_late());
    needed.all(|(kind, state)| is_usable(state, *kind))
}

/// Returns true if lease health is known: all watches that affect health have listed their objects, and every
/// outage is shorter than `grace`.
pub(super) fn know_health(all: &Watches, grace: Duration) -> bool {
    let needed = |(kind, _): &(&CachedKind, &WatchState)| kind.decides_health();
    all.iter()
        .filter(needed)
        // After a short outage the state is only seconds old.
        .all(|(_, state)| state.synced && state.down_for().is_none_or(|down| down < grace))
}

/// Returns the time at which lease health becomes unknown if the longest outage continues.
pub(super) fn known_until(all: &Watches, grace: Duration) -> Option<Instant> {
    let needed = all.iter().filter(|(kind, _)| kind.decides_health());
    let down = needed.filter_map(|(_, state)| state.down_since);
    down.min().map(|since| since + grace)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    fn is_known(watches: &WatchPublisher) -> bool {
        watches.read(|all| know_health(all, GRACE))
    }

    #[tokio::test(start_paused = true)]
    async fn health_is_known_while_deciding_watches_work_or_are_briefly_down() {
        let watches = WatchPublisher::new();
        assert!(!is_known(&watches), "before the first list");
        for kind in CachedKind::ALL.into_iter().filter(|k| k.decides_health()) {
            assert!(!is_known(&watches), "without {kind}");
            watches.listed(kind);
        }
        assert!(is_known(&watches));
        assert!(!watches.read(are_ready), "pods are missing");
        watches.failed(CachedKind::Pods, "gone".to_owned(), Instant::now());
        assert!(
            watches.failed(CachedKind::Deployments, "gone".to_owned(), Instant::now()),
            "the failure is new"
        );
        assert_eq!(
            watches.read(|all| known_until(all, GRACE)),
            Some(Instant::now() + GRACE)
        );
        tokio::time::advance(GRACE - Duration::from_millis(1)).await;
        assert!(is_known(&watches), "within the grace");
        assert!(
            !watches.failed(CachedKind::Deployments, "failed again".to_owned(), Instant::now()),
            "the failure is known"
        );
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!is_known(&watches), "the first failure counts");
        watches.works(CachedKind::Deployments);
        assert!(is_known(&watches));
        let state = watches.read(|all| all[&CachedKind::Deployments].clone());
        assert_eq!(
            (state.failures, state.last_error.as_deref()),
            (2, Some("failed again"))
        );
    }

    #[tokio::test]
    async fn missing_kind_blocks_only_its_dependents() {
        let watches = WatchPublisher::new();
        for kind in CachedKind::ALL {
            watches.listed(kind);
        }
        watches.absent(CachedKind::Ips, "404".to_owned());
        assert!(watches.read(are_ready));
        assert!(is_known(&watches));
        let fresh = WatchPublisher::new();
        for kind in CachedKind::ALL
            .into_iter()
            .filter(|k| *k != CachedKind::Manifests)
        {
            fresh.listed(kind);
        }
        fresh.absent(CachedKind::Manifests, "404".to_owned());
        assert!(!fresh.read(are_ready));
        assert!(!is_known(&fresh));
        let state = fresh.read(|all| all[&CachedKind::Manifests].clone());
        let awaited = "the cluster does not serve manifests.akash.network yet";
        assert_eq!(state.awaited.as_deref(), Some(awaited));
    }
}

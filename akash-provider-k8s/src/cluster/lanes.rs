//! One writer at a time for each lease, and which leases were deployed at this process's word.

use super::Inner;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// Whether the last deploy of the lease went through. Who holds it may write.
type Lane = Arc<tokio::sync::Mutex<bool>>;

/// The lanes of leases, by namespace. Nobody waits for one while it has a turn of [`Inner`]'s semaphore.
#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<BTreeMap<String, Lane>>);

/// A lane that somebody wants who does not wait.
#[derive(Debug)]
pub(super) enum Entry {
    /// Nobody asked for this lease here, or its last deploy failed: the next one is its writer.
    NotDeployed,
    /// It is just being written.
    Busy,
    /// It is free, and held from here on.
    Held(OwnedMutexGuard<bool>),
}

impl Lanes {
    /// Waits until nobody else writes the lease.
    pub(super) async fn enter(&self, home: &str) -> OwnedMutexGuard<bool> {
        let lane = Arc::clone(self.all().entry(home.to_owned()).or_default());
        lane.lock_owned().await
    }

    /// The same without a wait, of a lease that was deployed.
    pub(super) fn try_enter(&self, home: &str) -> Entry {
        let Some(lane) = self.all().get(home).cloned() else {
            return Entry::NotDeployed;
        };
        match lane.try_lock_owned() {
            Ok(held) if *held => Entry::Held(held),
            Ok(_) => Entry::NotDeployed,
            Err(_) => Entry::Busy,
        }
    }

    /// The same of any lease: one without a record has no deploy that would write it.
    pub(super) fn try_enter_any(&self, home: &str) -> Entry {
        let lane = Arc::clone(self.all().entry(home.to_owned()).or_default());
        lane.try_lock_owned().map_or(Entry::Busy, Entry::Held)
    }

    /// The lease is to go.
    pub(super) fn forget(&self, home: &str) {
        self.all().remove(home);
    }

    /// Whoever deploys next does it for another leadership.
    pub(super) fn forget_all(&self) {
        self.all().clear();
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Lane>> {
        // A map is whole at every point where a holder could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Runs one writer of a lease; when it went through, what others change of the lease may be put right.
    pub(super) async fn in_lane<T, E>(
        &self,
        home: &str,
        write: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut lane = self.lanes.enter(home).await;
        // Also where this future is dropped on its way.
        *lane = false;
        let done = write.await;
        *lane = done.is_ok();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(entry: &Entry) -> &'static str {
        match entry {
            Entry::NotDeployed => "not deployed",
            Entry::Busy => "busy",
            Entry::Held(_) => "held",
        }
    }

    #[tokio::test]
    async fn a_lease_is_entered_when_it_was_deployed_and_nobody_writes_it() {
        let lanes = Lanes::default();
        assert_eq!(is(&lanes.try_enter("a")), "not deployed", "nobody asked for it");
        let mut lane = lanes.enter("a").await;
        assert_eq!(is(&lanes.try_enter("a")), "busy");
        *lane = true;
        drop(lane);
        let held = lanes.try_enter("a");
        assert_eq!((is(&held), is(&lanes.try_enter("a"))), ("held", "busy"));
        assert_eq!(is(&lanes.try_enter("b")), "not deployed", "each lease by itself");
        drop(held);
        assert_eq!(is(&lanes.try_enter("a")), "held");
        lanes.forget("a");
        assert_eq!(is(&lanes.try_enter("a")), "not deployed");
    }

    #[tokio::test]
    async fn a_deploy_that_failed_is_followed_by_no_repair() {
        let lanes = Lanes::default();
        *lanes.enter("a").await = true;
        *lanes.enter("a").await = false;
        assert_eq!(is(&lanes.try_enter("a")), "not deployed");
        *lanes.enter("a").await = true;
        lanes.forget_all();
        assert_eq!(is(&lanes.try_enter("a")), "not deployed");
    }
}

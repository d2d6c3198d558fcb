//! Write locks of leases. Each lock also stores whether this process has deployed the lease.

use super::ClusterContext;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// Write lock of a lease. The locked value is true if the last write succeeded.
type LeaseLock = Arc<tokio::sync::Mutex<bool>>;

/// Write locks of leases, by namespace. A task with a permit of [`ClusterContext`]'s semaphore must not wait for a
/// lock.
#[derive(Debug, Default)]
pub(super) struct LeaseLocks(Mutex<BTreeMap<String, LeaseLock>>);

/// Result of an attempt to lock a lease without waiting.
#[derive(Debug)]
pub(super) enum LockResult {
    /// No deploy of the lease has succeeded in this process.
    NotDeployed,
    /// Another task writes the lease.
    Busy,
    /// The lease is locked.
    Held(OwnedMutexGuard<bool>),
}

impl LeaseLocks {
    pub(super) async fn lock(&self, home: &str) -> OwnedMutexGuard<bool> {
        let lock = Arc::clone(self.all().entry(home.to_owned()).or_default());
        lock.lock_owned().await
    }

    /// Locks a deployed lease without waiting.
    pub(super) fn try_lock(&self, home: &str) -> LockResult {
        let Some(lock) = self.all().get(home).cloned() else {
            return LockResult::NotDeployed;
        };
        match lock.try_lock_owned() {
            Ok(guard) if *guard => LockResult::Held(guard),
            Ok(_) => LockResult::NotDeployed,
            Err(_) => LockResult::Busy,
        }
    }

    /// Locks a lease without waiting, even if no deploy of the lease has succeeded.
    pub(super) fn try_lock_any(&self, home: &str) -> LockResult {
        let lock = Arc::clone(self.all().entry(home.to_owned()).or_default());
        lock.try_lock_owned().map_or(LockResult::Busy, LockResult::Held)
    }

    pub(super) fn remove(&self, home: &str) {
        self.all().remove(home);
    }

    /// Removes all locks when this instance stops leading.
    pub(super) fn clear(&self) {
        self.all().clear();
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, LeaseLock>> {
        // Each change is a single call to the map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClusterContext {
    /// Runs `write` under the lock of a lease. Repairs of the lease are allowed after `write` has succeeded.
    pub(super) async fn with_lock<T, E>(
        &self,
        home: &str,
        write: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut lock = self.locks.lock(home).await;
        // Set first, in case this future is dropped.
        *lock = false;
        let done = write.await;
        *lock = done.is_ok();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(entry: &LockResult) -> &'static str {
        match entry {
            LockResult::NotDeployed => "not deployed",
            LockResult::Busy => "busy",
            LockResult::Held(_) => "held",
        }
    }

    #[tokio::test]
    async fn a_deployed_lease_without_a_writer_can_be_locked() {
        let locks = LeaseLocks::default();
        assert_eq!(is(&locks.try_lock("a")), "not deployed", "no deploy yet");
        let mut lock = locks.lock("a").await;
        assert_eq!(is(&locks.try_lock("a")), "busy");
        *lock = true;
        drop(lock);
        let guard = locks.try_lock("a");
        assert_eq!((is(&guard), is(&locks.try_lock("a"))), ("held", "busy"));
        assert_eq!(
            is(&locks.try_lock("b")),
            "not deployed",
            "each lease has its own lock"
        );
        drop(guard);
        assert_eq!(is(&locks.try_lock("a")), "held");
        locks.remove("a");
        assert_eq!(is(&locks.try_lock("a")), "not deployed");
    }

    #[tokio::test]
    async fn a_failed_deploy_prevents_repairs() {
        let locks = LeaseLocks::default();
        *locks.lock("a").await = true;
        *locks.lock("a").await = false;
        assert_eq!(is(&locks.try_lock("a")), "not deployed");
        *locks.lock("a").await = true;
        locks.clear();
        assert_eq!(is(&locks.try_lock("a")), "not deployed");
    }
}

//! Access to a cluster: shared by tests that only use it, or exclusive for a test that breaks parts of it.

use std::fs::{File, TryLockError};
use std::path::PathBuf;

use super::Testbed;
use crate::error::{Error, Result};

/// Lock for shared or exclusive access to a cluster, released when the value is dropped or the process ends.
#[derive(Debug)]
#[must_use = "the lock is held until the file is dropped"]
pub struct ClusterLock {
    _file: File,
}

impl Testbed {
    /// Waits until no test has exclusive access, and returns a lock with shared access.
    ///
    /// # Errors
    /// Fails if the state folder cannot be written.
    pub fn shared(&self) -> Result<ClusterLock> {
        self.hold(File::lock_shared)
    }

    /// Waits for exclusive access.
    ///
    /// # Errors
    /// Fails if the state folder cannot be written.
    pub fn exclusive(&self) -> Result<ClusterLock> {
        self.hold(File::lock)
    }

    /// Returns a lock for exclusive access, or `None` if another test has a lock.
    pub(super) fn try_exclusive(&self) -> Result<Option<ClusterLock>> {
        let (path, file) = self.lock_file()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(ClusterLock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(Error::at(&path, error)),
        }
    }

    fn hold(&self, lock: impl FnOnce(&File) -> std::io::Result<()>) -> Result<ClusterLock> {
        let (path, file) = self.lock_file()?;
        lock(&file).map_err(|error| Error::at(&path, error))?;
        Ok(ClusterLock { _file: file })
    }

    /// Opens the lock file with a separate handle, because locks on one handle do not exclude each other.
    fn lock_file(&self) -> Result<(PathBuf, File)> {
        let path = self.layout.dir.join("pids").join("held.lock");
        let file = File::create(&path).map_err(|error| Error::at(&path, error))?;
        Ok((path, file))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::layout::Layout;
    use crate::tier::Tier;

    fn with_cluster(name: &str, test: impl FnOnce(Testbed)) {
        let dir = std::env::temp_dir().join(format!("testbed-{name}-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("pids")).unwrap();
        let layout = Layout::new(Tier::Node, "t", &dir, 0, "/p".as_ref());
        test(Testbed { layout });
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn exclusive_access_is_refused_while_shared_and_granted_afterwards() {
        with_cluster("refused", |cluster| {
            let alone = cluster.try_exclusive().unwrap();
            assert!(alone.is_some());
            assert!(cluster.try_exclusive().unwrap().is_none());
            drop(alone);
            let together = cluster.shared().unwrap();
            assert!(cluster.try_exclusive().unwrap().is_none());
            drop(together);
            assert!(cluster.try_exclusive().unwrap().is_some());
        });
    }

    #[test]
    fn exclusive_access_waits_for_shared_access() {
        with_cluster("waits", |cluster| {
            let one = cluster.shared().unwrap();
            let another = cluster.shared().unwrap();
            let (sender, receiver) = channel();
            let breaker = cluster.clone();
            let thread = std::thread::spawn(move || {
                let _alone = breaker.exclusive().unwrap();
                sender.send(()).unwrap();
            });
            drop(one);
            let early = receiver.recv_timeout(Duration::from_millis(200));
            assert!(early.is_err(), "exclusive access was granted too early");
            drop(another);
            receiver.recv_timeout(Duration::from_mins(2)).unwrap();
            thread.join().unwrap();
        });
    }
}

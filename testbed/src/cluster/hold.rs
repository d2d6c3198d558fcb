//! Who may use a cluster at the same time: many that only use it, or one that breaks parts of it.

use std::fs::{File, TryLockError};
use std::path::PathBuf;

use super::Cluster;
use crate::error::{Error, Result};

/// While it lives, tests of the other kind wait. The kernel ends it with the program, however that ends.
#[derive(Debug)]
#[must_use = "it holds as long as it lives"]
pub struct Hold {
    _file: File,
}

impl Cluster {
    /// Waits until nobody breaks parts of the cluster, and holds them off.
    ///
    /// # Errors
    /// When the state folder cannot be written.
    pub fn shared(&self) -> Result<Hold> {
        self.hold(File::lock_shared)
    }

    /// Waits until nobody else holds the cluster, and holds everybody off.
    ///
    /// # Errors
    /// When the state folder cannot be written.
    pub fn exclusive(&self) -> Result<Hold> {
        self.hold(File::lock)
    }

    /// As [`Self::exclusive`], where that takes no waiting.
    pub(super) fn try_exclusive(&self) -> Result<Option<Hold>> {
        let (path, file) = self.held()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Hold { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(Error::at(&path, error)),
        }
    }

    fn hold(&self, lock: impl FnOnce(&File) -> std::io::Result<()>) -> Result<Hold> {
        let (path, file) = self.held()?;
        lock(&file).map_err(|error| Error::at(&path, error))?;
        Ok(Hold { _file: file })
    }

    /// A handle of its own for each: locks belong to handles, so threads of one program hold each other off too.
    fn held(&self) -> Result<(PathBuf, File)> {
        let path = self.layout.dir.join("pids").join("held.lock");
        let file = File::create(&path).map_err(|error| Error::at(&path, error))?;
        Ok((path, file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::tier::Tier;

    #[test]
    fn what_somebody_holds_is_not_taken_and_free_again_afterwards() {
        let dir = std::env::temp_dir().join(format!("testbed-hold-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("pids")).unwrap();
        let layout = Layout::new(Tier::Node, "t", &dir, 0, "/p".as_ref());
        let cluster = Cluster { layout };
        let alone = cluster.try_exclusive().unwrap();
        assert!(alone.is_some());
        assert!(cluster.try_exclusive().unwrap().is_none());
        drop(alone);
        let together = cluster.shared().unwrap();
        assert!(cluster.try_exclusive().unwrap().is_none());
        drop(together);
        assert!(cluster.try_exclusive().unwrap().is_some());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

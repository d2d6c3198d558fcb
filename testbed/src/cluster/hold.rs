//! Who may use a cluster at the same time: many that only use it, or one that breaks parts of it.

use std::fs::File;

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

    fn hold(&self, lock: impl FnOnce(&File) -> std::io::Result<()>) -> Result<Hold> {
        let path = self.layout.dir.join("pids").join("held.lock");
        // A handle of its own for each: locks belong to handles, so threads of one program hold each other off too.
        let file = File::create(&path).map_err(|error| Error::at(&path, error))?;
        lock(&file).map_err(|error| Error::at(&path, error))?;
        Ok(Hold { _file: file })
    }
}

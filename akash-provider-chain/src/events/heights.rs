//! The last height that was told, kept over a restart.

use akash_provider_core::error::Error;
use akash_provider_core::types::Height;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keeps the height of the last block that was told.
///
/// It guards against the past: after a restart no node is believed that is behind it. Losing it loses nothing
/// else, the first thing told is the whole present anyway.
pub trait HeightStore: fmt::Debug + Send + Sync + 'static {
    /// The height kept; `None` when there is none yet.
    ///
    /// # Errors
    /// When it cannot be read.
    fn load(&self) -> Result<Option<Height>, Error>;

    /// Keeps a height. Called once a block, from the follower's task: it must be quick, and need not be synced
    /// to disk.
    ///
    /// # Errors
    /// When it cannot be written; the follower goes on and reports it.
    fn store(&self, height: Height) -> Result<(), Error>;
}

/// Keeps the height as long as the process lives.
#[derive(Debug, Default)]
pub(crate) struct MemoryHeights {
    height: AtomicU64,
}

impl HeightStore for MemoryHeights {
    fn load(&self) -> Result<Option<Height>, Error> {
        let height = self.height.load(Ordering::Relaxed);
        Ok((height > 0).then_some(height))
    }

    fn store(&self, height: Height) -> Result<(), Error> {
        self.height.store(height, Ordering::Relaxed);
        Ok(())
    }
}

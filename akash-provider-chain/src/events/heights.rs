//! The last height that was told, kept over a restart.

use crate::checkpoint::Checkpoint;
use crate::lock::lock;
use akash_provider_core::error::Error;
use std::fmt;
use std::sync::Mutex;

/// Stores height and time of the last block of the stream.
///
/// It guards against the past: after a restart no node is trusted that is behind it. A stored block that is impossible
/// by the clock is reported and not used, and one that nodes contradict is replaced. Losing it loses nothing else: the
/// first event after a restart is a whole snapshot.
pub trait HeightStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the stored block; `None` before the first.
    ///
    /// # Errors
    /// When it cannot be read.
    fn load(&self) -> Result<Option<Checkpoint>, Error>;

    /// Replaces the stored block, also by a lower one. Called once a block, from the follower's task: it must be quick, and need not be synced
    /// to disk.
    ///
    /// # Errors
    /// When it cannot be written; the follower goes on and reports it.
    fn store(&self, block: Checkpoint) -> Result<(), Error>;
}

/// Keeps the height as long as the process lives.
#[derive(Debug, Default)]
pub(crate) struct MemoryHeights {
    block: Mutex<Option<Checkpoint>>,
}

impl HeightStore for MemoryHeights {
    fn load(&self) -> Result<Option<Checkpoint>, Error> {
        Ok(*lock(&self.block))
    }

    fn store(&self, block: Checkpoint) -> Result<(), Error> {
        *lock(&self.block) = Some(block);
        Ok(())
    }
}

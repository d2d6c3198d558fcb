//! Store of the last processed block, for restarts.

use crate::checkpoint::Checkpoint;
use crate::lock::lock;
use akash_provider_core::error::Error;
use std::fmt;
use std::sync::Mutex;

/// Store of the height and time of the last processed block.
///
/// After a restart, responses below the stored height are refused. An implausible stored block is logged and
/// ignored. If the nodes contradict the stored block, a block from the nodes replaces the stored block.
pub trait HeightStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the stored block, or `None` if no block was stored yet.
    ///
    /// # Errors
    /// Returns an error if the block cannot be read.
    fn load(&self) -> Result<Option<Checkpoint>, Error>;

    /// Replaces the stored block. The new block may be lower than the stored block.
    ///
    /// This function must return quickly, and need not sync the data to the disk.
    ///
    /// # Errors
    /// Returns an error if the block cannot be written. The follower then reports the error and continues.
    fn store(&self, block: Checkpoint) -> Result<(), Error>;
}

/// [`HeightStore`] that loses the stored block when the process ends.
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

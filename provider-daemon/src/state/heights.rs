//! The last block that was told, for each chain.
//!
//! A height comes with every block, hundreds a second while blocks are caught up, so it lies on a
//! desk (`desk.rs`). What a crash loses is a second of blocks, told again after the next start.

use super::desk::Desk;
use super::{State, any};
use akash_provider_chain::HeightStore;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::Height;
use redb::{Database, ReadableDatabase, TableDefinition};
use std::sync::Arc;

/// Chain id to height.
const HEIGHTS: TableDefinition<'_, &str, u64> = TableDefinition::new("heights");

/// Keeps the heights of one chain. When it is dropped, the last one is on disk.
#[derive(Debug)]
pub struct Heights {
    desk: Desk<Height>,
}

impl State {
    /// The last heights of a chain.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn heights(&self, chain_id: &str) -> std::io::Result<Arc<dyn HeightStore>> {
        let database = Arc::clone(&self.database);
        let desk = Desk::new(database, chain_id.to_owned(), "heights", write)?;
        Ok(Arc::new(Heights { desk }))
    }
}

fn write(database: &Database, chain_id: &str, height: &Height) -> Result<(), redb::Error> {
    let write = database.begin_write().map_err(any)?;
    {
        let mut heights = write.open_table(HEIGHTS).map_err(any)?;
        heights.insert(chain_id, *height).map_err(any)?;
    }
    write.commit().map_err(any)
}

fn read(database: &Database, chain_id: &str) -> Result<Option<Height>, redb::Error> {
    let read = database.begin_read().map_err(any)?;
    match read.open_table(HEIGHTS) {
        Ok(heights) => {
            let height = heights.get(chain_id).map_err(any)?;
            Ok(height.map(|height| height.value()))
        }
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(any(error)),
    }
}

impl HeightStore for Heights {
    fn load(&self) -> Result<Option<Height>, Error> {
        if let Some(height) = self.desk.newest() {
            return Ok(Some(height));
        }
        let read = read(self.desk.database(), self.desk.key());
        read.map_err(|e| Error::new(ErrorKind::Unavailable, "read the last height", e.to_string()))
    }

    fn store(&self, height: Height) -> Result<(), Error> {
        // It guards against the past, so it never goes back.
        let newer = |before: Option<&Height>| before.is_none_or(|before| *before < height).then_some(height);
        let kept = self.desk.put(newer);
        kept.map_err(|why| Error::new(ErrorKind::Unavailable, "keep the last height", why))
    }
}

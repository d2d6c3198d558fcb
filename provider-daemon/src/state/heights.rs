//! The last block that was told, for each chain.
//!
//! A height comes with every block, hundreds a second while blocks are caught up, so it lies on a
//! desk (`desk.rs`). What a crash loses is a second of blocks, told again after the next start.

use super::desk::Desk;
use super::{State, any};
use akash_provider_chain::{Checkpoint, HeightStore};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::{BlockTime, Height};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Chain id to height.
const HEIGHTS: TableDefinition<'_, &str, u64> = TableDefinition::new("heights");
/// Chain id to height and block time in ms. Versions without this table write the height alone, so a time counts only
/// beside the same height.
const TIMES: TableDefinition<'_, &str, (u64, i64)> = TableDefinition::new("height-times");

/// Keeps the heights of one chain. When it is dropped, the last one is on disk.
#[derive(Debug)]
pub struct Heights {
    desk: Desk<Checkpoint>,
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

    /// Returns the last block of every chain.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn stored_heights(&self) -> Result<Vec<(String, Checkpoint)>, Box<redb::Error>> {
        let chains = chains(&self.database)?;
        let block = |chain: String| {
            let block = read(&self.database, &chain).map_err(Box::new)?;
            Ok(block.map(|block| (chain, block)))
        };
        let blocks = chains.into_iter().map(block);
        blocks.filter_map(Result::transpose).collect()
    }

    /// Removes the last block of one chain or of all, and returns the number of removed blocks.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn reset_height(&self, chain_id: Option<&str>) -> Result<usize, Box<redb::Error>> {
        let mut chains = chains(&self.database)?;
        chains.retain(|chain| chain_id.is_none_or(|wanted| wanted == chain));
        remove(&self.database, &chains).map_err(Box::new)?;
        Ok(chains.len())
    }
}

fn chains(database: &Database) -> Result<Vec<String>, Box<redb::Error>> {
    let all = || {
        let read = database.begin_read().map_err(any)?;
        let heights = match read.open_table(HEIGHTS) {
            Ok(heights) => heights,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(any(error)),
        };
        let chains = heights.iter().map_err(any)?;
        chains
            .map(|entry| entry.map(|(chain, _)| chain.value().to_owned()).map_err(any))
            .collect()
    };
    all().map_err(Box::new)
}

fn remove(database: &Database, chains: &[String]) -> Result<(), redb::Error> {
    let write = database.begin_write().map_err(any)?;
    {
        let mut heights = write.open_table(HEIGHTS).map_err(any)?;
        let mut times = write.open_table(TIMES).map_err(any)?;
        for chain in chains {
            heights.remove(chain.as_str()).map_err(any)?;
            times.remove(chain.as_str()).map_err(any)?;
        }
    }
    write.commit().map_err(any)
}

fn write(database: &Database, chain_id: &str, block: &Checkpoint) -> Result<(), redb::Error> {
    let write = database.begin_write().map_err(any)?;
    {
        let mut heights = write.open_table(HEIGHTS).map_err(any)?;
        heights.insert(chain_id, block.height).map_err(any)?;
        let mut times = write.open_table(TIMES).map_err(any)?;
        times
            .insert(chain_id, (block.height, block.time.0))
            .map_err(any)?;
    }
    write.commit().map_err(any)
}

fn read(database: &Database, chain_id: &str) -> Result<Option<Checkpoint>, redb::Error> {
    let read = database.begin_read().map_err(any)?;
    let height = match read.open_table(HEIGHTS) {
        Ok(heights) => heights.get(chain_id).map_err(any)?.map(|height| height.value()),
        Err(redb::TableError::TableDoesNotExist(_)) => None,
        Err(error) => return Err(any(error)),
    };
    let stored = match read.open_table(TIMES) {
        Ok(times) => times.get(chain_id).map_err(any)?.map(|stored| stored.value()),
        Err(redb::TableError::TableDoesNotExist(_)) => None,
        Err(error) => return Err(any(error)),
    };
    let time = |height: Height| match stored {
        Some((of, time)) if of == height => BlockTime(time),
        _ => now(),
    };
    Ok(height.map(|height| Checkpoint {
        height,
        time: time(height),
    }))
}

/// The time of a block that was stored without one: no block that was stored is later.
fn now() -> BlockTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    BlockTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

impl HeightStore for Heights {
    fn load(&self) -> Result<Option<Checkpoint>, Error> {
        if let Some(block) = self.desk.newest() {
            return Ok(Some(block));
        }
        let read = read(self.desk.database(), self.desk.key());
        read.map_err(|e| Error::new(ErrorKind::Unavailable, "read the last height", e.to_string()))
    }

    fn store(&self, block: Checkpoint) -> Result<(), Error> {
        // A lower one replaces a height that turned out to be false.
        let kept = self.desk.put(|_| Some(block));
        kept.map_err(|why| Error::new(ErrorKind::Unavailable, "keep the last height", why))
    }
}

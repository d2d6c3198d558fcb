//! Last processed block of each chain.
//!
//! Heights change with every block, hundreds of times per second while the chain client catches up, so the writes are
//! delayed. A crash loses at most one second of blocks, which are processed again after the next start.

use super::delayed_writer::DelayedWriter;
use super::{State, any, existing};
use akash_provider_chain::{Checkpoint, HeightStore};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::{BlockTime, Height};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Table of the last processed height by chain ID.
const HEIGHTS: TableDefinition<'_, &str, u64> = TableDefinition::new("heights");
/// Table of the last processed block by chain ID: the height, and the time in milliseconds since the Unix
/// epoch. Earlier versions update only [`HEIGHTS`]. Therefore, the time is valid only if both tables have the
/// same height.
const TIMES: TableDefinition<'_, &str, (u64, i64)> = TableDefinition::new("height-times");

/// Store of a chain's last processed block. Dropping the store writes a pending value.
#[derive(Debug)]
pub struct Heights {
    writer: DelayedWriter<Checkpoint>,
}

impl State {
    /// Returns the height store of a chain.
    ///
    /// # Errors
    /// Returns an error if the thread of the writer cannot be started.
    pub fn heights(&self, chain_id: &str) -> std::io::Result<Arc<dyn HeightStore>> {
        let database = Arc::clone(&self.database);
        let writer = DelayedWriter::new(database, chain_id.to_owned(), "heights", write)?;
        Ok(Arc::new(Heights { writer }))
    }

    /// Returns the chain ID and the last processed block of every chain.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn stored_heights(&self) -> Result<Vec<(String, Checkpoint)>, Box<redb::Error>> {
        let chains = self.database.read(chains).map_err(Box::new)?;
        let block = |chain: String| {
            let read = |database: &Database| read(database, &chain);
            let block = self.database.read(read).map_err(Box::new)?;
            Ok(block.map(|block| (chain, block)))
        };
        let blocks = chains.into_iter().map(block);
        blocks.filter_map(Result::transpose).collect()
    }

    /// Removes the last processed block of `chain_id`, or of all chains for `None`. Returns the number of
    /// removed records.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn reset_height(&self, chain_id: Option<&str>) -> Result<usize, Box<redb::Error>> {
        let mut chains = self.database.read(chains).map_err(Box::new)?;
        chains.retain(|chain| chain_id.is_none_or(|wanted| wanted == chain));
        let remove = |database: &Database| remove(database, &chains);
        self.database.write(remove).map_err(Box::new)?;
        Ok(chains.len())
    }
}

fn chains(database: &Database) -> Result<Vec<String>, redb::Error> {
    let read = database.begin_read().map_err(any)?;
    let Some(heights) = existing(&read, HEIGHTS)? else {
        return Ok(Vec::new());
    };
    let chains = heights.iter().map_err(any)?;
    chains
        .map(|entry| entry.map(|(chain, _)| chain.value().to_owned()).map_err(any))
        .collect()
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
    let height = match existing(&read, HEIGHTS)? {
        Some(heights) => heights.get(chain_id).map_err(any)?.map(|height| height.value()),
        None => None,
    };
    let stored = match existing(&read, TIMES)? {
        Some(times) => times.get(chain_id).map_err(any)?.map(|stored| stored.value()),
        None => None,
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

/// Returns the current time, as an upper bound for a block without a stored time.
fn now() -> BlockTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    BlockTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

impl HeightStore for Heights {
    fn load(&self) -> Result<Option<Checkpoint>, Error> {
        if let Some(block) = self.writer.newest() {
            return Ok(Some(block));
        }
        let key = self.writer.key();
        let read = self.writer.database().read(|database| read(database, key));
        read.map_err(|e| Error::new(ErrorKind::Unavailable, "read the last height", e.to_string()))
    }

    fn store(&self, block: Checkpoint) -> Result<(), Error> {
        // A lower height replaces one that turned out to be false.
        let stored = self.writer.put(|_| Some(block));
        stored.map_err(|why| Error::new(ErrorKind::Unavailable, "store the last height", why))
    }
}

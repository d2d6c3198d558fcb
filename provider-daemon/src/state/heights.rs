//! The last block that was told, for each chain.
//!
//! A height comes with every block, hundreds a second while blocks are caught up. So a height is only put down, and a
//! thread of its own writes the newest one, with a pause between two writes. What a crash loses is a second of
//! blocks, told again after the next start.

use super::{State, any};
use akash_provider_chain::HeightStore;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::Height;
use redb::{Database, ReadableDatabase, TableDefinition};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Chain id to height.
const HEIGHTS: TableDefinition<'_, &str, u64> = TableDefinition::new("heights");
/// Time between two writes; a write waits for the disk.
const PAUSE: Duration = Duration::from_secs(1);

/// Keeps the heights of one chain. When it is dropped, the last one is on disk.
#[derive(Debug)]
pub struct Heights {
    desk: Arc<Desk>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Desk {
    database: Arc<Database>,
    chain_id: String,
    slip: Mutex<Slip>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Slip {
    /// The newest height.
    height: Option<Height>,
    /// It is not on disk yet.
    is_due: bool,
    /// Why the last write failed, until somebody was told.
    failure: Option<String>,
    closing: bool,
}

impl State {
    /// The last heights of a chain.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn heights(&self, chain_id: &str) -> std::io::Result<Arc<dyn HeightStore>> {
        Ok(Arc::new(Heights::new(Arc::clone(&self.database), chain_id)?))
    }
}

impl Heights {
    fn new(database: Arc<Database>, chain_id: &str) -> std::io::Result<Self> {
        let desk = Arc::new(Desk {
            database,
            chain_id: chain_id.to_owned(),
            slip: Mutex::default(),
            changed: Condvar::new(),
        });
        let at = Arc::clone(&desk);
        let thread = std::thread::Builder::new().name("heights".to_owned());
        let writer = thread.spawn(move || at.keep())?;
        Ok(Self {
            desk,
            writer: Some(writer),
        })
    }
}

impl Desk {
    fn slip(&self) -> MutexGuard<'_, Slip> {
        self.slip.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what is due until the store is dropped.
    fn keep(&self) {
        loop {
            let mut slip = self.slip();
            while !slip.is_due && !slip.closing {
                slip = self.changed.wait(slip).unwrap_or_else(PoisonError::into_inner);
            }
            let (height, closing) = (slip.height.filter(|_| slip.is_due), slip.closing);
            slip.is_due = false;
            drop(slip);
            if let Some(height) = height {
                let written = self.write(height);
                let mut slip = self.slip();
                match written {
                    Ok(()) => slip.failure = None,
                    Err(error) => slip.failure = Some(error.to_string()),
                }
            }
            if closing {
                return;
            }
            let slip = self.slip();
            drop(self.changed.wait_timeout_while(slip, PAUSE, |slip| !slip.closing));
        }
    }

    fn write(&self, height: Height) -> Result<(), redb::Error> {
        let write = self.database.begin_write().map_err(any)?;
        {
            let mut heights = write.open_table(HEIGHTS).map_err(any)?;
            heights.insert(self.chain_id.as_str(), height).map_err(any)?;
        }
        write.commit().map_err(any)
    }

    fn read(&self) -> Result<Option<Height>, redb::Error> {
        let read = self.database.begin_read().map_err(any)?;
        match read.open_table(HEIGHTS) {
            Ok(heights) => {
                let height = heights.get(self.chain_id.as_str()).map_err(any)?;
                Ok(height.map(|height| height.value()))
            }
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(any(error)),
        }
    }
}

impl HeightStore for Heights {
    fn load(&self) -> Result<Option<Height>, Error> {
        if let Some(height) = self.desk.slip().height {
            return Ok(Some(height));
        }
        let read = self.desk.read();
        read.map_err(|e| Error::new(ErrorKind::Unavailable, "read the last height", e.to_string()))
    }

    fn store(&self, height: Height) -> Result<(), Error> {
        let mut slip = self.desk.slip();
        // It guards against the past, so it never goes back.
        if slip.height.is_none_or(|before| before < height) {
            slip.height = Some(height);
            slip.is_due = true;
        }
        let failure = slip.failure.take();
        drop(slip);
        self.desk.changed.notify_one();
        match failure {
            Some(why) => Err(Error::new(ErrorKind::Unavailable, "keep the last height", why)),
            None => Ok(()),
        }
    }
}

impl Drop for Heights {
    fn drop(&mut self) {
        self.desk.slip().closing = true;
        self.desk.changed.notify_one();
        if let Some(writer) = self.writer.take() {
            // It ends after at most one write; a panic of it was said already.
            drop(writer.join());
        }
    }
}

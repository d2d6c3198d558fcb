//! Disk in memory that can be full.

use redb::{Database, StorageBackend};
use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// In-memory disk with one file. Clones share the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct SmallDisk {
    bytes: Arc<Mutex<Vec<u8>>>,
    is_full: Arc<AtomicBool>,
}

impl SmallDisk {
    pub(crate) fn open(&self) -> Result<Database, redb::Error> {
        Ok(Database::builder().create_with_backend(self.clone())?)
    }

    /// Makes each write fail until [`Self::free`].
    pub(crate) fn fill(&self) {
        self.is_full.store(true, Ordering::Relaxed);
    }

    /// Permits writes again.
    pub(crate) fn free(&self) {
        self.is_full.store(false, Ordering::Relaxed);
    }

    /// Returns whether writes are permitted.
    pub(crate) fn has_space(&self) -> bool {
        !self.is_full.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<(), Error> {
        match self.has_space() {
            true => Ok(()),
            false => Err(Error::from(ErrorKind::StorageFull)),
        }
    }
}

impl StorageBackend for SmallDisk {
    fn len(&self) -> Result<u64, Error> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let at = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.bytes.lock().unwrap()[at..at + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        if len > self.len()? {
            self.check()?;
        }
        let len = usize::try_from(len).unwrap();
        self.bytes.lock().unwrap().resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> Result<(), Error> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        // A file system accepts writes to the first page, which is already allocated.
        if offset > 0 {
            self.check()?;
        }
        let at = usize::try_from(offset).unwrap();
        self.bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
}

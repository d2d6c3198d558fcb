//! Database file that continues after a failure of the disk.
//!
//! After a failed call, such as a write to a full disk, the library refuses all further calls until the file is opened
//! again. This type opens the file again, so that reads continue, and pauses the writes until the disk has space.

use super::StateError;
use crate::files;
use redb::Database;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Pause of writes after a failure other than a full disk.
const RETRY: Duration = Duration::from_secs(60);
/// Interval of free space checks after the disk was full.
const SPACE_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum free space for a write, in bytes. After the disk was full, writes resume at this value.
const SPACE_MIN: u64 = 1 << 20;

type Open = dyn Fn() -> Result<Database, StateError> + Send + Sync;

/// Database file that pauses writes after a disk failure.
pub(super) struct StateDatabase {
    path: PathBuf,
    /// Open database; `None` if the file could not be reopened after a disk failure.
    database: RwLock<Option<Database>>,
    pause: Mutex<Option<WritePause>>,
    open: Box<Open>,
}

impl fmt::Debug for StateDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateDatabase")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Pause of the writes after a disk failure.
#[derive(Debug, Clone)]
pub(crate) struct WritePause {
    since: Instant,
    /// Whether the file system is full.
    is_full: bool,
    why: String,
}

impl WritePause {
    pub(crate) fn new(why: String, is_full: bool) -> Self {
        Self {
            since: Instant::now(),
            is_full,
            why,
        }
    }

    /// Returns true if the pause has ended. If the disk was full, the pause ends when the disk has free
    /// space. After any other error, the pause ends after the time `retry`.
    pub(crate) fn is_over(&self, retry: Duration, has_space: impl FnOnce() -> bool) -> bool {
        let waited = self.since.elapsed();
        if self.is_full {
            waited >= SPACE_INTERVAL.min(retry) && has_space()
        } else {
            waited >= retry
        }
    }

    pub(crate) fn why(&self) -> &str {
        &self.why
    }
}

pub(crate) fn is_full(error: &redb::Error) -> bool {
    matches!(error, redb::Error::Io(error) if error.kind() == ErrorKind::StorageFull)
}

/// Returns true if the disk caused `error`.
pub(super) const fn is_disk_failure(error: &redb::Error) -> bool {
    matches!(
        error,
        redb::Error::Io(_) | redb::Error::PreviousIo | redb::Error::DatabaseClosed
    )
}

/// Returns true if the file system of `path` has at least `SPACE_MIN` bytes free.
pub(crate) fn has_space(path: &Path) -> bool {
    files::free_bytes(path).is_ok_and(|free| free >= SPACE_MIN)
}

impl StateDatabase {
    /// Wraps an open database. `open` reopens the file after a disk failure.
    pub(super) fn new(
        path: PathBuf,
        database: Database,
        open: impl Fn() -> Result<Database, StateError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            path,
            database: RwLock::new(Some(database)),
            pause: Mutex::default(),
            open: Box::new(open),
        }
    }

    /// Runs the read transaction `call`.
    ///
    /// # Errors
    /// Returns the error of `call`, or an error if the file cannot be reopened after a disk failure.
    pub(super) fn read<T>(
        &self,
        call: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        let result = self.call(call);
        if let Err(error) = &result {
            self.pause_after(error);
        }
        result
    }

    /// Runs the write transaction `call`.
    ///
    /// # Errors
    /// Returns the error of `call`. During a pause of the writes, returns the failure that started the pause.
    pub(super) fn write<T>(
        &self,
        call: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        if let Some(pause) = &*self.pause()
            && !pause.is_over(RETRY, || has_space(&self.path))
        {
            return Err(redb::Error::Io(std::io::Error::other(pause.why().to_owned())));
        }
        let is_closed = self
            .database
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_none();
        if is_closed {
            self.reopen();
        }
        let result = self.call(call);
        match &result {
            Ok(_) => {
                if self.pause().take().is_some() {
                    tracing::info!(path = %self.path.display(), "state file in the home directory is usable again");
                }
            }
            Err(error) => self.pause_after(error),
        }
        result
    }

    fn call<T>(&self, call: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, redb::Error> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        match &*database {
            Some(database) => call(database),
            None => Err(redb::Error::DatabaseClosed),
        }
    }

    /// Pauses writes after a disk failure, and reopens the file. Logs only the first failure.
    fn pause_after(&self, error: &redb::Error) {
        // A closed file is opened again by the next write after the pause.
        if !is_disk_failure(error) || matches!(error, redb::Error::DatabaseClosed) {
            return;
        }
        let mut pause = self.pause();
        let is_first = pause.is_none();
        // The call of another thread may fail because of the first failure, without its cause.
        if is_first || !matches!(error, redb::Error::PreviousIo) {
            *pause = Some(WritePause::new(error.to_string(), is_full(error)));
        }
        drop(pause);
        if is_first {
            tracing::warn!(
                path = %self.path.display(),
                %error,
                "state file not written, leases continue and a restart loses the newest state; check the free space of the home directory"
            );
        }
        self.reopen();
    }

    fn reopen(&self) {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // The file is locked until the old database is dropped.
        *database = None;
        *database = (self.open)().ok();
    }

    fn pause(&self) -> MutexGuard<'_, Option<WritePause>> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::SmallDisk;
    use redb::{ReadableDatabase, TableDefinition};

    const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("table");

    fn insert(file: &StateDatabase, key: u64) -> Result<(), redb::Error> {
        file.write(|database| {
            let write = database.begin_write()?;
            write.open_table(TABLE)?.insert(key, key)?;
            Ok(write.commit()?)
        })
    }

    fn contains(file: &StateDatabase, key: u64) -> Result<bool, redb::Error> {
        file.read(|database| {
            let read = database.begin_read()?;
            Ok(read.open_table(TABLE)?.get(key)?.is_some())
        })
    }

    #[test]
    fn reads_continue_on_a_full_disk_and_writes_continue_with_space() {
        let disk = SmallDisk::default();
        let open = {
            let disk = disk.clone();
            move || disk.open().map_err(StateError::database)
        };
        let place = tempfile::tempdir().unwrap();
        let database = open().unwrap();
        let file = StateDatabase::new(place.path().to_owned(), database, open);
        insert(&file, 1).unwrap();
        disk.fill();
        assert!(insert(&file, 2).is_err());
        assert!(contains(&file, 1).unwrap() && !contains(&file, 2).unwrap());
        // The writes are paused, although the file system of the path has space.
        disk.free();
        assert!(
            insert(&file, 3)
                .unwrap_err()
                .to_string()
                .contains("no storage space")
        );
        std::thread::sleep(SPACE_INTERVAL);
        insert(&file, 4).unwrap();
        assert!(contains(&file, 1).unwrap() && contains(&file, 4).unwrap());
    }
}

//! Persisted state of the daemon: a small database in the home directory.
//!
//! | module | content | after a loss |
//! |---|---|---|
//! | [`heights`] | height and time of the last processed block per chain | none: a start reads a complete snapshot |
//! | [`spent`] | fees of an account in the last hour | the hourly limit starts at zero |
//! | [`terms`] | highest term of the election | a new leader may repeat a term |
//! | `lease_events` | events of leases | the API server has the events of the last hour |
//! | [`tenants`] | keys and certificates of tenants | one chain query for each |
//!
//! Each module has a table and implements a trait of a library crate, such as `HeightStore`. These tables are
//! in the file `state.redb`, so that one transaction can write several of them. No lease depends on the file.
//! A damaged file, or the file of a later version, is therefore renamed and replaced by an empty file, and the
//! log contains its new path. Any other failure, such as a missing permission or a lock of another process,
//! prevents the start. After a failure of the disk, `file` opens the file again.

mod copy;
mod delayed_writer;
mod file;
pub mod heights;
mod lease_events;
mod private;
pub mod spent;
pub mod tenants;
pub mod terms;

use file::StateDatabase;
pub(crate) use file::{WritePause, has_space, is_full};
use redb::{Database, Key, ReadOnlyTable, ReadTransaction, ReadableDatabase, TableDefinition, Value};
use std::fs;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Name of the state file in the home directory.
pub const FILE: &str = "state.redb";
/// Size of the page cache, in bytes.
const CACHE_BYTES: usize = 1 << 20;
/// Table with metadata of the file, such as its layout version.
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
const LAYOUT: &str = "layout";
/// Version of the table layout, incremented when a table changes its meaning.
const LAYOUT_NOW: u64 = 1;

/// Failure to open the state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another process has the file open.
    #[error("{} is in use by another provider", path.display())]
    InUse {
        /// Path of the unchanged file.
        path: PathBuf,
    },
    /// A later version of this program wrote the file.
    #[error("{} was written by a later version (layout {found}, supported {supported})", path.display())]
    Later {
        /// Path of the unchanged file.
        path: PathBuf,
        /// Layout version that the file has.
        found: u64,
        /// Newest layout version that this program reads.
        supported: u64,
    },
    /// A file system operation failed.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// Failed operation, as an infinitive for the message.
        operation: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Cause, such as a missing permission.
        source: std::io::Error,
    },
    /// The database cannot open the file, although the file is not damaged.
    #[error("cannot open {}", path.display())]
    Database {
        /// Path of the file. The provider does not rename the file.
        path: PathBuf,
        /// Cause; boxed because of its size.
        source: Box<redb::Error>,
    },
}

impl StateError {
    /// Returns the remedy; `None` if the remedy depends on the cause.
    pub(crate) const fn help(&self) -> Option<&'static str> {
        match self {
            Self::InUse { .. } => Some("stop that provider, or choose another --home"),
            Self::Later { .. } => Some("use that version, or move the file away; no lease is affected"),
            Self::Io { .. } | Self::Database { .. } => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn database(source: redb::Error) -> Self {
        Self::Database {
            path: PathBuf::new(),
            source: Box::new(source),
        }
    }

    /// Returns whether the file system is full.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.kind() == ErrorKind::StorageFull,
            Self::Database { source, .. } => is_full(source),
            Self::InUse { .. } | Self::Later { .. } => false,
        }
    }
}

/// Handle of the database. Clones share the database.
#[derive(Debug, Clone)]
pub struct State {
    database: Arc<StateDatabase>,
    path: PathBuf,
}

/// Opened state, and the new path of an unreadable state file.
#[derive(Debug)]
pub struct OpenedState {
    /// Opened state; empty if `moved_aside` is set.
    pub state: State,
    /// New path of a damaged file, or of a later version's file; `None` if the file was read.
    pub moved_aside: Option<PathBuf>,
}

enum OpenError {
    Damaged(String),
    Other(StateError),
}

impl State {
    /// Opens the state in a home directory. Creates missing files, and denies other system users access to
    /// all files in the directory.
    ///
    /// # Errors
    /// Returns an error if another process uses the file, or if the file system refuses an operation.
    pub fn open(home: &Path) -> Result<OpenedState, StateError> {
        let path = home.join(FILE);
        private::folder(home).map_err(|source| StateError::Io {
            operation: "create the directory",
            path: home.to_owned(),
            source,
        })?;
        private::close(home, &path);
        let (database, moved_aside) = match open_file(&path, LAYOUT_NOW) {
            Err(StateError::Later { found, .. }) => {
                let aside = move_aside(&path, "later")?;
                tracing::warn!(
                    path = %path.display(),
                    aside = %aside.display(),
                    found,
                    "state file of a later version moved aside and replaced by an empty one; no lease is affected: to \
                     use the file again, install that version and rename the file"
                );
                (open_file(&path, LAYOUT_NOW)?.0, Some(aside))
            }
            opened => opened?,
        };
        Ok(OpenedState::new(database, path, moved_aside))
    }

    /// Creates the home directory (0700) if missing, and denies other system users access to its files.
    /// Returns one line for each failure.
    #[must_use]
    pub fn restrict_access(home: &Path) -> Vec<String> {
        match private::folder(home) {
            Ok(()) => private::restrict(home, &home.join(FILE)),
            Err(error) => vec![format!("{}: {error}", home.display())],
        }
    }

    /// Returns the path and mode of each entry that other system users can access. Also returns one line for
    /// each unreadable entry.
    #[must_use]
    pub fn accessible_files(home: &Path) -> (Vec<(PathBuf, u32)>, Vec<String>) {
        private::accessible(home, &home.join(FILE))
    }

    /// Path of the file, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl OpenedState {
    fn new(database: Database, path: PathBuf, moved_aside: Option<PathBuf>) -> Self {
        let file = path.clone();
        let open = move || open_file(&file, LAYOUT_NOW).map(|(database, _)| database);
        let state = State {
            database: Arc::new(StateDatabase::new(path.clone(), database, open)),
            path,
        };
        Self { state, moved_aside }
    }
}

/// Opens or creates a database file. Renames a damaged file, creates an empty file, and returns the new path
/// of the damaged file.
///
/// # Errors
/// Returns an error if the file is unusable but not damaged, or if its layout is newer than `layout`.
pub(crate) fn open_file(path: &Path, layout: u64) -> Result<(Database, Option<PathBuf>), StateError> {
    let why = match open_or_create(path, layout) {
        Ok(database) => return Ok((database, None)),
        Err(OpenError::Other(error)) => return Err(error),
        Err(OpenError::Damaged(why)) => why,
    };
    let aside = move_aside(path, "damaged")?;
    tracing::warn!(
        path = %path.display(),
        aside = %aside.display(),
        why,
        "state file damaged, moved aside and replaced by an empty one; no lease is affected: check the disk"
    );
    match open_or_create(path, layout) {
        Ok(database) => Ok((database, Some(aside))),
        Err(OpenError::Other(error)) => Err(error),
        // A new file that is damaged indicates a faulty disk. Another attempt would not help.
        Err(OpenError::Damaged(why)) => Err(StateError::Io {
            operation: "create an empty state at",
            path: path.to_owned(),
            source: std::io::Error::other(why),
        }),
    }
}

/// Opens the file and checks its integrity, or creates the file with the layout version.
fn open_or_create(path: &Path, layout: u64) -> Result<Database, OpenError> {
    // The library reports damage as an error or, with assertions, as a panic.
    let opened = catch_unwind(AssertUnwindSafe(|| open(path, layout)));
    opened.unwrap_or_else(|_| {
        Err(OpenError::Damaged(
            "the database library panicked while it read the file".to_owned(),
        ))
    })
}

fn open(path: &Path, supported: u64) -> Result<Database, OpenError> {
    let classify = |error: redb::Error| classify(path, error);
    // Created here, because the library would use the permissions of the umask.
    private::file(path).map_err(|e| classify(redb::Error::Io(e)))?;
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    let mut database = builder.create(path).map_err(|e| classify(e.into()))?;
    // The check finds damage now instead of during a tenant's request.
    database.check_integrity().map_err(|e| classify(e.into()))?;
    let found = layout(&database).map_err(&classify)?;
    match found {
        // Not damaged: a return to the later version finds everything unchanged.
        Some(found) if found > supported => {
            let path = path.to_owned();
            return Err(OpenError::Other(StateError::Later {
                path,
                found,
                supported,
            }));
        }
        Some(_) => {}
        None => write_layout(&database, supported).map_err(&classify)?,
    }
    Ok(database)
}

/// Opens a table for reading; `None` if the table was never written.
pub(crate) fn existing<K: Key + 'static, V: Value + 'static>(
    read: &ReadTransaction,
    table: TableDefinition<'_, K, V>,
) -> Result<Option<ReadOnlyTable<K, V>>, redb::Error> {
    match read.open_table(table) {
        Ok(table) => Ok(Some(table)),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(any(error)),
    }
}

fn layout(database: &Database) -> Result<Option<u64>, redb::Error> {
    let read = database.begin_read()?;
    match existing(&read, ABOUT)? {
        Some(about) => Ok(about.get(LAYOUT)?.map(|layout| layout.value())),
        None => Ok(None),
    }
}

fn write_layout(database: &Database, layout: u64) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut about = write.open_table(ABOUT)?;
        about.insert(LAYOUT, layout)?;
    }
    write.commit()?;
    Ok(())
}

fn classify(path: &Path, error: redb::Error) -> OpenError {
    let path = path.to_owned();
    let damaged = |error: &redb::Error| OpenError::Damaged(error.to_string());
    match error {
        redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => {
            OpenError::Other(StateError::InUse { path })
        }
        // These two kinds occur for a truncated or foreign file. All others are faults of the system.
        redb::Error::Io(source)
            if !matches!(source.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
        {
            OpenError::Other(StateError::Io {
                operation: "open",
                path,
                source,
            })
        }
        error @ (redb::Error::Io(_)
        | redb::Error::Corrupted(_)
        | redb::Error::RepairAborted
        | redb::Error::UpgradeRequired(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. }) => damaged(&error),
        error => OpenError::Other(StateError::Database {
            path,
            source: Box::new(error),
        }),
    }
}

/// Renames the file to an unused name that contains the reason.
fn move_aside(path: &Path, reason: &str) -> Result<PathBuf, StateError> {
    let seconds = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let aside = (0_u32..)
        .map(|n| path.with_extension(format!("redb.{reason}-{seconds}-{n}")))
        .find(|aside| !aside.exists())
        .unwrap_or_else(|| path.with_extension(format!("redb.{reason}")));
    fs::rename(path, &aside).map_err(|source| StateError::Io {
        operation: "move aside",
        path: path.to_owned(),
        source,
    })?;
    Ok(aside)
}

pub(crate) fn any(error: impl Into<redb::Error>) -> redb::Error {
    error.into()
}

#[cfg(test)]
mod small_disk;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use small_disk::SmallDisk;

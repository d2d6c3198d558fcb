//! What the daemon keeps over a restart: a small database in the provider's home.
//!
//! | room | what it keeps | lost, it costs |
//! |---|---|---|
//! | [`heights`] | height and time of the last block that was told, for each chain | nothing: a restart begins with a whole snapshot |
//! | [`spent`] | what an account paid in the last hour | its ceiling counts from nothing |
//! | [`terms`] | the highest term of a leadership | a new leader may begin at a term that was |
//! | `lease_events` | events of leases | the API server has those of the last hour |
//! | [`tenants`] | keys and certificates of tenants | a question to the chain for each of them |
//!
//! Each kind of record has a room of its own: its table, its key and value, and the trait of the port it serves. All
//! of them share the one file `state.redb`, so that a write of several kinds is one transaction. Nothing here is
//! the truth about a lease: losing the file loses none. Therefore a damaged file is moved aside and an empty one
//! begun, and the log says where the old one lies; a file that cannot be opened for another reason (no permission,
//! another process has it) ends the start with an error instead.

mod desk;
pub mod heights;
mod lease_events;
mod private;
pub mod spent;
pub mod tenants;
pub mod terms;

use redb::{Database, ReadableDatabase, TableDefinition};
use std::fs;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Name of the file in the home.
pub const FILE: &str = "state.redb";
/// Memory for pages: the whole file is smaller.
const CACHE_BYTES: usize = 1 << 20;
/// What is known of the file itself.
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
const LAYOUT: &str = "layout";
/// Counted up when a table changes its meaning.
const LAYOUT_NOW: u64 = 1;

/// Why there is no state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another process has the file open.
    #[error("{} is in use by another provider: stop it, or give this one another home", path.display())]
    InUse {
        /// The file; it is left as it is.
        path: PathBuf,
    },
    /// A later version of this program wrote it.
    #[error("{} was written by a later version (layout {found}, this one knows {known}): use that version, or move the file away; no lease is lost with it", path.display(), known = LAYOUT_NOW)]
    Later {
        /// The file; nothing of it was changed.
        path: PathBuf,
        /// Number of the layout in the file, larger than the one this version knows.
        found: u64,
    },
    /// The file system refuses.
    #[error("{operation} {}", path.display())]
    Io {
        /// What was tried, as the text of the error begins.
        operation: &'static str,
        /// The file or the folder that it was tried on.
        path: PathBuf,
        /// The system's reason, such as a missing permission.
        source: std::io::Error,
    },
    /// The database refuses, though the file is not damaged.
    #[error("{}", path.display())]
    Database {
        /// The file; it is not moved aside, for it is not damaged.
        path: PathBuf,
        /// The library's reason; in a box, for it is large.
        source: Box<redb::Error>,
    },
}

/// The database. A clone is the same one.
#[derive(Debug, Clone)]
pub struct State {
    database: Arc<Database>,
    path: PathBuf,
}

/// A state, and what became of the one before.
#[derive(Debug)]
pub struct Opened {
    /// The state from now on; an empty one where `moved_aside` names a file.
    pub state: State,
    /// Where a damaged file was moved to.
    pub moved_aside: Option<PathBuf>,
}

/// How opening went wrong.
enum Trouble {
    Damaged(String),
    Other(StateError),
}

impl State {
    /// Opens the state in a home folder; creates the folder (0700) and the file (0600) where they are missing, and
    /// removes the access of other accounts from everything in the folder.
    ///
    /// # Errors
    /// When the file cannot be used and is not damaged.
    pub fn open(home: &Path) -> Result<Opened, StateError> {
        let path = home.join(FILE);
        private::folder(home).map_err(|source| StateError::Io {
            operation: "create the folder",
            path: home.to_owned(),
            source,
        })?;
        private::close(home, &path);
        let why = match begin(&path) {
            Ok(database) => return Ok(Opened::new(database, path, None)),
            Err(Trouble::Other(error)) => return Err(error),
            Err(Trouble::Damaged(why)) => why,
        };
        let aside = move_aside(&path)?;
        tracing::warn!(
            path = %path.display(),
            aside = %aside.display(),
            why,
            "the state is damaged: it is kept aside, and an empty one is begun; no lease is lost"
        );
        match begin(&path) {
            Ok(database) => Ok(Opened::new(database, path, Some(aside))),
            Err(Trouble::Other(error)) => Err(error),
            // An empty file that is damaged at once is the disk's fault: moving it aside as well would never end.
            Err(Trouble::Damaged(why)) => Err(StateError::Io {
                operation: "begin an empty state at",
                path,
                source: std::io::Error::other(why),
            }),
        }
    }

    /// Path of the file, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Opened {
    fn new(database: Database, path: PathBuf, moved_aside: Option<PathBuf>) -> Self {
        let state = State {
            database: Arc::new(database),
            path,
        };
        Self { state, moved_aside }
    }
}

/// Opens or makes the file, looks through it, and writes its layout where it has none.
fn begin(path: &Path) -> Result<Database, Trouble> {
    // The library answers a damaged file with an error, or, where its own checks are compiled in, with a panic.
    let opened = catch_unwind(AssertUnwindSafe(|| open(path)));
    opened.unwrap_or_else(|_| Err(Trouble::Damaged("reading it breaks off".to_owned())))
}

fn open(path: &Path) -> Result<Database, Trouble> {
    let trouble = |error: redb::Error| trouble(path, error);
    // Before the library, which would create the file with the bits that the umask leaves.
    private::file(path).map_err(|e| trouble(redb::Error::Io(e)))?;
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    let mut database = builder.create(path).map_err(|e| trouble(e.into()))?;
    // Damage is to be found now, and not when a tenant's request happens to meet it.
    database.check_integrity().map_err(|e| trouble(e.into()))?;
    let found = layout(&database).map_err(&trouble)?;
    match found {
        // No damage: whoever goes back to the later version finds everything as it was.
        Some(found) if found > LAYOUT_NOW => {
            let path = path.to_owned();
            return Err(Trouble::Other(StateError::Later { path, found }));
        }
        Some(_) => {}
        None => write_layout(&database).map_err(&trouble)?,
    }
    Ok(database)
}

fn layout(database: &Database) -> Result<Option<u64>, redb::Error> {
    let read = database.begin_read()?;
    match read.open_table(ABOUT) {
        Ok(about) => Ok(about.get(LAYOUT)?.map(|layout| layout.value())),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn write_layout(database: &Database) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut about = write.open_table(ABOUT)?;
        about.insert(LAYOUT, LAYOUT_NOW)?;
    }
    write.commit()?;
    Ok(())
}

/// Damage is what the file itself is to blame for.
fn trouble(path: &Path, error: redb::Error) -> Trouble {
    let path = path.to_owned();
    let damaged = |error: &redb::Error| Trouble::Damaged(error.to_string());
    match error {
        redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => {
            Trouble::Other(StateError::InUse { path })
        }
        // These two kinds are how a truncated or foreign file shows itself. All others are the system's.
        redb::Error::Io(source)
            if !matches!(source.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
        {
            Trouble::Other(StateError::Io {
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
        error => Trouble::Other(StateError::Database {
            path,
            source: Box::new(error),
        }),
    }
}

/// Renames the file, to a name that was not there.
fn move_aside(path: &Path) -> Result<PathBuf, StateError> {
    let seconds = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let aside = (0_u32..)
        .map(|n| path.with_extension(format!("redb.damaged-{seconds}-{n}")))
        .find(|aside| !aside.exists())
        .unwrap_or_else(|| path.with_extension("redb.damaged"));
    fs::rename(path, &aside).map_err(|source| StateError::Io {
        operation: "move aside",
        path: path.to_owned(),
        source,
    })?;
    Ok(aside)
}

/// A storage error as one of the library's.
fn any(error: impl Into<redb::Error>) -> redb::Error {
    error.into()
}

#[cfg(test)]
mod tests;

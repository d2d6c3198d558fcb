//! Copy of the database in memory, for commands that only read.
//!
//! A running provider locks the file, and a lock of a command would prevent the start of the provider. The copy needs
//! no lock. A copy that was read during a write may be damaged, and is then unusable.

use super::file::StateDatabase;
use super::{FILE, State, StateError};
use crate::files;
use redb::backends::InMemoryBackend;
use redb::{Database, StorageBackend};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Maximum size of a copied file, in bytes.
const FILE_MAX: u64 = 256 << 20;

impl State {
    /// Copies the state of a home directory into memory; `None` before the provider's first start.
    ///
    /// # Errors
    /// Returns the reason if the file cannot be read, is too large or is damaged.
    pub fn copy(home: &Path) -> Result<Option<Self>, String> {
        let path = home.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = files::bytes(&path, FILE_MAX)?;
        let opened = catch_unwind(AssertUnwindSafe(|| open(&bytes)));
        let database = opened.unwrap_or_else(|_| Err("damaged file".to_owned()))?;
        Ok(Some(Self {
            database: Arc::new(StateDatabase::new(path.clone(), database, move || {
                Err(StateError::Io {
                    operation: "open the copy of",
                    path: path.clone(),
                    source: ErrorKind::Unsupported.into(),
                })
            })),
            path: home.join(FILE),
        }))
    }
}

fn open(bytes: &[u8]) -> Result<Database, String> {
    let memory = InMemoryBackend::new();
    let length = u64::try_from(bytes.len()).map_err(|error| error.to_string())?;
    memory.set_len(length).map_err(|error| error.to_string())?;
    memory.write(0, bytes).map_err(|error| error.to_string())?;
    Database::builder()
        .create_with_backend(memory)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_chain::gas::{Cost, Minute};
    use akash_provider_core::types::Address;

    #[test]
    fn reads_the_state_of_a_running_provider() {
        let home = tempfile::tempdir().unwrap();
        assert!(
            State::copy(home.path()).unwrap().is_none(),
            "before the first start"
        );
        let account = Address::from_bytes(&[7; 20]).unwrap();
        let paid = Cost { gas: 3, fee: 9 };
        let minutes = vec![Minute { at: 5, paid }];
        // Dropping the store writes the payments; the state stays open.
        let state = State::open(home.path()).unwrap().state;
        let store = state.spent("akashnet-2", &account).unwrap();
        store.store(minutes.clone()).unwrap();
        drop(store);
        let copy = State::copy(home.path()).unwrap().unwrap();
        let read = copy.spent("akashnet-2", &account).unwrap();
        assert_eq!(read.load().unwrap(), minutes);
        read.store(Vec::new()).unwrap();
        drop((read, copy));
        let stored = state.spent("akashnet-2", &account).unwrap();
        assert_eq!(stored.load().unwrap(), minutes, "a copy must not change the file");
    }

    #[test]
    fn damaged_file_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(FILE), [7; 10_000]).unwrap();
        assert!(State::copy(home.path()).is_err());
    }
}

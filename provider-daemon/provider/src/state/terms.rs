//! Highest election term that this home directory has stored. Manifest records contain the term of their last write,
//! and writes with an earlier term are rejected. After the election record is lost, terms must therefore not restart at
//! 1.

use super::file::StateDatabase;
use super::{State, any, existing};
use akash_provider_core::election::TERM_MAX;
use redb::{ReadableDatabase, TableDefinition};
use std::sync::Arc;

/// Table of the highest election term by chain ID and account.
const TERMS: TableDefinition<'_, &str, u64> = TableDefinition::new("terms");

/// Store of the highest election term of one provider.
#[derive(Debug, Clone)]
pub struct Terms {
    database: Arc<StateDatabase>,
    key: String,
}

impl State {
    /// Returns the store for the highest election term of `account` on the chain `chain_id`.
    #[must_use]
    pub fn terms(&self, chain_id: &str, account: &str) -> Terms {
        Terms {
            database: Arc::clone(&self.database),
            key: format!("{chain_id} {account}"),
        }
    }
}

impl Terms {
    /// Returns the highest stored election term; 0 if no term is stored.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn highest(&self) -> Result<u64, redb::Error> {
        self.database.read(|database| {
            let read = database.begin_read().map_err(any)?;
            match existing(&read, TERMS)? {
                Some(terms) => {
                    let term = terms.get(self.key.as_str()).map_err(any)?;
                    // An earlier version may have stored a forged term.
                    let term = term.map(|term| term.value()).filter(|term| *term <= TERM_MAX);
                    Ok(term.unwrap_or(0))
                }
                None => Ok(0),
            }
        })
    }

    /// Stores an election term, unless a higher term is already stored.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn store(&self, term: u64) -> Result<(), redb::Error> {
        if self.highest()? >= term {
            return Ok(());
        }
        self.database.write(|database| {
            let write = database.begin_write().map_err(any)?;
            {
                let mut terms = write.open_table(TERMS).map_err(any)?;
                terms.insert(self.key.as_str(), term).map_err(any)?;
            }
            write.commit().map_err(any)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::OpenedState;
    use super::*;

    #[test]
    fn restores_the_highest_term() {
        let home = std::env::temp_dir().join(format!("terms-{}", std::process::id()));
        let open = || {
            let OpenedState { state, .. } = State::open(&home).unwrap();
            state
        };
        let state = open();
        let terms = state.terms("chain", "akash1x");
        assert_eq!(terms.highest().unwrap(), 0);
        terms.store(7).unwrap();
        terms.store(3).unwrap();
        drop((state, terms));
        let state = open();
        assert_eq!(state.terms("chain", "akash1x").highest().unwrap(), 7);
        let forged = state.terms("other", "akash1x");
        assert_eq!(forged.highest().unwrap(), 0);
        forged.store(u64::MAX).unwrap();
        assert_eq!(
            forged.highest().unwrap(),
            0,
            "a forged term must not block later terms"
        );
        forged.store(8).unwrap();
        assert_eq!(forged.highest().unwrap(), 8);
        drop(state);
        std::fs::remove_dir_all(&home).unwrap();
    }
}

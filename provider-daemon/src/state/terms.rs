//! The highest term of a leadership that this home has heard of. Records of leases say in which term they were written,
//! and nobody writes them in an earlier one: a store that forgot its terms, or another store, must not begin again at 1.

use super::{State, any};
use akash_provider_core::election::TERM_MAX;
use redb::{Database, ReadableDatabase, TableDefinition};
use std::sync::Arc;

/// Chain id and account to term.
const TERMS: TableDefinition<'_, &str, u64> = TableDefinition::new("terms");

/// The term of one provider.
#[derive(Debug, Clone)]
pub struct Terms {
    database: Arc<Database>,
    key: String,
}

impl State {
    /// The term of an account on a chain.
    #[must_use]
    pub fn terms(&self, chain_id: &str, account: &str) -> Terms {
        Terms {
            database: Arc::clone(&self.database),
            key: format!("{chain_id} {account}"),
        }
    }
}

impl Terms {
    /// The highest that was kept; 0 where there never was one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn highest(&self) -> Result<u64, redb::Error> {
        let read = self.database.begin_read().map_err(any)?;
        match read.open_table(TERMS) {
            Ok(terms) => {
                let term = terms.get(self.key.as_str()).map_err(any)?;
                // A forged term that an earlier version stored.
                let term = term.map(|term| term.value()).filter(|term| *term <= TERM_MAX);
                Ok(term.unwrap_or(0))
            }
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(0),
            Err(error) => Err(any(error)),
        }
    }

    /// Keeps a term, unless a higher one was kept.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, term: u64) -> Result<(), redb::Error> {
        if self.highest()? >= term {
            return Ok(());
        }
        let write = self.database.begin_write().map_err(any)?;
        {
            let mut terms = write.open_table(TERMS).map_err(any)?;
            terms.insert(self.key.as_str(), term).map_err(any)?;
        }
        write.commit().map_err(any)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Opened;
    use super::*;

    #[test]
    fn the_highest_term_outlives_a_restart_and_never_goes_back() {
        let home = std::env::temp_dir().join(format!("terms-{}", std::process::id()));
        let open = || {
            let Opened { state, .. } = State::open(&home).unwrap();
            state
        };
        let state = open();
        let terms = state.terms("chain", "akash1x");
        assert_eq!(terms.highest().unwrap(), 0);
        terms.keep(7).unwrap();
        terms.keep(3).unwrap();
        drop((state, terms));
        let state = open();
        assert_eq!(state.terms("chain", "akash1x").highest().unwrap(), 7);
        let forged = state.terms("other", "akash1x");
        assert_eq!(forged.highest().unwrap(), 0);
        forged.keep(u64::MAX).unwrap();
        assert_eq!(forged.highest().unwrap(), 0, "it does not use up all later terms");
        forged.keep(8).unwrap();
        assert_eq!(forged.highest().unwrap(), 8);
        drop(state);
        std::fs::remove_dir_all(&home).unwrap();
    }
}

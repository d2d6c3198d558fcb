//! Fees that an account paid in the last hour, per minute, so that the hourly limit survives a restart.
//!
//! The value changes with every transaction, so the writes are delayed. A crash loses at most one second.

use super::delayed_writer::DelayedWriter;
use super::{State, any, existing};
use akash_provider_chain::gas::{Cost, ExpenseStore, Minute};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::Address;
use redb::{Database, ReadableDatabase, TableDefinition};
use std::sync::Arc;

/// Table of paid fees by chain ID and account. A value has one row of [`ROW`] bytes for each minute with a
/// payment.
const SPENT: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("spent");
/// Size of a row in bytes: minute (8), gas (8) and fee (16), little-endian.
const ROW: usize = 32;
/// Maximum number of stored minutes; sufficient for one hour.
const ROWS_MAX: usize = 64;

/// Store of the fees that one account paid on one chain. Dropping the store writes pending values.
#[derive(Debug)]
pub struct Payments {
    writer: DelayedWriter<Vec<Minute>>,
}

impl State {
    /// Returns the store for the fees that an account paid on a chain in the last hour.
    ///
    /// # Errors
    /// Returns an error if the thread of the writer cannot be started.
    pub fn spent(&self, chain_id: &str, account: &Address) -> std::io::Result<Arc<dyn ExpenseStore>> {
        let key = format!("{chain_id} {account}");
        let writer = DelayedWriter::new(Arc::clone(&self.database), key, "fees", write)?;
        Ok(Arc::new(Payments { writer }))
    }
}

#[expect(clippy::ptr_arg, reason = "the writer passes its value by reference")]
fn write(database: &Database, key: &str, minutes: &Vec<Minute>) -> Result<(), redb::Error> {
    let rows: Vec<u8> = minutes.iter().flat_map(row).collect();
    let write = database.begin_write().map_err(any)?;
    {
        let mut spent = write.open_table(SPENT).map_err(any)?;
        spent.insert(key, rows.as_slice()).map_err(any)?;
    }
    write.commit().map_err(any)
}

fn row(minute: &Minute) -> [u8; ROW] {
    let mut row = [0; ROW];
    row[..8].copy_from_slice(&minute.at.to_le_bytes());
    row[8..16].copy_from_slice(&minute.paid.gas.to_le_bytes());
    row[16..].copy_from_slice(&minute.paid.fee.to_le_bytes());
    row
}

fn minute(row: &[u8]) -> Option<Minute> {
    let (at, rest) = row.split_first_chunk()?;
    let (gas, rest) = rest.split_first_chunk()?;
    Some(Minute {
        at: u64::from_le_bytes(*at),
        paid: Cost {
            gas: u64::from_le_bytes(*gas),
            fee: u128::from_le_bytes(rest.try_into().ok()?),
        },
    })
}

fn read(database: &Database, key: &str) -> Result<Vec<u8>, redb::Error> {
    let read = database.begin_read().map_err(any)?;
    match existing(&read, SPENT)? {
        Some(spent) => {
            let rows = spent.get(key).map_err(any)?;
            Ok(rows.map(|rows| rows.value().to_vec()).unwrap_or_default())
        }
        None => Ok(Vec::new()),
    }
}

impl ExpenseStore for Payments {
    fn load(&self) -> Result<Vec<Minute>, Error> {
        const OPERATION: &str = "read the payments of the last hour";
        if let Some(minutes) = self.writer.newest() {
            return Ok(minutes);
        }
        let key = self.writer.key();
        let rows = self.writer.database().read(|database| read(database, key));
        let rows = rows.map_err(|e| Error::new(ErrorKind::Unavailable, OPERATION, e.to_string()))?;
        let minutes: Option<Vec<Minute>> = rows.chunks(ROW).map(minute).collect();
        let minutes = minutes.filter(|minutes| minutes.len() <= ROWS_MAX);
        minutes.ok_or_else(|| {
            let message = format!("the stored fees have an invalid length of {} bytes", rows.len());
            Error::new(ErrorKind::Invalid, OPERATION, message)
        })
    }

    fn store(&self, minutes: Vec<Minute>) -> Result<(), Error> {
        let stored = self.writer.put(|_| Some(minutes));
        stored.map_err(|why| Error::new(ErrorKind::Unavailable, "store the payments", why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(number: u64) -> Vec<Minute> {
        let minute = |at| Minute {
            at,
            paid: Cost {
                gas: u64::MAX - at,
                fee: u128::MAX - u128::from(at),
            },
        };
        (0..number).map(minute).collect()
    }

    #[test]
    fn restores_the_payments_of_each_account() {
        let home = tempfile::tempdir().unwrap();
        let account = |number: u8| Address::from_bytes(&[number; 20]).unwrap();
        {
            let state = State::open(home.path()).unwrap().state;
            let spent = state.spent("akashnet-2", &account(1)).unwrap();
            assert_eq!(spent.load().unwrap(), []);
            for number in 0..=61 {
                spent.store(minutes(number)).unwrap();
            }
            assert_eq!(spent.load().unwrap(), minutes(61), "before the value is on disk");
        }
        let state = State::open(home.path()).unwrap().state;
        let payments = |chain, number| state.spent(chain, &account(number)).unwrap().load().unwrap();
        assert_eq!(payments("akashnet-2", 1), minutes(61));
        assert_eq!(payments("akashnet-2", 2), []);
        assert_eq!(payments("testnet", 1), []);
    }

    #[test]
    fn reports_unreadable_payments_and_overwrites_them() {
        let home = tempfile::tempdir().unwrap();
        let state = State::open(home.path()).unwrap().state;
        let account = Address::from_bytes(&[1; 20]).unwrap();
        for garbage in [vec![7; 33], vec![7; 31], vec![7; 65 * ROW], vec![7; 1 << 20]] {
            let key = format!("akashnet-2 {account}");
            let damage = |database: &Database| -> Result<(), redb::Error> {
                let write = database.begin_write()?;
                write
                    .open_table(SPENT)?
                    .insert(key.as_str(), garbage.as_slice())?;
                Ok(write.commit()?)
            };
            state.database.write(damage).unwrap();
            let error = state.spent("akashnet-2", &account).unwrap().load().unwrap_err();
            assert!(error.to_string().contains("bytes"), "{error}");
            let spent = state.spent("akashnet-2", &account).unwrap();
            spent.store(minutes(2)).unwrap();
            drop(spent);
            let spent = state.spent("akashnet-2", &account).unwrap();
            assert_eq!(spent.load().unwrap(), minutes(2));
        }
    }
}

//! Verified keys and certificates of tenants, so that tenants have access to logs and shells while the chain is
//! unavailable, even after a restart.
//!
//! An entry has some hundred bytes and is created by the first request of a tenant. Writes do not wait for the disk:
//! the next stored block height makes them durable, and lost entries are queried again on the chain.

use super::file::{StateDatabase, is_disk_failure};
use super::{State, any, existing};
use akash_provider_core::types::Address;
use akash_provider_gateway::auth::memory::{AuthStore, Fingerprint, PublicKeyBytes, STORED_MAX};
use redb::{
    Durability, Key, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table, TableDefinition,
    WriteTransaction,
};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Table of compressed public keys by account address. The key of an account never changes.
const KEYS: TableDefinition<'_, &str, &[u8; 33]> = TableDefinition::new("tenant-keys");
/// Table with the fingerprint of each certificate that was valid at the last chain query.
const CERTIFICATES: TableDefinition<'_, &[u8; 32], ()> = TableDefinition::new("tenant-certificates");

/// Table of the storage times of public keys, by account address. A key without a time counts as oldest.
const KEY_AGES: TableDefinition<'_, &str, u64> = TableDefinition::new("tenant-key-ages");
const CERTIFICATE_AGES: TableDefinition<'_, &[u8; 32], u64> = TableDefinition::new("tenant-certificate-ages");
/// Divisor for evictions: a full table loses 1/16 of its entries at once, because each eviction scans the
/// table.
const EVICTED_FRACTION: u64 = 16;

/// Store of tenant keys and certificates.
#[derive(Debug)]
pub struct Tenants {
    database: Arc<StateDatabase>,
    max: u64,
}

impl State {
    /// Returns the store of tenant keys and certificates.
    #[must_use]
    pub fn tenants(&self) -> Arc<dyn AuthStore> {
        Arc::new(Tenants {
            database: Arc::clone(&self.database),
            max: STORED_MAX,
        })
    }
}

impl Tenants {
    fn read_key(&self, account: &Address) -> Result<Option<PublicKeyBytes>, redb::Error> {
        self.database.read(|database| {
            let read = database.begin_read().map_err(any)?;
            match existing(&read, KEYS)? {
                Some(keys) => Ok(keys.get(account.as_str()).map_err(any)?.map(|key| *key.value())),
                None => Ok(None),
            }
        })
    }

    fn write_key(&self, account: &Address, key: &PublicKeyBytes) -> Result<(), redb::Error> {
        self.write(|write| {
            let mut keys = write.open_table(KEYS).map_err(any)?;
            let mut ages = write.open_table(KEY_AGES).map_err(any)?;
            // Only a new account needs space. Storing a key again does not change its age.
            if keys.get(account.as_str()).map_err(any)?.is_none() {
                let oldest = oldest(&keys, &ages, self.max, |key: &str| key.to_owned())?;
                for old in &oldest {
                    keys.remove(old.as_str()).map_err(any)?;
                    ages.remove(old.as_str()).map_err(any)?;
                }
                ages.insert(account.as_str(), now()).map_err(any)?;
            }
            keys.insert(account.as_str(), key).map_err(any)?;
            Ok(())
        })
    }

    fn read_certificate(&self, certificate: &Fingerprint) -> Result<bool, redb::Error> {
        self.database.read(|database| {
            let read = database.begin_read().map_err(any)?;
            match existing(&read, CERTIFICATES)? {
                Some(all) => Ok(all.get(certificate).map_err(any)?.is_some()),
                None => Ok(false),
            }
        })
    }

    fn write_certificate(&self, certificate: &Fingerprint, is_valid: bool) -> Result<(), redb::Error> {
        // Reads are cheap, but a write blocks all other writers of the file.
        if self.read_certificate(certificate)? == is_valid {
            return Ok(());
        }
        self.write(|write| {
            let mut all = write.open_table(CERTIFICATES).map_err(any)?;
            let mut ages = write.open_table(CERTIFICATE_AGES).map_err(any)?;
            if !is_valid {
                all.remove(certificate).map_err(any)?;
                ages.remove(certificate).map_err(any)?;
                return Ok(());
            }
            let oldest = oldest(&all, &ages, self.max, |key: &[u8; 32]| *key)?;
            for old in &oldest {
                all.remove(old).map_err(any)?;
                ages.remove(old).map_err(any)?;
            }
            ages.insert(certificate, now()).map_err(any)?;
            all.insert(certificate, ()).map_err(any)?;
            Ok(())
        })
    }

    fn write(
        &self,
        change: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), redb::Error> {
        self.database.write(|database| {
            let mut write = database.begin_write().map_err(any)?;
            write.set_durability(Durability::None).map_err(any)?;
            change(&write)?;
            write.commit().map_err(any)
        })
    }
}

/// Returns nanoseconds since the Unix epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the oldest entries, which a full table evicts; empty if the table is not full.
fn oldest<K: Key + 'static, V: redb::Value + 'static, O>(
    all: &Table<'_, K, V>,
    ages: &Table<'_, K, u64>,
    max: u64,
    own: impl Fn(K::SelfType<'_>) -> O,
) -> Result<Vec<O>, redb::Error> {
    if all.len().map_err(any)? < max {
        return Ok(Vec::new());
    }
    let mut by_age = Vec::new();
    for entry in all.iter().map_err(any)? {
        let (key, _) = entry.map_err(any)?;
        let age = ages.get(key.value()).map_err(any)?;
        by_age.push((age.map_or(0, |a| a.value()), own(key.value())));
    }
    by_age.sort_by_key(|(age, _)| *age);
    let go = usize::try_from((max / EVICTED_FRACTION).max(1)).unwrap_or(usize::MAX);
    Ok(by_age.into_iter().take(go).map(|(_, key)| key).collect())
}

/// Returns the value of `result`. Returns the default value for an error, so that the caller queries the
/// chain.
fn or_default<T: Default>(what: &str, result: Result<T, redb::Error>) -> T {
    result.unwrap_or_else(|error| {
        // Reported by the file once, and not for each request of a tenant.
        if is_disk_failure(&error) {
            return T::default();
        }
        tracing::warn!(what, %error, "cannot use the stored keys and certificates of tenants, querying the chain instead");
        T::default()
    })
}

impl AuthStore for Tenants {
    fn key(&self, account: &Address) -> Option<PublicKeyBytes> {
        or_default("read key", self.read_key(account))
    }
    fn store_key(&self, account: &Address, key: PublicKeyBytes) {
        or_default("store key", self.write_key(account, &key));
    }
    fn has_certificate(&self, certificate: &Fingerprint) -> bool {
        or_default("read certificate", self.read_certificate(certificate))
    }
    fn store_certificate(&self, certificate: Fingerprint) {
        or_default("store certificate", self.write_certificate(&certificate, true));
    }
    fn remove_certificate(&self, certificate: &Fingerprint) {
        or_default("remove certificate", self.write_certificate(certificate, false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: u8) -> Address {
        Address::from_bytes(&[number; 20]).unwrap()
    }

    #[test]
    fn restores_stored_records_and_no_removed_ones() {
        let home = tempfile::tempdir().unwrap();
        {
            let state = State::open(home.path()).unwrap().state;
            let tenants = state.tenants();
            assert_eq!(tenants.key(&account(1)), None);
            assert!(!tenants.has_certificate(&[1; 32]));
            tenants.store_key(&account(1), [7; 33]);
            tenants.store_certificate([1; 32]);
            tenants.store_certificate([2; 32]);
            tenants.remove_certificate(&[2; 32]);
            tenants.remove_certificate(&[3; 32]);
        }
        let state = State::open(home.path()).unwrap().state;
        let tenants = state.tenants();
        assert_eq!(tenants.key(&account(1)), Some([7; 33]));
        assert_eq!(tenants.key(&account(2)), None);
        let valid = [1, 2, 3].map(|n| tenants.has_certificate(&[n; 32]));
        assert_eq!(valid, [true, false, false]);
    }

    #[test]
    fn limits_the_number_of_records() {
        let home = tempfile::tempdir().unwrap();
        let state = State::open(home.path()).unwrap().state;
        let tenants = Tenants {
            database: Arc::clone(&state.database),
            max: 3,
        };
        for number in 0..10 {
            tenants.store_key(&account(number), [number; 33]);
            tenants.store_certificate([number; 32]);
        }
        let keys = (0..10).filter(|n| tenants.key(&account(*n)).is_some()).count();
        let certificates = (0..10).filter(|n| tenants.has_certificate(&[*n; 32])).count();
        assert_eq!((keys, certificates), (3, 3));
        // The latest record is among them.
        assert_eq!(tenants.key(&account(9)), Some([9; 33]));
    }

    #[test]
    fn evicts_the_oldest_record() {
        let home = tempfile::tempdir().unwrap();
        let state = State::open(home.path()).unwrap().state;
        let tenants = |max| Tenants {
            database: Arc::clone(&state.database),
            max,
        };
        // Records of an earlier version without times are older than all others.
        let write = |write: &WriteTransaction| {
            write
                .open_table(KEYS)
                .unwrap()
                .insert(account(8).as_str(), &[8; 33])
                .unwrap();
            Ok(())
        };
        tenants(3).write(write).unwrap();
        for number in [9, 5] {
            tenants(3).store_key(&account(number), [number; 33]);
        }
        for number in [9, 5, 4] {
            tenants(3).store_certificate([number; 32]);
        }
        // Storing a key again does not change its age.
        tenants(3).store_key(&account(9), [9; 33]);
        let there = || {
            let keys = (0..10).filter(|n| tenants(3).key(&account(*n)).is_some());
            keys.collect::<Vec<u8>>()
        };
        tenants(3).store_key(&account(1), [1; 33]);
        assert_eq!(there(), [1, 5, 9]);
        tenants(3).store_key(&account(2), [2; 33]);
        assert_eq!(there(), [1, 2, 5]);
        tenants(3).remove_certificate(&[5; 32]);
        tenants(3).store_certificate([1; 32]);
        tenants(3).store_certificate([2; 32]);
        let valid: Vec<u8> = (0..10)
            .filter(|n| tenants(3).has_certificate(&[*n; 32]))
            .collect();
        assert_eq!(valid, [1, 2, 4]);
    }
}

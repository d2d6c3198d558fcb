//! File of the order history: records by time, and the time of each order.

use super::Bounds;
use super::record::OrderRecord;
use crate::flight::wall_ms;
use crate::state::{self, StateError, any, existing};
use akash_provider_core::types::OrderId;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the history file in the home directory.
pub const FILE: &str = "orders.redb";
/// Minimum value of `--order-history-bytes`, in bytes.
pub const LIMIT_MIN: u64 = 64 << 10;
/// Version of the tables and records, incremented with every incompatible change.
const LAYOUT: u64 = 1;
/// Main table. Key: time of receipt and order ID. Value: JSON record.
const RECORDS: TableDefinition<'_, (u64, &str), &[u8]> = TableDefinition::new("orders");
/// Index by order. Key: order ID. Value: time of receipt, as in the key of [`RECORDS`].
const TIMES: TableDefinition<'_, &str, u64> = TableDefinition::new("order-times");

/// Records in the file.
#[derive(Debug, Clone)]
pub struct HistoryStore {
    database: Arc<Database>,
    /// Size of all keys and records, in bytes.
    bytes: Arc<AtomicU64>,
}

impl HistoryStore {
    /// Opens the history file in a home directory. A damaged file is moved aside and replaced by an empty
    /// file.
    ///
    /// # Errors
    /// Returns an error if a later program version wrote the file, another process uses the file, or the disk
    /// fails.
    pub fn open(home: &Path) -> Result<Self, StateError> {
        let path = home.join(FILE);
        let (database, _) = state::open_file(&path, LAYOUT)?;
        Self::with_database(database).map_err(|error| StateError::Database {
            path,
            source: Box::new(error),
        })
    }

    /// Opens the history file in a home directory, or returns `None` if the file does not exist.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub fn open_existing(home: &Path) -> Result<Option<Self>, StateError> {
        if home.join(FILE).exists() {
            Self::open(home).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Creates a store from an open database, and computes its size.
    pub(super) fn with_database(database: Database) -> Result<Self, redb::Error> {
        let store = Self {
            database: Arc::new(database),
            bytes: Arc::default(),
        };
        let mut bytes = 0;
        store.each_row(|order, record| {
            bytes += size(order, record);
            true
        })?;
        store.bytes.store(bytes, Ordering::Relaxed);
        Ok(store)
    }

    /// Returns the size of all keys and records, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Calls `visit` with each order ID and encoded record, newest first, until `visit` returns false.
    fn each_row(&self, mut visit: impl FnMut(&str, &[u8]) -> bool) -> Result<(), redb::Error> {
        let read = self.database.begin_read().map_err(any)?;
        let Some(table) = existing(&read, RECORDS)? else {
            return Ok(());
        };
        for row in table.iter().map_err(any)?.rev() {
            let (key, record) = row.map_err(any)?;
            let (_, order) = key.value();
            if !visit(order, record.value()) {
                break;
            }
        }
        Ok(())
    }

    /// Calls `visit` with each record, newest order first, until `visit` returns false. Skips undecodable
    /// records.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn each(&self, mut visit: impl FnMut(OrderRecord) -> bool) -> Result<(), redb::Error> {
        self.each_row(|_, record| serde_json::from_slice(record).map_or(true, &mut visit))
    }

    /// Returns the record of an order.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn get(&self, order: &OrderId) -> Result<Option<OrderRecord>, redb::Error> {
        let read = self.database.begin_read().map_err(any)?;
        let Some(times) = existing(&read, TIMES)? else {
            return Ok(None);
        };
        let order = order.to_string();
        let Some(time) = times.get(order.as_str()).map_err(any)? else {
            return Ok(None);
        };
        let records = read.open_table(RECORDS).map_err(any)?;
        let record = records.get((time.value(), order.as_str())).map_err(any)?;
        Ok(record.and_then(|record| serde_json::from_slice(record.value()).ok()))
    }

    /// Returns at most `limit` orders with an ID that starts with `prefix`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn orders_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<OrderId>, redb::Error> {
        let read = self.database.begin_read().map_err(any)?;
        let Some(times) = existing(&read, TIMES)? else {
            return Ok(Vec::new());
        };
        let mut orders = Vec::new();
        for row in times.range(prefix..).map_err(any)? {
            let (order, _) = row.map_err(any)?;
            if !order.value().starts_with(prefix) || orders.len() >= limit {
                break;
            }
            orders.extend(order.value().parse::<OrderId>().ok());
        }
        Ok(orders)
    }

    /// Writes records and removes the oldest records beyond `bounds`, in one transaction.
    ///
    /// # Errors
    /// Returns an error if the transaction fails. The file is then unchanged, and must be opened again before
    /// the next write.
    pub(super) fn write<'a>(
        &self,
        changed: impl Iterator<Item = &'a OrderRecord>,
        bounds: Bounds,
    ) -> Result<(), redb::Error> {
        let mut bytes = self.bytes();
        let write = self.database.begin_write().map_err(any)?;
        {
            let mut records = write.open_table(RECORDS).map_err(any)?;
            let mut times = write.open_table(TIMES).map_err(any)?;
            for record in changed {
                let order = record.order.to_string();
                let text = serde_json::to_vec(record).unwrap_or_default();
                let key = (record.seen.time, order.as_str());
                if let Some(old) = records.insert(key, text.as_slice()).map_err(any)? {
                    bytes = bytes.saturating_sub(size(&order, old.value()));
                }
                times.insert(order.as_str(), record.seen.time).map_err(any)?;
                bytes += size(&order, &text);
            }
            let age = u64::try_from(bounds.age.as_millis()).unwrap_or(u64::MAX);
            let first = wall_ms().saturating_sub(age);
            while let Some(oldest) = oldest_outside(&records, first, bytes > bounds.bytes)? {
                records
                    .remove((oldest.time, oldest.order.as_str()))
                    .map_err(any)?;
                times.remove(oldest.order.as_str()).map_err(any)?;
                bytes = bytes.saturating_sub(oldest.bytes);
            }
        }
        write.commit().map_err(any)?;
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

struct RecordKey {
    time: u64,
    order: String,
    bytes: u64,
}

/// Returns the key of the oldest record if `is_full` is true or the record is older than `first`.
fn oldest_outside(
    records: &impl ReadableTable<(u64, &'static str), &'static [u8]>,
    first: u64,
    is_full: bool,
) -> Result<Option<RecordKey>, redb::Error> {
    let Some((key, record)) = records.first().map_err(any)? else {
        return Ok(None);
    };
    let (time, order) = key.value();
    let is_outside = is_full || time < first;
    Ok(is_outside.then(|| RecordKey {
        time,
        order: order.to_owned(),
        bytes: size(order, record.value()),
    }))
}

/// Returns the total size of a record in the two tables, in bytes.
fn size(order: &str, record: &[u8]) -> u64 {
    // Each table stores the order and its time.
    2 * (order.len() as u64 + 8) + record.len() as u64
}

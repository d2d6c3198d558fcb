//! Delayed writes of a value that changes too often to be written to the disk each time.
//!
//! A separate thread writes the latest value, with a pause between writes. A crash loses at most one second; dropping
//! the writer stores the last value.

use super::file::StateDatabase;
use redb::Database;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two writes, because each write waits for the disk.
const WRITE_PAUSE: Duration = Duration::from_secs(1);

pub(super) type WriteFn<T> = fn(&Database, &str, &T) -> Result<(), redb::Error>;

/// Background writer that stores the latest value of one key. Dropping the writer stores a pending value.
#[derive(Debug)]
pub(super) struct DelayedWriter<T: fmt::Debug> {
    shared: Arc<DelayedValue<T>>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct DelayedValue<T> {
    database: Arc<StateDatabase>,
    key: String,
    write: WriteFn<T>,
    pending: Mutex<PendingValue<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct PendingValue<T> {
    /// Latest value, which is possibly not written yet. `None` before the first value.
    newest: Option<T>,
    /// True while the latest value is not stored.
    is_due: bool,
    /// Failure of the last write; removed after it is returned to the caller.
    failure: Option<String>,
    closing: bool,
}

impl<T: Clone + fmt::Debug + Send + 'static> DelayedWriter<T> {
    /// Creates a writer with its thread.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(super) fn new(
        database: Arc<StateDatabase>,
        key: String,
        name: &str,
        write: WriteFn<T>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(DelayedValue {
            database,
            key,
            write,
            pending: Mutex::new(PendingValue {
                newest: None,
                is_due: false,
                failure: None,
                closing: false,
            }),
            changed: Condvar::new(),
        });
        let at = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let writer = thread.spawn(move || at.write_pending())?;
        Ok(Self {
            shared,
            writer: Some(writer),
        })
    }
}

impl<T: Clone + fmt::Debug> DelayedWriter<T> {
    pub(super) fn database(&self) -> &StateDatabase {
        &self.shared.database
    }

    pub(super) fn key(&self) -> &str {
        &self.shared.key
    }

    pub(super) fn newest(&self) -> Option<T> {
        self.shared.pending().newest.clone()
    }

    /// Passes the latest value to `next` and stores the result. If the result is `None`, the value is
    /// unchanged.
    ///
    /// # Errors
    /// Returns the failure of an earlier write. The new value is written even in this case.
    pub(super) fn put(&self, next: impl FnOnce(Option<&T>) -> Option<T>) -> Result<(), String> {
        let mut pending = self.shared.pending();
        if let Some(next) = next(pending.newest.as_ref()) {
            pending.newest = Some(next);
            pending.is_due = true;
        }
        let failure = pending.failure.take();
        drop(pending);
        self.shared.changed.notify_one();
        failure.map_or(Ok(()), Err)
    }
}

impl<T: Clone> DelayedValue<T> {
    /// Writes new values until the writer is dropped.
    fn write_pending(&self) {
        loop {
            let mut pending = self.pending();
            while !pending.is_due && !pending.closing {
                pending = self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner);
            }
            // Read under one lock, so that a value set before the drop is written.
            let (due, closing) = (pending.newest.clone().filter(|_| pending.is_due), pending.closing);
            // The lock is released during the write, so that callers never wait for the disk.
            pending.is_due = false;
            drop(pending);
            if let Some(due) = due {
                let written = self
                    .database
                    .write(|database| (self.write)(database, &self.key, &due));
                self.pending().failure = written.err().map(|error| error.to_string());
            }
            if closing {
                return;
            }
            let pending = self.pending();
            // Dropping the writer ends the pause, so that a shutdown does not wait for it.
            drop(
                self.changed
                    .wait_timeout_while(pending, WRITE_PAUSE, |pending| !pending.closing),
            );
        }
    }
}

impl<T> DelayedValue<T> {
    fn pending(&self) -> MutexGuard<'_, PendingValue<T>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: fmt::Debug> Drop for DelayedWriter<T> {
    fn drop(&mut self) {
        self.shared.pending().closing = true;
        self.shared.changed.notify_one();
        if let Some(writer) = self.writer.take() {
            // Ends after at most one write. A panic of the thread was already reported.
            drop(writer.join());
        }
    }
}

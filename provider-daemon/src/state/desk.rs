//! What changes more often than a disk should be asked to write.
//!
//! The newest of it is put down, and a thread of its own writes that, with a pause between two writes. What a crash
//! loses is a second; what is there at the end is on disk.

use redb::Database;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two writes; a write waits for the disk.
const PAUSE: Duration = Duration::from_secs(1);

/// How one of them is written.
pub(super) type Write<T> = fn(&Database, &str, &T) -> Result<(), redb::Error>;

/// Keeps the newest of something under a key. When it is dropped, that is on disk.
#[derive(Debug)]
pub(super) struct Desk<T: fmt::Debug> {
    shared: Arc<Shared<T>>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<T> {
    database: Arc<Database>,
    key: String,
    write: Write<T>,
    slip: Mutex<Slip<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Slip<T> {
    /// What was put down last, on disk or not; `None` until the first.
    newest: Option<T>,
    /// It is not on disk yet.
    is_due: bool,
    /// Why the last write failed, until somebody was told.
    failure: Option<String>,
    closing: bool,
}

impl<T: Clone + fmt::Debug + Send + 'static> Desk<T> {
    /// A desk with its thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn new(
        database: Arc<Database>,
        key: String,
        name: &str,
        write: Write<T>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            database,
            key,
            write,
            slip: Mutex::new(Slip {
                newest: None,
                is_due: false,
                failure: None,
                closing: false,
            }),
            changed: Condvar::new(),
        });
        let at = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let writer = thread.spawn(move || at.keep())?;
        Ok(Self {
            shared,
            writer: Some(writer),
        })
    }
}

impl<T: Clone + fmt::Debug> Desk<T> {
    pub(super) fn database(&self) -> &Database {
        &self.shared.database
    }

    pub(super) fn key(&self) -> &str {
        &self.shared.key
    }

    /// What was put down last; `None` while nothing was.
    pub(super) fn newest(&self) -> Option<T> {
        self.shared.slip().newest.clone()
    }

    /// Puts down what `next` makes of what lies there; `None` leaves it.
    ///
    /// # Errors
    /// Why the last write failed; this one is tried anyhow.
    pub(super) fn put(&self, next: impl FnOnce(Option<&T>) -> Option<T>) -> Result<(), String> {
        let mut slip = self.shared.slip();
        if let Some(next) = next(slip.newest.as_ref()) {
            slip.newest = Some(next);
            slip.is_due = true;
        }
        let failure = slip.failure.take();
        drop(slip);
        self.shared.changed.notify_one();
        failure.map_or(Ok(()), Err)
    }
}

impl<T: Clone> Shared<T> {
    /// Writes what is due until the desk is dropped.
    fn keep(&self) {
        loop {
            let mut slip = self.slip();
            while !slip.is_due && !slip.closing {
                slip = self.changed.wait(slip).unwrap_or_else(PoisonError::into_inner);
            }
            // Read under one lock, so that what is put down before the desk closes is still written.
            let (due, closing) = (slip.newest.clone().filter(|_| slip.is_due), slip.closing);
            // The lock is free during the write: whoever puts something down never waits for the disk.
            slip.is_due = false;
            drop(slip);
            if let Some(due) = due {
                let written = (self.write)(&self.database, &self.key, &due);
                self.slip().failure = written.err().map(|error| error.to_string());
            }
            if closing {
                return;
            }
            let slip = self.slip();
            // A desk that closes ends the pause, or each stop would wait for it.
            drop(self.changed.wait_timeout_while(slip, PAUSE, |slip| !slip.closing));
        }
    }
}

impl<T> Shared<T> {
    fn slip(&self) -> MutexGuard<'_, Slip<T>> {
        self.slip.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: fmt::Debug> Drop for Desk<T> {
    fn drop(&mut self) {
        self.shared.slip().closing = true;
        self.shared.changed.notify_one();
        if let Some(writer) = self.writer.take() {
            // It ends after at most one write; a panic of it was said already.
            drop(writer.join());
        }
    }
}

//! Custom bus: events as lines of JSON in files, for programs that only read files.
//!
//! ```text
//!   folder/events-00000000000000000000.jsonl     the first 1024 events, one per line
//!   folder/events-00000000000000001024.jsonl     the next ones; of more than four files the oldest is removed
//!   folder/inventory.nodes.json                  the last event of a retained topic
//! ```
//! One program writes the files. Any number of programs subscribe by reading the files. Each line has a number, so a
//! slow reader detects the number of lost lines.

mod log;
mod tail;

use akash_provider_core::bus::{Bus, EventStream};
use akash_provider_core::types::{Event, Topic};
use akash_provider_core::{Error, ErrorKind};
use async_trait::async_trait;
use futures::stream::{self, StreamExt};
use log::Log;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tail::Tail;

/// Bus that stores events in files. Clones share the files.
#[derive(Debug, Clone)]
pub struct FileBus {
    folder: PathBuf,
    log: Arc<Mutex<Log>>,
}

impl FileBus {
    /// Opens the bus with files in `folder`, and continues after the last event. Creates a missing folder.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, Error> {
        let folder = folder.into();
        let log = Log::open(&folder).map_err(|e| unavailable("open the bus", e))?;
        Ok(Self {
            folder,
            log: Arc::new(Mutex::new(log)),
        })
    }
}

#[async_trait]
impl Bus for FileBus {
    async fn publish(&self, topic: Topic, event: Arc<Event>) -> Result<(), Error> {
        let log = Arc::clone(&self.log);
        // A blocking thread writes the line as a whole, also if the caller is dropped.
        on_disk("publish", move || {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.append(topic, &event)
        })
        .await
    }

    async fn subscribe(&self, topics: &[Topic]) -> Result<EventStream, Error> {
        let next = self.log.lock().unwrap_or_else(PoisonError::into_inner).next();
        let tail = Tail::new(self.folder.clone(), topics.to_vec(), next);
        Ok(stream::unfold(tail, Tail::deliver).boxed())
    }

    async fn last(&self, topic: Topic) -> Result<Option<Arc<Event>>, Error> {
        let folder = self.folder.clone();
        on_disk("read a retained event", move || log::retained(&folder, topic)).await
    }
}

async fn on_disk<T: Send + 'static>(
    operation: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|e| unavailable(operation, e)),
        Err(defect) => Err(Error::new(
            ErrorKind::Internal,
            operation,
            "the task that accesses the files failed",
        )
        .with_source(defect)),
    }
}

fn unavailable(operation: &'static str, error: io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, operation, "the folder of the bus").with_source(error)
}

/// Doc tests of the page `docs/writing-a-bus.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-bus.md")]
pub struct Guide;

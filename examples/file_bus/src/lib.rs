//! A bus of one's own: events are lines of JSON in files, for programs that can read files and nothing else.
//!
//! ```text
//!   folder/events-00000000000000000000.jsonl     the first 1024 events, a line each
//!   folder/events-00000000000000001024.jsonl     the next; the oldest of more than four files goes
//!   folder/inventory.nodes.json                  the last event of a retained topic
//! ```
//! One program writes; any number, also in other processes, subscribe by reading behind it. A line carries its
//! number, so a reader that is slower than files go knows how many it lost.

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

/// A bus of files. A clone is the same bus.
#[derive(Debug, Clone)]
pub struct FileBus {
    folder: PathBuf,
    log: Arc<Mutex<Log>>,
}

impl FileBus {
    /// The bus of this folder, which is made when it is missing; goes on after what is there.
    ///
    /// # Errors
    /// When the folder cannot be read or written.
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
        // On a thread for blocking work the line is written whole, also when nobody waits for it any more.
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
        Err(defect) => Err(Error::new(ErrorKind::Internal, operation, "the task failed").with_source(defect)),
    }
}

fn unavailable(operation: &'static str, error: io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, operation, "the folder of the bus").with_source(error)
}

/// The guide is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-bus.md")]
pub struct Guide;
